// Loads the driver.
#include "driver.h"

#include <dlfcn.h>

struct rt_driver rt_driver;

static CUresult not_supported(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

static void *find_function(void *library, const char *name)
{
	void *function = dlsym(library, name);

	return function ? function : (void *)not_supported;
}

cudaError_t rt_driver_load(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	// The driver has this function since CUDA 12.0, which the runtime needs.
	if (!library || !dlsym(library, "cuLibraryLoadData"))
		return cudaErrorInsufficientDriver;
#define ENTRY(abi, api, version, stream, family, need) *(void **)&rt_driver.abi = find_function(library, #abi);
#include "abi/entries.def"
#undef ENTRY
#define ENTRY(name, parameters) *(void **)&rt_driver.name = find_function(library, #name);
	RT_OPENGL_ENTRIES(ENTRY)
#undef ENTRY
	return cudaSuccess;
}
