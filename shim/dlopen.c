// Programs ask for the driver by other names than its SONAME: libcuda.so (numba, Triton), or
// an absolute path. For those, by base name, dlopen answers with this library; everything
// else reaches the real dlopen untouched (cuda_exports.S has the exported function).
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "shim/next_dlopen.h"

void *(*shim_real_dlopen)(const char *file, int mode) __attribute__((visibility("hidden")));
const char *shim_dlopen_file(const char *file) __attribute__((visibility("hidden")));

static void find_next(void)
{
	if (__atomic_load_n(&shim_real_dlopen, __ATOMIC_RELAXED))
		return;
	void *next = dlsym(RTLD_NEXT, "dlopen");
	__atomic_store_n((void **)&shim_real_dlopen, next, __ATOMIC_RELAXED);
}

void *shim_next_dlopen(const char *file, int mode)
{
	find_next();
	return shim_real_dlopen(file, mode);
}

// "libcuda.so", "libcuda.so.1" and "libcuda.so.580.65.06", in any folder.
static bool names(const char *file, const char *library)
{
	const char *slash = strrchr(file, '/');
	const char *base = slash ? slash + 1 : file;
	size_t length = strlen(library);

	if (strncmp(base, library, length) != 0)
		return false;
	return base[length] == '\0' || (base[length] == '.' && base[length + 1] >= '0' && base[length + 1] <= '9');
}

// A SONAME that is already loaded is found before any file is opened: ours, if that library
// is preloaded. Where only one of the two is, the other name keeps its own meaning.
static bool is_interposed(const char *soname)
{
	void *handle = shim_real_dlopen(soname, RTLD_LAZY | RTLD_NOLOAD);

	if (!handle)
		return false;
	dlclose(handle);
	return true;
}

const char *shim_dlopen_file(const char *file)
{
	find_next();
	if (!file)
		return file;
	if (names(file, "libcuda.so"))
		return "libcuda.so.1";
	if (names(file, "libnvidia-ml.so") && is_interposed("libnvidia-ml.so.1"))
		return "libnvidia-ml.so.1";
	return file;
}
