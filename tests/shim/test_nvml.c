// Tests NVML inside a vGPU of the simulated driver. A process outside the vGPU would see two devices.
#include "tenant.h"

#include "abi/nvml_abi.h"

static void *entry(const char *name)
{
	static void *library;

	if (!library)
		library = dlopen("libnvidia-ml.so", RTLD_NOW); // a program may use this name instead of the SONAME
	CHECK(library);
	void *address = dlsym(library, name);
	CHECK(address);
	return address;
}
#define CALL(name) ((__typeof__(&name))entry(#name))

#define LIMIT (256 * MIB)

static void view_body(void)
{
	nvmlProcessInfo_t processes[8];
	unsigned count = 0, index = 99;
	nvmlDevice_t device, other;
	nvmlMemory_v2_t memory2 = {.version = nvmlMemory_v2};
	nvmlMemory_t memory;
	CUdeviceptr address;
	CUcontext context;
	size_t free_bytes, total;

	CHECK_INT(cuInit(0), CUDA_SUCCESS);
	CHECK_INT(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
	CHECK_INT(cuCtxSetCurrent(context), CUDA_SUCCESS);
	CHECK_INT(cuMemAlloc_v2(&address, 64 * MIB), CUDA_SUCCESS);
	CHECK_INT(CALL(nvmlInit_v2)(), NVML_SUCCESS);
	CHECK_INT(CALL(nvmlDeviceGetCount_v2)(&count), NVML_SUCCESS);
	CHECK_INT(count, 1);
	CHECK_INT(CALL(nvmlDeviceGetHandleByIndex_v2)(0, &device), NVML_SUCCESS);
	CHECK_INT(CALL(nvmlDeviceGetHandleByIndex_v2)(1, &other), NVML_ERROR_INVALID_ARGUMENT);
	CHECK_INT(CALL(nvmlDeviceGetIndex)(device, &index), NVML_SUCCESS);
	CHECK_INT(index, 0);
	CHECK_INT(CALL(nvmlDeviceGetMemoryInfo)(device, &memory), NVML_SUCCESS);
	CHECK_INT(memory.total, LIMIT);
	CHECK_INT(memory.used, 80 * MIB);
	CHECK_INT(CALL(nvmlDeviceGetMemoryInfo_v2)(device, &memory2), NVML_SUCCESS);
	CHECK_INT(cuMemGetInfo_v2(&free_bytes, &total), CUDA_SUCCESS);
	// The second version of the call returns the same numbers.
	CHECK_INT(memory2.total, total);
	CHECK_INT(memory2.free, free_bytes);
	CHECK_INT(memory.free, free_bytes);
	count = 8;
	CHECK_INT(CALL(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, processes), NVML_SUCCESS);
	CHECK_INT(count, 1); // NVML does not show the process outside this vGPU
	CHECK_INT(processes[0].pid, getpid());
	count = 0;
	CHECK_INT(CALL(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, NULL), NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK_INT(count, 1);
}

TEST(nvml_shows_the_vgpu)
{
	int ready[2], done[2];
	char byte;

	tenant_new_ledger(LIMIT, 16 * MIB);
	CHECK_INT(pipe(ready) | pipe(done), 0);
	pid_t stranger = fork(); // this process uses the same device outside the vGPU
	CHECK(stranger >= 0);
	if (stranger == 0) {
		CUcontext context;
		alarm(60);
		close(done[1]);
		unsetenv("VIRGATE_LEDGER");
		CHECK_INT(cuInit(0), CUDA_SUCCESS);
		CHECK_INT(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
		close(ready[1]);
		_exit(read(done[0], &byte, 1) != 0);
	}
	close(ready[1]);
	close(done[0]);
	CHECK_INT(read(ready[0], &byte, 1), 0);
	int status = tenant_run(view_body);
	close(done[1]);
	waitpid(stranger, NULL, 0);
	CHECK_INT(status, 0);
}

static void whole_machine_body(void)
{
	unsigned count = 0;

	CHECK_INT(CALL(nvmlInit_v2)(), NVML_SUCCESS);
	CHECK_INT(CALL(nvmlDeviceGetCount_v2)(&count), NVML_SUCCESS);
	CHECK_INT(count, 2);
}

TEST(nvml_is_unchanged_outside_a_vgpu)
{
	tenant_new_ledger(LIMIT, 0);
	unsetenv("VIRGATE_LEDGER");
	CHECK_INT(tenant_run(whole_machine_body), 0);
}
