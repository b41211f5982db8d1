#include "driver/driver.h"

#include "base/mutex.h"
#include "driver/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

// Replaces a missing driver function of any type. On x86-64 the caller passes and removes the arguments, and every
// driver function returns a CUresult, so one replacement is enough.
static CUresult return_not_supported(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult return_not_initialized(void)
{
	return CUDA_ERROR_NOT_INITIALIZED;
}

static CUresult CUDAAPI name_error(CUresult error, const char **ret_name)
{
	*ret_name = error == CUDA_ERROR_NOT_INITIALIZED ? "CUDA_ERROR_NOT_INITIALIZED" : "another error";
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI explain_error(CUresult error, const char **ret_text)
{
	*ret_text =
		"this process was forked from one that used the driver: it has to start a program of its own (exec) "
		"to use it again";
	return CUDA_SUCCESS;
}

void vg_driver_refuse(const struct vg_driver *driver, struct vg_driver *ret_refusing)
{
	*ret_refusing = *driver;
#define ENTRY(abi, api, version, stream, family, need) \
	ret_refusing->abi = (VG_PFN(api, version, stream))(void (*)(void))return_not_initialized;
#include "abi/entries.def"
	ret_refusing->cuGetErrorName = name_error;
	ret_refusing->cuGetErrorString = explain_error;
}

static int fill_table(struct vg_driver *driver, void *library, char *problem, size_t capacity)
{
	enum { required = VG_DRIVER_UNSUITED, optional = 0 };

#define ENTRY(abi, api, version, stream, family, need)                                                          \
	driver->abi = (VG_PFN(api, version, stream))dlsym(library, #abi);                                       \
	if (!driver->abi) {                                                                                     \
		driver->abi = (VG_PFN(api, version, stream))(void (*)(void))return_not_supported;               \
		driver->missing[VG_ENTRY_##abi] = true;                                                         \
		if (need) {                                                                                     \
			snprintf(problem, capacity, "%s has no %s: a driver of version 570 or later is needed", \
				 driver->path, #abi);                                                           \
			return need;                                                                            \
		}                                                                                               \
	}
#include "abi/entries.def"
	return 0;
}

static int load_driver(struct vg_driver *driver, char *problem, size_t capacity)
{
	static char path[LIBRARY_PATH];

	int r = library_choose("VIRGATE_DRIVER", "libcuda.so.1", path, &driver->simulated, problem, capacity);
	if (r)
		return r;
	driver->path = path;
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		snprintf(problem, capacity, "no CUDA driver: %s", dlerror());
		return VG_DRIVER_ABSENT;
	}
	r = fill_table(driver, library, problem, capacity);
	if (r)
		dlclose(library);
	return r;
}

int vg_driver_load(const struct vg_driver **ret_driver, char *problem, size_t capacity)
{
	static struct vg_mutex lock;
	static struct vg_driver *loaded;
	int r = 0;

	vg_mutex_lock(&lock);
	if (!loaded) {
		struct vg_driver *driver = calloc(1, sizeof *driver);
		r = driver ? load_driver(driver, problem, capacity) : VG_DRIVER_ABSENT;
		if (!driver)
			snprintf(problem, capacity, "no memory for the driver's table");
		if (r)
			free(driver);
		else
			loaded = driver;
	}
	vg_mutex_unlock(&lock);
	if (r == 0)
		*ret_driver = loaded;
	return r;
}
