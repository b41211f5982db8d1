// Error names; errors that stick to a context and errors that do not.
#include "conformance.h"

CONFORM(names)
{
	const char *text = NULL;

	WORKS(cuGetErrorName(CUDA_SUCCESS, &text));
	CHECK_STR(text, "CUDA_SUCCESS");
	WORKS(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
	CHECK_STR(text, "CUDA_ERROR_OUT_OF_MEMORY");
	WORKS(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
	CHECK_STR(text, "out of memory");
	WORKS(cuGetErrorString(CUDA_ERROR_INVALID_VALUE, &text));
	CHECK_STR(text, "invalid argument");
	WORKS(cuGetErrorString(CUDA_SUCCESS, &text));
	CHECK_STR(text, "no error");
	text = "left";
	GIVES(cuGetErrorName(12345, &text), CUDA_ERROR_INVALID_VALUE);
	HOLDS(text == NULL);
	text = "left";
	GIVES(cuGetErrorString(12345, &text), CUDA_ERROR_INVALID_VALUE);
	HOLDS(text == NULL);
}

static CUfunction basic(const char *name)
{
	need_context();
	return need_function(need_module(ptx_basic), name);
}

static CUresult run_store(CUfunction store, CUdeviceptr address)
{
	unsigned value = 1;
	void *arguments[] = {&address, &value};
	CUresult result = cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL);

	return result != CUDA_SUCCESS ? result : cuCtxSynchronize();
}

static void check_stuck(CUresult error)
{
	CUdeviceptr address;
	CUstream stream;
	CUevent event;
	CUmodule module;
	CUcontext current = NULL;
	CUdevice where = -1;
	size_t available = 0, total = 0;
	int value = 0;

	GIVES(cuCtxSynchronize(), error);
	GIVES(cuCtxSynchronize(), error);
	GIVES(cuStreamQuery(NULL), error);
	GIVES(cuStreamSynchronize(NULL), error);
	GIVES(cuMemAlloc(&address, 4096), error);
	GIVES(cuMemGetInfo(&available, &total), error);
	GIVES(cuStreamCreate(&stream, 0), error);
	GIVES(cuEventCreate(&event, 0), error);
	GIVES(cuModuleLoadData(&module, ptx_basic), error);
	WORKS(cuDeviceGetCount(&value));
	WORKS(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
	WORKS(cuCtxGetCurrent(&current));
	HOLDS(current == context);
	WORKS(cuCtxGetDevice(&where));
}

CHILD(illegal_address)
{
	CUfunction store = basic("store");
	CUdeviceptr before, after;
	CUstream stream;
	CUevent event;

	NEED(cuMemAlloc(&before, 4096));
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	NEED(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	GIVES(run_store(store, 0x10), CUDA_ERROR_ILLEGAL_ADDRESS);
	check_stuck(CUDA_ERROR_ILLEGAL_ADDRESS);
	// what was there before, too
	GIVES(cuStreamQuery(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	GIVES(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	GIVES(cuEventRecord(event, stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	GIVES(cuMemAllocAsync(&after, 4096, stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	GIVES(cuMemFree(before), CUDA_ERROR_ILLEGAL_ADDRESS);
	GIVES(cuMemsetD8(before, 0, 16), CUDA_ERROR_ILLEGAL_ADDRESS);
	// the process is lost, not only the context: a reset works and helps nothing
	WORKS(cuDevicePrimaryCtxReset(device));
	GIVES(cuDevicePrimaryCtxRetain(&context, device), CUDA_ERROR_ILLEGAL_ADDRESS);
}

CHILD(misaligned_address)
{
	CUfunction store = basic("store");
	CUdeviceptr address;

	NEED(cuMemAlloc(&address, 4096));
	GIVES(run_store(store, address + 2), CUDA_ERROR_MISALIGNED_ADDRESS);
	check_stuck(CUDA_ERROR_MISALIGNED_ADDRESS);
}

CHILD(trap)
{
	CUfunction trapped = basic("trapped");

	NEED(cuLaunchKernel(trapped, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	GIVES(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
	check_stuck(CUDA_ERROR_LAUNCH_FAILED);
}

CHILD(memory_past_a_block)
{
	CUfunction store = basic("store");
	CUdeviceptr address;

	NEED(cuMemAlloc(&address, 16 * MiB));
	WORKS(run_store(store, address + 16 * MiB - 4));
	NEED(cuMemFree(address));
	GIVES(run_store(store, address), CUDA_ERROR_ILLEGAL_ADDRESS);
}

CONFORM(illegal_address_sticks_for_good)
{
	run_child("illegal_address", NULL);
}

CONFORM(misaligned_address_sticks)
{
	run_child("misaligned_address", NULL);
}

CONFORM(trap_is_launch_failed)
{
	run_child("trap", NULL);
}

CONFORM(freed_memory_faults)
{
	run_child("memory_past_a_block", NULL);
}

CONFORM(refused_calls_do_not_stick)
{
	CUdeviceptr address;
	unsigned char byte;
	CUfunction empty = basic("empty");

	GIVES(cuMemAlloc(&address, (size_t)1 << 50), CUDA_ERROR_OUT_OF_MEMORY);
	WORKS(cuCtxSynchronize());
	GIVES(cuMemAlloc(&address, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
	GIVES(cuMemcpyDtoH(&byte, 0x10, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemsetD8(0x10, 0, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuLaunchKernel(empty, 1, 1, 1, 4096, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuCtxSynchronize());
	WORKS(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	WORKS(cuCtxSynchronize());
}

CONFORM(a_forked_child_has_no_driver)
{
	need_context();
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		CUdeviceptr address;
		size_t available, total;
		int count, version;
		CUcontext current;

		differences = 0;
		GIVES(cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
		GIVES(cuMemGetInfo(&available, &total), CUDA_ERROR_NOT_INITIALIZED);
		GIVES(cuMemAlloc(&address, 1024), CUDA_ERROR_NOT_INITIALIZED);
		GIVES(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
		GIVES(cuCtxGetCurrent(&current), CUDA_ERROR_NOT_INITIALIZED);
		WORKS(cuDriverGetVersion(&version));
		_exit(differences ? 1 : 0);
	}
	EQUALS(wait_child(child), 0);
	WORKS(cuCtxSynchronize());
}
