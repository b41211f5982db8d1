// Tests VIRGATE_SIM_FAULT. Each specification runs in its own process.
#include "program.h"

#include <dlfcn.h>
#include <stdbool.h>

static void fail_third(void)
{
	CUdeviceptr address;
	primary(0);
	CU(cuMemAlloc_v2(&address, 4));
	CU(cuMemAlloc_v2(&address, 4));
	CHECK_INT(cuMemAlloc_v2(&address, 4), CUDA_ERROR_OUT_OF_MEMORY);
	CU(cuMemAlloc_v2(&address, 4));
}

static void fail_from_second_on(void)
{
	int count;
	CU(cuInit(0));
	CU(cuDeviceGetCount(&count));
	CHECK_INT(cuDeviceGetCount(&count), CUDA_ERROR_SYSTEM_NOT_READY);
	CHECK_INT(cuDeviceGetCount(&count), CUDA_ERROR_SYSTEM_NOT_READY);
}

static void fail_all(void)
{
	CUstream stream;
	primary(0);
	CHECK_INT(cuStreamCreate(&stream, 0), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_INT(cuStreamCreate(&stream, 0), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(the_nth_call_fails)
{
	run_with_fault("cuMemAlloc_v2:3=CUDA_ERROR_OUT_OF_MEMORY", fail_third);
}
TEST(calls_from_the_nth_on_fail)
{
	run_with_fault("cuDeviceGetCount:2+=CUDA_ERROR_SYSTEM_NOT_READY", fail_from_second_on);
}
TEST(every_call_fails)
{
	run_with_fault("cuStreamCreate=CUDA_ERROR_OUT_OF_MEMORY", fail_all);
}

static void exceed_memory(void)
{
	CUdeviceptr address;
	primary(0);
	CU(cuMemAlloc_v2(&address, 32 * MIB));
	CHECK_INT(cuMemAlloc_v2(&address, 64 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(device_memory_is_limited)
{
	run_with_fault("memory=100M", exceed_memory);
}

static void launch_slowly(void)
{
	struct timespec before, after;
	load_kernels();
	clock_gettime(CLOCK_MONOTONIC, &before);
	for (int i = 0; i < 5; i++)
		CU(LAUNCH(kernel("empty"), 1, 1, 0, NULL, NULL));
	CU(cuCtxSynchronize());
	clock_gettime(CLOCK_MONOTONIC, &after);
	CHECK((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000 >= 100);
}

TEST(operations_are_delayed)
{
	run_with_fault("slow=20ms", launch_slowly);
}

static void lose_device(void)
{
	CUdeviceptr address;
	load_kernels();
	CU(LAUNCH(kernel("empty"), 1, 1, 0, NULL, NULL));
	CHECK_INT(LAUNCH(kernel("empty"), 1, 1, 0, NULL, NULL), CUDA_ERROR_UNKNOWN);
	CHECK_INT(cuMemAlloc_v2(&address, 4), CUDA_ERROR_UNKNOWN);
	CHECK_INT(cuCtxSynchronize(), CUDA_ERROR_UNKNOWN);
}

TEST(calls_on_a_lost_device_fail)
{
	run_with_fault("slow=1us;lost@cuLaunchKernel:2", lose_device);
}

// Returns whether a driver function works after the devices are lost. It does if it uses no device. The list has such
// functions, and families (groups in src/abi/entries.def) of such functions.
static bool works_without_device(const char *entry, const char *family)
{
	static const char *const names[] = {"init",
					    "error",
					    "lookup",
					    "logs",
					    "device",
					    "primary",
					    "checkpoint",
					    "coredump",
					    "profiler",
					    "cuCtxGetCurrent",
					    "cuCtxSetCurrent",
					    "cuCtxPushCurrent",
					    "cuCtxPushCurrent_v2",
					    "cuCtxPopCurrent",
					    "cuCtxPopCurrent_v2",
					    "cuCtxGetDevice",
					    "cuCtxGetDevice_v2"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(names[i], family) == 0 || strcmp(names[i], entry) == 0)
			return true;
	return false;
}

static void call_all_entries(void)
{
	static const struct {
		const char *name, *family;
	} entries[] = {
#define ENTRY(abi, api, version, stream, family, need) {#abi, #family},
#include "abi/entries.def"
	};
	CUcontext current = NULL;
	int failed = 0, count;

	// the loop also calls functions that are not implemented, which must not be recorded
	unsetenv("VIRGATE_SIM_UNIMPLEMENTED");
	load_kernels();
	CHECK_INT(LAUNCH(kernel("empty"), 1, 1, 0, NULL, NULL), CUDA_ERROR_UNKNOWN);
	for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
		if (works_without_device(entries[i].name, entries[i].family))
			continue;
		CUresult (*call)(long, ...) = dlsym(RTLD_DEFAULT, entries[i].name);
		CHECK(call != NULL);
		// The arguments are invalid. The driver must return the injected error before it checks them.
		CUresult result = call(0, 0L, 0L, 0L, 0L, 0L, 0L, 0L, 0L, 0L, 0L, 0L, 0L);
		if (result == CUDA_ERROR_NOT_SUPPORTED) // not implemented
			continue;
		if (result != CUDA_ERROR_UNKNOWN)
			FAIL("%s returns %d", entries[i].name, result);
		failed++;
	}
	CHECK(failed > 400);
	CU(cuDeviceGetCount(&count));
	CU(cuCtxGetCurrent(&current));
	CHECK(current != NULL);
	CU(cuCtxPopCurrent_v2(&current));
	CU(cuCtxPushCurrent_v2(current));
	CHECK_INT(cuDevicePrimaryCtxRetain(&current, 0), CUDA_ERROR_UNKNOWN);
}

TEST(every_entry_fails_on_a_lost_device)
{
	run_with_fault("lost@cuLaunchKernel:1", call_all_entries);
}

static void fail_to_initialize(void)
{
	CHECK_INT(cuInit(0), CUDA_ERROR_INVALID_VALUE);
}

TEST(invalid_specifications_fail_initialization)
{
	static const struct {
		const char *specification, *words;
	} cases[] = {
		{"cuMemAlloc_v9=CUDA_ERROR_UNKNOWN", "not an entry point"},
		{"cuMemAlloc_v2:0=CUDA_ERROR_UNKNOWN", "not a call number"},
		{"cuMemAlloc_v2:x=CUDA_ERROR_UNKNOWN", "not a call number"},
		{"cuMemAlloc_v2:2=CUDA_ERROR_NONSENSE", "not an error of the driver"},
		{"cuMemAlloc_v2:2", "has no error"},
		{"slow=fast", "not a duration"},
		{"memory=much", "is not a size"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		run_with_fault(cases[i].specification, fail_to_initialize);
		CHECK_CONTAINS(output, "VIRGATE_SIM_FAULT");
		CHECK_CONTAINS(output, cases[i].words);
	}
}
