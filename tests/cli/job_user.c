// A program of a job. On all devices that it sees, in turn, it allocates blocks of 64 MiB until each device refuses. It
// frees them, and prints for each device how many blocks it got and how much memory is free at the end.
// With the argument `hold`, it waits with all memory allocated until it is killed. With `train SECONDS`, it runs steps
// in which kernels of each device wait for those of the other devices, and prints the number of steps. It ends with its
// parent.
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "abi/cuda_abi.h"

enum { DEVICES = 16, BLOCKS = 256, BLOCK = 64 << 20 };

static void *driver;
#define CALL(name) ((__typeof__(&name))dlsym(driver, #name))
#define MUST(call)                                                                  \
	do {                                                                        \
		CUresult result_ = call;                                            \
		if (result_ != CUDA_SUCCESS)                                        \
			return fprintf(stderr, "%s: %d\n", #call, (int)result_), 1; \
	} while (0)

static CUcontext contexts[DEVICES];
static struct block {
	CUdeviceptr address;
	CUmemGenericAllocationHandle handle;
} blocks[DEVICES][BLOCKS];
static int counts[DEVICES], count;

// The way in which a block is allocated. Successive blocks of a device use the three ways in turn.
enum kind { ADDRESS, HANDLE, POOL, KINDS };

static CUcontext other_context(int device)
{
	return contexts[(device + 1) % count];
}

static CUresult allocate(int device, int index)
{
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
	struct block *block = &blocks[device][index];
	CUmemoryPool pool;

	CALL(cuCtxSetCurrent)(index % KINDS == HANDLE ? other_context(device) : contexts[device]);
	switch (index % KINDS) {
	case ADDRESS:
		return CALL(cuMemAlloc_v2)(&block->address, BLOCK);
	case HANDLE:
		return CALL(cuMemCreate)(&block->handle, BLOCK, &properties, 0);
	default:
		if (CALL(cuDeviceGetDefaultMemPool)(&pool, device) != CUDA_SUCCESS)
			return CUDA_ERROR_UNKNOWN;
		return CALL(cuMemAllocFromPoolAsync)(&block->address, BLOCK, pool, CU_STREAM_LEGACY);
	}
}

static int allocate_all(void)
{
	int refused = 0;

	while (refused < count) {
		refused = 0;
		for (int i = 0; i < count; i++) {
			CUresult result = counts[i] < BLOCKS ? allocate(i, counts[i]) : CUDA_ERROR_OUT_OF_MEMORY;
			if (result == CUDA_SUCCESS)
				counts[i]++;
			else if (result == CUDA_ERROR_OUT_OF_MEMORY)
				refused++;
			else
				return fprintf(stderr, "block %d of device %d: %d\n", counts[i], i, (int)result), 1;
		}
	}
	return 0;
}

static int release(int device, int index)
{
	struct block *block = &blocks[device][index];

	// a free in stream order needs the context of its stream's device; the other frees must also work from a
	// context of another device
	MUST(CALL(cuCtxSetCurrent)(index % KINDS == POOL ? contexts[device] : other_context(device)));
	if (index % KINDS == HANDLE)
		MUST(CALL(cuMemRelease)(block->handle));
	else if (index % KINDS == ADDRESS)
		MUST(CALL(cuMemFree_v2)(block->address));
	else
		MUST(CALL(cuMemFreeAsync)(block->address, CU_STREAM_LEGACY));
	return 0;
}

static int free_all(void)
{
	CUmemoryPool pool;

	for (int i = 0; i < count; i++) {
		for (int j = 0; j < counts[i]; j++)
			if (release(i, j))
				return 1;
		MUST(CALL(cuCtxSetCurrent)(contexts[i]));
		MUST(CALL(cuCtxSynchronize)());
		MUST(CALL(cuCtxSetCurrent)(other_context(i)));
		MUST(CALL(cuDeviceGetDefaultMemPool)(&pool, i));
		MUST(CALL(cuMemPoolTrimTo)(pool, 0));
	}
	return 0;
}

static int print_device(int device)
{
	size_t total, free;

	MUST(CALL(cuDeviceTotalMem_v2)(&total, device));
	MUST(CALL(cuCtxSetCurrent)(contexts[device]));
	MUST(CALL(cuMemGetInfo_v2)(&free, &total));
	printf("device %d: total %zu MiB, got %d blocks, free %zu MiB\n", device, total >> 20, counts[device],
	       free >> 20);
	return 0;
}

static const char code[] = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry work()\n{\nret;\n}\n";

static struct {
	CUfunction work;
	CUstream stream;
	CUevent event;
} trainers[DEVICES];

static int prepare_training(void)
{
	for (int i = 0; i < count; i++) {
		CUmodule module;
		MUST(CALL(cuCtxSetCurrent)(contexts[i]));
		MUST(CALL(cuModuleLoadData)(&module, code));
		MUST(CALL(cuModuleGetFunction)(&trainers[i].work, module, "work"));
		MUST(CALL(cuStreamCreate)(&trainers[i].stream, CU_STREAM_NON_BLOCKING));
		MUST(CALL(cuEventCreate)(&trainers[i].event, CU_EVENT_DISABLE_TIMING));
	}
	return 0;
}

static int launch(int device, int kernels)
{
	MUST(CALL(cuCtxSetCurrent)(contexts[device]));
	for (int i = 0; i < kernels; i++)
		MUST(CALL(cuLaunchKernel)(trainers[device].work, 1, 1, 1, 1, 1, 1, 0, trainers[device].stream, NULL,
					  NULL));
	return 0;
}

// Runs kernels on each device. Then runs another kernel on each device, which waits for the first ones of all devices.
static int step(void)
{
	for (int i = 0; i < count; i++) {
		if (launch(i, 3))
			return 1;
		MUST(CALL(cuEventRecord)(trainers[i].event, trainers[i].stream));
	}
	for (int i = 0; i < count; i++) {
		MUST(CALL(cuCtxSetCurrent)(contexts[i]));
		for (int j = 0; j < count; j++)
			MUST(CALL(cuStreamWaitEvent)(trainers[i].stream, trainers[j].event, 0));
		if (launch(i, 1))
			return 1;
	}
	for (int i = 0; i < count; i++) {
		MUST(CALL(cuCtxSetCurrent)(contexts[i]));
		MUST(CALL(cuStreamSynchronize)(trainers[i].stream));
	}
	return 0;
}

static int train(int seconds)
{
	time_t end = time(NULL) + seconds;
	int steps = 0;

	if (prepare_training())
		return 1;
	while (time(NULL) < end) {
		if (step())
			return 1;
		steps++;
	}
	printf("steps: %d\n", steps);
	return 0;
}

int main(int argc, char **argv)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!driver)
		return fprintf(stderr, "%s\n", dlerror()), 1;
	MUST(CALL(cuInit)(0));
	MUST(CALL(cuDeviceGetCount)(&count));
	for (int i = 0; i < count && i < DEVICES; i++)
		MUST(CALL(cuDevicePrimaryCtxRetain)(&contexts[i], i));
	if (argc > 2 && strcmp(argv[1], "train") == 0)
		return train(atoi(argv[2]));
	if (allocate_all())
		return 1;
	if (argc > 1 && strcmp(argv[1], "hold") == 0) {
		puts("holding");
		fflush(stdout);
		pause();
	}
	if (free_all())
		return 1;
	printf("devices: %d\n", count);
	for (int i = 0; i < count; i++)
		if (print_device(i))
			return 1;
	return 0;
}
