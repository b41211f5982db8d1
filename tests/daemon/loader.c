// A tenant with a limit of 512 MiB that checks what is charged for its modules and libraries. The exit status
// identifies the line of the first failure.
#include "abi/cuda_abi.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define LOAD(name) __typeof__(&name) p_##name = (__typeof__(&name))dlsym(driver, #name)
#define MUST(what)                                 \
	do {                                       \
		if (!(what))                       \
			return __LINE__ % 199 + 1; \
	} while (0)

static const char image[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
			    ".visible .global .align 8 .b8 big[67108864];\n" // 64 MiB
			    ".visible .entry k() { ret; }\n";
static const size_t mib = 1 << 20;
enum { FIT = 6, CONTEXT_MIB = 16, LIMIT_MIB = 512 };
static void *driver;

static size_t free_mib(void)
{
	LOAD(cuMemGetInfo_v2);
	size_t free = 0, total;

	p_cuMemGetInfo_v2(&free, &total);
	return free / mib;
}

// Waits until at least that many MiB are free. If the daemon measures after a module was loaded and before it is
// charged, the module counts twice: as charged and as undeclared memory. The next measurement corrects that.
static bool await_free(size_t least)
{
	for (int i = 0; i < 1000 && free_mib() < least; i++)
		usleep(10000);
	return free_mib() >= least;
}

// Loads and unloads modules several times, and checks that as much memory is free afterwards as before.
static int load_modules(void)
{
	CUmodule modules[FIT];
	CUdeviceptr address;
	LOAD(cuModuleLoadData);
	LOAD(cuModuleUnload);
	LOAD(cuMemAlloc_v2);

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < FIT; i++) {
			MUST(p_cuModuleLoadData(&modules[i], image) == CUDA_SUCCESS);
			MUST(free_mib() <= LIMIT_MIB - CONTEXT_MIB - 64 * (size_t)(i + 1));
			MUST(await_free(LIMIT_MIB - CONTEXT_MIB - 72 * (size_t)(i + 1)));
		}
		for (int i = 0; i < FIT; i++)
			MUST(p_cuModuleUnload(modules[i]) == CUDA_SUCCESS);
		MUST(await_free(LIMIT_MIB - CONTEXT_MIB - 8));
	}
	MUST(p_cuMemAlloc_v2(&address, 480 * mib) == CUDA_SUCCESS);
	return 0;
}

// Loads libraries. The driver loads their code lazily, so the interposer learns their size only afterwards. It unloads
// a library that exceeds the limit.
static int load_libraries(void)
{
	enum { MANY = 12 };
	CUlibrary library;
	CUdeviceptr address;
	size_t size;
	int loaded = 0;
	LOAD(cuLibraryLoadData);
	LOAD(cuLibraryGetGlobal);

	while (loaded < MANY && p_cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0) == CUDA_SUCCESS) {
		if (p_cuLibraryGetGlobal(&address, &size, library, "big") != CUDA_SUCCESS)
			break;
		loaded++;
	}
	MUST(loaded >= FIT);
	MUST(loaded * 64 <= LIMIT_MIB - CONTEXT_MIB);
	MUST(free_mib() < 72);
	MUST(p_cuLibraryGetGlobal(&address, &size, library, "big") == CUDA_ERROR_OUT_OF_MEMORY);
	return 0;
}

// Imports memory that only the import keeps allocated. The importing process never maps the memory, so the interposer
// does not learn its size from the import.
static int import_unmapped(void)
{
	enum { CHUNK_MIB = 64, MANY = 40 };
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemGenericAllocationHandle handle, other;
	int hidden = 0, descriptor;
	LOAD(cuMemCreate);
	LOAD(cuMemRelease);
	LOAD(cuMemExportToShareableHandle);
	LOAD(cuMemImportFromShareableHandle);

	while (hidden < MANY && p_cuMemCreate(&handle, CHUNK_MIB * mib, &properties, 0) == CUDA_SUCCESS) {
		MUST(p_cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
		     CUDA_SUCCESS);
		if (p_cuMemImportFromShareableHandle(&other, (void *)(intptr_t)descriptor,
						     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != CUDA_SUCCESS)
			break;
		close(descriptor);
		MUST(p_cuMemRelease(handle) == CUDA_SUCCESS);
		hidden++;
	}
	MUST(hidden >= LIMIT_MIB / CHUNK_MIB / 2);
	MUST(hidden * CHUNK_MIB <= LIMIT_MIB);
	return 0;
}

static int before_exec(char **argv)
{
	CUdeviceptr address;
	LOAD(cuMemAlloc_v2);

	MUST(p_cuMemAlloc_v2(&address, 400 * mib) == CUDA_SUCCESS);
	execl(argv[0], argv[0], "after", NULL);
	return 250;
}

static int after_exec(void)
{
	CUdeviceptr address;
	LOAD(cuMemAlloc_v2);

	MUST(p_cuMemAlloc_v2(&address, 400 * mib) == CUDA_SUCCESS);
	usleep(400000); // long enough for a measurement of the daemon
	MUST(free_mib() >= LIMIT_MIB - CONTEXT_MIB - 400 - 8);
	MUST(p_cuMemAlloc_v2(&address, 64 * mib) == CUDA_SUCCESS);
	return 0;
}

int main(int argc, char **argv)
{
	CUcontext context;

	driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!driver || argc < 2)
		return 251;
	LOAD(cuInit);
	LOAD(cuDevicePrimaryCtxRetain);
	LOAD(cuCtxSetCurrent);
	if (p_cuInit(0) || p_cuDevicePrimaryCtxRetain(&context, 0) || p_cuCtxSetCurrent(context))
		return 252;
	if (strcmp(argv[1], "modules") == 0)
		return load_modules();
	if (strcmp(argv[1], "libraries") == 0)
		return load_libraries();
	if (strcmp(argv[1], "imports") == 0)
		return import_unmapped();
	return strcmp(argv[1], "exec") == 0 ? before_exec(argv) : after_exec();
}
