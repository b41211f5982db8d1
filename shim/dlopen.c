// Exports a dlopen() that returns this library when a program loads the driver. Programs load the driver not only by
// its SONAME, but also as libcuda.so (numba, Triton) or by an absolute path. So this dlopen() compares the file's base
// name. All other files reach the real dlopen() unchanged. The exported function is in cuda_exports.S.
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "shim/next_dlopen.h"

void *(*shim_real_dlopen)(const char *file, int mode) __attribute__((visibility("hidden")));
const char *shim_dlopen_file(const char *file) __attribute__((visibility("hidden")));

static void find_real_dlopen(void)
{
	if (__atomic_load_n(&shim_real_dlopen, __ATOMIC_RELAXED))
		return;
	void *next = dlsym(RTLD_NEXT, "dlopen");
	__atomic_store_n((void **)&shim_real_dlopen, next, __ATOMIC_RELAXED);
}

void *shim_next_dlopen(const char *file, int mode)
{
	find_real_dlopen();
	return shim_real_dlopen(file, mode);
}

// Returns true for "libcuda.so", "libcuda.so.1" and "libcuda.so.580.65.06", in any directory.
static bool names_library(const char *file, const char *library)
{
	const char *slash = strrchr(file, '/');
	const char *base = slash ? slash + 1 : file;
	size_t length = strlen(library);

	if (strncmp(base, library, length) != 0)
		return false;
	return base[length] == '\0' || (base[length] == '.' && base[length + 1] >= '0' && base[length + 1] <= '9');
}

// Returns true if a library with this SONAME is loaded already. If the interposer for it is preloaded, that library is
// the interposer, because preloaded libraries come first. dlopen finds a loaded library before it opens a file. If no
// such library is loaded, shim_dlopen_file() leaves the program's file name unchanged.
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
	find_real_dlopen();
	if (!file)
		return file;
	if (names_library(file, "libcuda.so"))
		return "libcuda.so.1";
	if (names_library(file, "libnvidia-ml.so") && is_interposed("libnvidia-ml.so.1"))
		return "libnvidia-ml.so.1";
	return file;
}
