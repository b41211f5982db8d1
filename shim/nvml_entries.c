#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "shim/next_dlopen.h"
#include "shim/nvml_entries.h"
#include "shim/real.h"

void *shim_resolve(uint64_t row) __attribute__((visibility("hidden")));

static const char names[] =
#define NVML(name) #name "\0"
#include "abi/nvml.def"
	;

static bool loaded;
static pthread_once_t load_once = PTHREAD_ONCE_INIT;

static nvmlReturn_t answer_no_library(void)
{
	return NVML_ERROR_LIBRARY_NOT_FOUND;
}

static nvmlReturn_t answer_no_function(void)
{
	return NVML_ERROR_FUNCTION_NOT_FOUND;
}

// Calls the real dlopen, because the one of the CUDA interposer would return this library.
void *shim_next_dlopen(const char *file, int mode)
{
	void *(*next)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");

	return next ? next(file, mode) : NULL;
}

static void load_nvml(void)
{
	void *library = shim_real_load("libnvidia-ml.so.1", "VIRGATE_NVML");
	const char *name = names;

	for (unsigned int row = 0; row < SHIM_NVML_COUNT; row++, name += strlen(name) + 1) {
		void *target = library ? dlsym(library, name) : NULL;
		if (!target)
			target = library ? (void *)answer_no_function : (void *)answer_no_library;
		__atomic_store_n(&shim_slots[row], target, __ATOMIC_RELEASE);
	}
	loaded = library != NULL;
}

bool shim_nvml_loaded(void)
{
	pthread_once(&load_once, load_nvml);
	return loaded;
}

void *shim_resolve(uint64_t row)
{
	pthread_once(&load_once, load_nvml);
	return __atomic_load_n(&shim_slots[row], __ATOMIC_RELAXED);
}

// nvmlErrorString() is the only function that returns text. So it needs an answer of its own when NVML is not there.
SHIM_EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
	return shim_nvml_loaded() ? REAL(nvmlErrorString)(result) : "NVML Shared Library Not Found";
}
