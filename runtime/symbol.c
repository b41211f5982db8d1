// Finds the driver's kernels, functions and variables for the program's symbols.
#include <stdlib.h>

#include "generated.h"
#include "register.h"

cudaError_t rt_symbol_kernel(struct rt_symbol *symbol, CUkernel *ret_kernel)
{
	CUkernel kernel = atomic_load_explicit(&symbol->kernel, memory_order_acquire);
	CUlibrary library;

	if (!kernel) {
		RT_TRY(rt_image_load(symbol->image, &library));
		CUresult result = rt_driver.cuLibraryGetKernel(&kernel, library, symbol->name);
		if (result == CUDA_ERROR_NOT_FOUND)
			return cudaErrorInvalidDeviceFunction;
		RT_TRY(result);
		atomic_store_explicit(&symbol->kernel, kernel, memory_order_release);
	}
	*ret_kernel = kernel;
	return cudaSuccess;
}

cudaError_t rt_kernel_find(const void *function, CUkernel *ret_kernel)
{
	if (!function)
		return cudaErrorInvalidDeviceFunction;
	struct rt_symbol *symbol = rt_table_find(function);
	if (!symbol || (symbol->kind != RT_FUNCTION && symbol->kind != RT_KERNEL))
		return cudaErrorInvalidResourceHandle;
	return rt_symbol_kernel(symbol, ret_kernel);
}

cudaError_t rt_kernel_add(CUkernel kernel, CUlibrary library)
{
	if (rt_table_find(kernel))
		return cudaSuccess;
	struct rt_symbol *symbol = calloc(1, sizeof *symbol);
	if (!symbol)
		return cudaErrorMemoryAllocation;
	*symbol = (struct rt_symbol){.kind = RT_KERNEL, .key = kernel, .library = library};
	atomic_store(&symbol->kernel, kernel);
	return rt_table_add(symbol);
}

cudaError_t rt_function_find(const void *function, CUfunction *ret_function)
{
	CUkernel kernel;

	RT_TRY(rt_kernel_find(function, &kernel));
	return rt_error(rt_driver.cuKernelGetFunction(ret_function, kernel));
}

cudaError_t rt_variable_find(const void *name, CUdeviceptr *ret_address, size_t *ret_size)
{
	struct rt_symbol *symbol = name ? rt_table_find(name) : NULL;
	CUlibrary library;

	if (!symbol || (symbol->kind != RT_VARIABLE && symbol->kind != RT_MANAGED))
		return cudaErrorInvalidSymbol;
	if (symbol->kind == RT_MANAGED) {
		*ret_address = (CUdeviceptr)symbol->key;
		*ret_size = symbol->size;
		return cudaSuccess;
	}
	RT_TRY(rt_image_load(symbol->image, &library));
	CUresult result = rt_driver.cuLibraryGetGlobal(ret_address, ret_size, library, symbol->name);
	return result == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidSymbol : rt_error(result);
}

static cudaError_t get_symbol_address(void **address, const void *name)
{
	CUdeviceptr found;
	size_t size;

	if (!address)
		return cudaErrorInvalidValue;
	RT_TRY(rt_variable_find(name, &found, &size));
	*address = (void *)found;
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetSymbolAddress(void **devPtr, const void *symbol)
{
	RT_CALL(get_symbol_address(devPtr, symbol));
}

static cudaError_t get_symbol_size(size_t *ret_size, const void *name)
{
	CUdeviceptr found;
	size_t size;

	if (!ret_size)
		return cudaErrorInvalidValue;
	RT_TRY(rt_variable_find(name, &found, &size));
	*ret_size = size;
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetSymbolSize(size_t *size, const void *symbol)
{
	RT_CALL(get_symbol_size(size, symbol));
}

static cudaError_t get_function(cudaFunction_t *function, const void *stub)
{
	CUfunction found;

	if (!function)
		return cudaErrorInvalidValue;
	RT_TRY(rt_function_find(stub, &found));
	*function = found;
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetFuncBySymbol(cudaFunction_t *functionPtr, const void *symbolPtr)
{
	RT_CALL(get_function(functionPtr, symbolPtr));
}

static cudaError_t get_kernel(cudaKernel_t *ret_kernel, const void *stub)
{
	CUkernel kernel;

	if (!ret_kernel)
		return cudaErrorInvalidValue;
	RT_TRY(rt_kernel_find(stub, &kernel));
	RT_TRY(rt_kernel_add(kernel, NULL));
	*ret_kernel = (cudaKernel_t)kernel;
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetKernel(cudaKernel_t *kernelPtr, const void *entryFuncAddr)
{
	RT_CALL(get_kernel(kernelPtr, entryFuncAddr));
}
