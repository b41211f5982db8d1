// Implements the functions for libraries that the program loads, and for the driver's log.
#include "register.h"

cudaError_t CUDARTAPI cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *jitOptions,
					  void **jitOptionsValues, unsigned int numJitOptions,
					  enum cudaLibraryOption *libraryOptions, void **libraryOptionValues,
					  unsigned int numLibraryOptions)
{
	RT_CALL(rt_driver.cuLibraryLoadData((CUlibrary *)library, code, (CUjit_option *)jitOptions, jitOptionsValues,
					    numJitOptions, (CUlibraryOption *)libraryOptions, libraryOptionValues,
					    numLibraryOptions));
}

cudaError_t CUDARTAPI cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *fileName,
					      enum cudaJitOption *jitOptions, void **jitOptionsValues,
					      unsigned int numJitOptions, enum cudaLibraryOption *libraryOptions,
					      void **libraryOptionValues, unsigned int numLibraryOptions)
{
	RT_CALL(rt_driver.cuLibraryLoadFromFile((CUlibrary *)library, fileName, (CUjit_option *)jitOptions,
						jitOptionsValues, numJitOptions, (CUlibraryOption *)libraryOptions,
						libraryOptionValues, numLibraryOptions));
}

static cudaError_t unload_library(cudaLibrary_t library)
{
	RT_TRY(rt_driver.cuLibraryUnload((CUlibrary)library));
	rt_table_remove_library((CUlibrary)library);
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaLibraryUnload(cudaLibrary_t library)
{
	RT_CALL(unload_library(library));
}

static cudaError_t get_kernel(cudaKernel_t *ret_kernel, cudaLibrary_t library, const char *name)
{
	CUkernel kernel;

	if (!ret_kernel)
		return cudaErrorInvalidValue;
	RT_TRY(rt_driver.cuLibraryGetKernel(&kernel, (CUlibrary)library, name));
	RT_TRY(rt_kernel_add(kernel, (CUlibrary)library));
	*ret_kernel = (cudaKernel_t)kernel;
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaLibraryGetKernel(cudaKernel_t *pKernel, cudaLibrary_t library, const char *name)
{
	RT_CALL(get_kernel(pKernel, library, name));
}

cudaError_t CUDARTAPI cudaLibraryGetGlobal(void **dptr, size_t *bytes, cudaLibrary_t library, const char *name)
{
	RT_CALL(rt_driver.cuLibraryGetGlobal((CUdeviceptr *)dptr, bytes, (CUlibrary)library, name));
}

cudaError_t CUDARTAPI cudaLibraryGetManaged(void **dptr, size_t *bytes, cudaLibrary_t library, const char *name)
{
	RT_CALL(rt_driver.cuLibraryGetManaged((CUdeviceptr *)dptr, bytes, (CUlibrary)library, name));
}

cudaError_t CUDARTAPI cudaLibraryGetUnifiedFunction(void **fptr, cudaLibrary_t library, const char *symbol)
{
	RT_CALL(rt_driver.cuLibraryGetUnifiedFunction(fptr, (CUlibrary)library, symbol));
}

cudaError_t CUDARTAPI cudaLibraryGetKernelCount(unsigned int *count, cudaLibrary_t lib)
{
	RT_CALL(rt_driver.cuLibraryGetKernelCount(count, (CUlibrary)lib));
}

static cudaError_t enumerate_kernels(cudaKernel_t *kernels, unsigned capacity, cudaLibrary_t library)
{
	unsigned count;

	RT_TRY(rt_driver.cuLibraryGetKernelCount(&count, (CUlibrary)library));
	RT_TRY(rt_driver.cuLibraryEnumerateKernels((CUkernel *)kernels, capacity, (CUlibrary)library));
	for (unsigned i = 0; i < capacity && i < count; i++)
		RT_TRY(rt_kernel_add((CUkernel)kernels[i], (CUlibrary)library));
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned int numKernels, cudaLibrary_t lib)
{
	RT_CALL(enumerate_kernels(kernels, numKernels, lib));
}

cudaError_t CUDARTAPI cudaLogsRegisterCallback(cudaLogsCallback_t callbackFunc, void *userData,
					       cudaLogsCallbackHandle *callback_out)
{
	RT_CALL_INITIALIZED(rt_driver.cuLogsRegisterCallback((CUlogsCallback)callbackFunc, userData,
							     (CUlogsCallbackHandle *)callback_out));
}

cudaError_t CUDARTAPI cudaLogsUnregisterCallback(cudaLogsCallbackHandle callback)
{
	RT_CALL_INITIALIZED(rt_driver.cuLogsUnregisterCallback((CUlogsCallbackHandle)callback));
}

cudaError_t CUDARTAPI cudaLogsCurrent(cudaLogIterator *iterator_out, unsigned int flags)
{
	RT_CALL_INITIALIZED(rt_driver.cuLogsCurrent((CUlogIterator *)iterator_out, flags));
}

cudaError_t CUDARTAPI cudaLogsDumpToFile(cudaLogIterator *iterator, const char *pathToFile, unsigned int flags)
{
	RT_CALL_INITIALIZED(rt_driver.cuLogsDumpToFile((CUlogIterator *)iterator, pathToFile, flags));
}

cudaError_t CUDARTAPI cudaLogsDumpToMemory(cudaLogIterator *iterator, char *buffer, size_t *size, unsigned int flags)
{
	RT_CALL_INITIALIZED(rt_driver.cuLogsDumpToMemory((CUlogIterator *)iterator, buffer, size, flags));
}
