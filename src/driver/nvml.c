#include "driver/nvml.h"

#include "base/mutex.h"
#include "driver/library.h"

#include <dlfcn.h>
#include <stdio.h>

static nvmlReturn_t return_not_found(void)
{
	return NVML_ERROR_FUNCTION_NOT_FOUND;
}

static int load_nvml(struct vg_nvml *nvml, char *problem, size_t capacity)
{
	char path[LIBRARY_PATH];

	int r = library_choose("VIRGATE_NVML", "libnvidia-ml.so.1", path, &nvml->simulated, problem, capacity);
	if (r)
		return r;
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		snprintf(problem, capacity, "no NVML: %s", dlerror());
		return 1;
	}
#define X(name)                                                \
	nvml->name = (__typeof__(&name))dlsym(library, #name); \
	if (!nvml->name)                                       \
		nvml->name = (__typeof__(&name))(void (*)(void))return_not_found;
	VG_NVML_CALLS(X)
#undef X
	nvml->sim_directory = (const char *(*)(void))dlsym(library, "virgate_sim_directory");
	return 0;
}

int vg_nvml_load(const struct vg_nvml **ret_nvml, char *problem, size_t capacity)
{
	static struct vg_mutex lock;
	static struct vg_nvml nvml;
	static bool loaded;

	vg_mutex_lock(&lock);
	int r = loaded ? 0 : load_nvml(&nvml, problem, capacity);
	loaded = r == 0;
	vg_mutex_unlock(&lock);
	if (r == 0)
		*ret_nvml = &nvml;
	return r;
}
