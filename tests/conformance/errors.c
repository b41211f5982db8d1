// Tests error names, errors that make a context unusable (sticky errors), and other errors.
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
	// Calls with objects that existed before the fault fail, too.
	GIVES(cuStreamQuery(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	GIVES(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	GIVES(cuEventRecord(event, stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	GIVES(cuMemAllocAsync(&after, 4096, stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	GIVES(cuMemFree(before), CUDA_ERROR_ILLEGAL_ADDRESS);
	GIVES(cuMemsetD8(before, 0, 16), CUDA_ERROR_ILLEGAL_ADDRESS);
	// the whole process is unusable, not only the context: a reset succeeds, but has no effect
	WORKS(cuDevicePrimaryCtxReset(device));
	GIVES(cuDevicePrimaryCtxRetain(&context, device), CUDA_ERROR_ILLEGAL_ADDRESS);
}

// Objects that are created before the fault.
struct survivors {
	CUmodule module;
	CUfunction store, empty;
	CUstream stream;
	CUevent event;
	CUgraph graph;
	CUgraphExec exec;
	CUmemoryPool pool;
	CUmemPoolProps pool_properties;
	CUmemAllocationProp piece_properties;
	CUmemGenericAllocationHandle piece;
	CUdeviceptr memory, range;
	void *host;
};

static void make_survivors(struct survivors *s)
{
	need_context();
	s->module = need_module(ptx_basic);
	s->store = need_function(s->module, "store");
	s->empty = need_function(s->module, "empty");
	NEED(cuStreamCreate(&s->stream, CU_STREAM_NON_BLOCKING));
	NEED(cuEventCreate(&s->event, 0));
	NEED(cuEventRecord(s->event, s->stream));
	NEED(cuGraphCreate(&s->graph, 0));
	NEED(cuGraphAddEmptyNode(&(CUgraphNode){NULL}, s->graph, NULL, 0));
	NEED(cuGraphInstantiateWithFlags(&s->exec, s->graph, 0));
	s->piece_properties = (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
						    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
	s->pool_properties =
		(CUmemPoolProps){.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = s->piece_properties.location};
	NEED(cuMemPoolCreate(&s->pool, &s->pool_properties));
	NEED(cuMemCreate(&s->piece, 2 * MiB, &s->piece_properties, 0));
	NEED(cuMemAddressReserve(&s->range, 2 * MiB, 0, 0, 0));
	NEED(cuMemAlloc(&s->memory, 4096));
	NEED(cuMemAllocHost(&s->host, 4096));
	GIVES(run_store(s->store, 0x10), CUDA_ERROR_ILLEGAL_ADDRESS);
}

// Tests calls that still succeed after a fault: they only look up names or addresses, or use no context.
CHILD(what_goes_on_after_a_fault)
{
	CUgraph graph;
	CUmemGenericAllocationHandle piece;
	CUdeviceptr range;
	CUmemoryPool pool;
	CUlibrary library;
	CUcontext current;
	size_t count = 0;
	unsigned flags;
	int active = 0, type = 0;
	struct survivors s;

	make_survivors(&s);
	WORKS(cuGraphCreate(&graph, 0));
	WORKS(cuGraphAddEmptyNode(&(CUgraphNode){NULL}, s.graph, NULL, 0));
	WORKS(cuGraphGetNodes(s.graph, NULL, &count));
	EQUALS(count, 2);
	WORKS(cuGraphExecDestroy(s.exec));
	WORKS(cuGraphDestroy(s.graph));
	WORKS(cuMemAddressReserve(&range, 2 * MiB, 0, 0, 0));
	WORKS(cuMemCreate(&piece, 2 * MiB, &s.piece_properties, 0));
	WORKS(cuMemMap(s.range, 2 * MiB, 0, s.piece, 0));
	WORKS(cuMemUnmap(s.range, 2 * MiB));
	WORKS(cuMemAddressFree(s.range, 2 * MiB));
	WORKS(cuMemRelease(s.piece));
	WORKS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, s.memory));
	EQUALS(type, CU_MEMORYTYPE_DEVICE);
	WORKS(cuMemPoolCreate(&pool, &s.pool_properties));
	WORKS(cuMemPoolTrimTo(s.pool, 0));
	WORKS(cuMemPoolDestroy(s.pool));
	WORKS(cuLibraryLoadData(&library, ptx_basic, NULL, NULL, 0, NULL, NULL, 0));
	WORKS(cuCtxGetCurrent(&current));
	WORKS(cuCtxGetFlags(&flags));
	WORKS(cuCtxPopCurrent(&current));
	WORKS(cuCtxPushCurrent(current));
	WORKS(cuDevicePrimaryCtxGetState(device, &flags, &active));
	EQUALS(active, 1);
	GIVES(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	WORKS(cuDevicePrimaryCtxRelease(device));
}

static void check_work_is_refused(const struct survivors *s, CUresult error)
{
	CUstream stream;
	CUstreamCaptureStatus status;
	CUcontext of;
	CUevent event;
	CUgraphExec exec;
	float milliseconds;
	int value;

	GIVES(cuStreamQuery(s->stream), error);
	GIVES(cuEventQuery(s->event), error);
	GIVES(cuEventSynchronize(s->event), error);
	GIVES(cuEventRecord(s->event, s->stream), error);
	GIVES(cuEventElapsedTime(&milliseconds, s->event, s->event), error);
	GIVES(cuEventCreate(&event, 0), error);
	GIVES(cuStreamWaitEvent(s->stream, s->event, 0), error);
	GIVES(cuStreamCreate(&stream, 0), error);
	GIVES(cuStreamGetPriority(s->stream, &value), error);
	GIVES(cuStreamIsCapturing(s->stream, &status), error);
	GIVES(cuStreamGetCtx(s->stream, &of), error);
	GIVES(cuStreamBeginCapture(s->stream, CU_STREAM_CAPTURE_MODE_RELAXED), error);
	GIVES(cuLaunchHostFunc(s->stream, free, NULL), error);
	GIVES(cuLaunchKernel(s->empty, 1, 1, 1, 1, 1, 1, 0, s->stream, NULL, NULL), error);
	GIVES(cuGraphInstantiateWithFlags(&exec, s->graph, 0), error);
	GIVES(cuGraphLaunch(s->exec, s->stream), error);
	GIVES(cuModuleGetFunction(&(CUfunction){NULL}, s->module, "empty"), error);
	GIVES(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, s->empty), error);
	GIVES(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, s->empty, 128, 0), error);
}

CHILD(what_a_fault_ends)
{
	const CUresult error = CUDA_ERROR_ILLEGAL_ADDRESS;
	static char page[1 << 16] __attribute__((aligned(4096)));
	CUdeviceptr address;
	size_t size;
	unsigned word;
	void *host;
	struct survivors s;

	make_survivors(&s);
	check_work_is_refused(&s, error);
	GIVES(cuMemAllocAsync(&address, 16, s.stream), error);
	GIVES(cuMemAllocHost(&host, 16), error);
	GIVES(cuMemHostRegister(page, sizeof page, 0), error);
	GIVES(cuMemcpyDtoH(&word, s.memory, 4), error);
	GIVES(cuMemcpyHtoDAsync(s.memory, s.host, 4, s.stream), error);
	GIVES(cuMemGetAddressRange(&address, &size, s.memory), error);
	GIVES(cuMemFreeHost(s.host), error);
	GIVES(cuCtxGetLimit(&size, CU_LIMIT_STACK_SIZE), error);
	GIVES(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048), error);
	GIVES(cuModuleUnload(s.module), error);
	GIVES(cuEventDestroy(s.event), error);
	GIVES(cuStreamDestroy(s.stream), error);
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

CONFORM(a_fault_leaves_what_belongs_to_no_context)
{
	run_child("what_goes_on_after_a_fault", NULL);
}

CONFORM(a_fault_ends_what_belongs_to_a_context)
{
	run_child("what_a_fault_ends", NULL);
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
