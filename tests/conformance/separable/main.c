// Tests separable compilation (nvcc -rdc=true). nvcc passes the runtime library an image in a wrapper of version 2;
// this program loads the image through the driver. The functions below replace the runtime library's registration, and
// keep the wrapper.
#include "../conformance.h"

struct wrapper {
	unsigned magic, version;
	const void *data;
	void *const *modules;
};

static struct wrapper *registered;
static unsigned functions, variables;

// Functions that the code of nvcc calls. The tests load and launch through the driver.
void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device_function, const char *name);
void __cudaRegisterVar(void **handle, char *host, char *address, const char *name);
int __cudaInitModule(void);
int __cudaGetKernel(void);
int __cudaPopCallConfiguration(void);
int __cudaLaunchKernel(void);
int cudaLaunchKernel(void);

void **__cudaRegisterFatBinary(void *wrapper)
{
	registered = wrapper;
	return wrapper;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
	(void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
	(void)handle;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device_function, const char *name)
{
	functions += handle == (void **)registered && host && device_function && name;
}

void __cudaRegisterVar(void **handle, char *host, char *address, const char *name)
{
	variables += handle == (void **)registered && host && address && name;
}

int __cudaInitModule(void)
{
	return 1;
}

int __cudaGetKernel(void)
{
	return 1;
}

int __cudaPopCallConfiguration(void)
{
	return 1;
}

int __cudaLaunchKernel(void)
{
	return 1;
}

int cudaLaunchKernel(void)
{
	return 1;
}

CONFORM(wrapper)
{
	EQUALS(registered->magic, 0x466243b1);
	EQUALS(registered->version, 2);
	EQUALS(functions, 2);
	HOLDS(variables > 0);
}

static void launch(CUfunction function, CUdeviceptr out, int *found, size_t bytes)
{
	void *parameters[] = {&out};

	NEED(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
	NEED(cuCtxSynchronize());
	NEED(cuMemcpyDtoH(found, out, bytes));
}

static void check_program(CUfunction first, CUfunction second, CUdeviceptr counter)
{
	CUdeviceptr out;
	int found[6] = {0}, value = 0;

	NEED(cuMemAlloc(&out, sizeof found));
	launch(first, out, found, sizeof found);
	EQUALS(found[0], 11);
	EQUALS(found[1], 1002);
	EQUALS(found[2], 49 + 14);
	EQUALS(found[3], 46);
	EQUALS(found[4], 81);
	EQUALS(found[5], 55);
	NEED(cuMemcpyDtoH(&value, counter, sizeof value));
	EQUALS(value, 77);
	value = 1000;
	NEED(cuMemcpyHtoD(counter, &value, sizeof value));
	launch(second, out, found, sizeof found);
	EQUALS(found[0], 1000);
	EQUALS(found[1], 1018);
	EQUALS(found[2], 2);
	WORKS(cuMemFree(out));
}

CONFORM(module)
{
	CUmodule module;

	need_context();
	// an image in a wrapper of version 2 can only be loaded as a library, not as a module
	GIVES(cuModuleLoadData(&module, registered), CUDA_ERROR_INVALID_IMAGE);
}

CONFORM(library)
{
	CUlibrary library;
	CUkernel first, second;
	CUdeviceptr counter;
	size_t size;
	unsigned count;

	need_context();
	NEED(cuLibraryLoadData(&library, registered, NULL, NULL, 0, NULL, NULL, 0));
	NEED(cuLibraryGetKernel(&first, library, "first"));
	NEED(cuLibraryGetKernel(&second, library, "second"));
	NEED(cuLibraryGetGlobal(&counter, &size, library, "shared_counter"));
	WORKS(cuLibraryGetKernelCount(&count, library));
	EQUALS(count, 2);
	check_program((CUfunction)first, (CUfunction)second, counter);
	WORKS(cuLibraryUnload(library));
}
