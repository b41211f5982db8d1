// Tests streams: the order of operations, default streams, events, waiting, and operations that fault.
#include "sim_test.h"

#include <pthread.h>
#include <stdatomic.h>

static CUcontext start(void)
{
	node_start("memory=256M,ctx=16M,devices=2");
	return primary(0);
}

static atomic_int gate, order;

static void wait_at_gate(void *data)
{
	while (!atomic_load(&gate))
		pause_ms(1);
}

static void note_order(void *data)
{
	*(int *)data = atomic_fetch_add(&order, 1);
}

static void block_stream(CUstream stream)
{
	atomic_store(&gate, 0);
	CU(cuLaunchHostFunc(stream, wait_at_gate, NULL));
}

TEST(operations_of_a_stream_run_in_order)
{
	start();
	CUstream stream;
	int seen[64];
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	block_stream(stream);
	atomic_store(&order, 0);
	for (int i = 0; i < 64; i++)
		CU(cuLaunchHostFunc(stream, note_order, &seen[i]));
	GIVES(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	atomic_store(&gate, 1);
	CU(cuStreamSynchronize(stream));
	CU(cuStreamQuery(stream));
	for (int i = 0; i < 64; i++)
		CHECK_INT(seen[i], i);
	CU(cuStreamDestroy_v2(stream));
	GIVES(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
}

TEST(the_legacy_stream_waits_for_blocking_streams_only)
{
	start();
	CUstream blocking, other;
	int first = -1, second = -1;
	CU(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	block_stream(other);
	// this function does not wait for the work in the non-blocking stream
	CU(cuLaunchHostFunc(NULL, note_order, &first));
	CU(cuStreamSynchronize(NULL));
	CHECK(first >= 0);
	atomic_store(&gate, 1);
	CU(cuStreamSynchronize(other));

	block_stream(blocking);
	CU(cuLaunchHostFunc(NULL, note_order, &second));
	GIVES(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	CU(cuStreamQuery(other));
	atomic_store(&gate, 1);
	CU(cuStreamSynchronize(NULL));
	CU(cuStreamQuery(blocking));

	block_stream(NULL);
	CU(cuLaunchHostFunc(blocking, note_order, &second)); // this function runs after the work in the legacy stream
	GIVES(cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
	atomic_store(&gate, 1);
	CU(cuStreamSynchronize(blocking));
	CU(cuStreamDestroy_v2(blocking));
	CU(cuStreamDestroy_v2(other));
}

static void *get_stream_id(void *context)
{
	unsigned long long *id = malloc(sizeof *id);
	cuCtxSetCurrent(context);
	if (cuStreamGetId_ptsz(NULL, id) != CUDA_SUCCESS)
		*id = 0;
	return id;
}

TEST(every_thread_has_a_default_stream)
{
	CUcontext context = start();
	unsigned long long mine, legacy, *theirs;
	pthread_t thread;
	CU(cuStreamGetId_ptsz(NULL, &mine));
	CU(cuStreamGetId(NULL, &legacy));
	pthread_create(&thread, NULL, get_stream_id, context);
	pthread_join(thread, (void **)&theirs);
	CHECK(mine != legacy && *theirs != 0 && mine != *theirs);
	free(theirs);
}

TEST(events_order_streams_and_contexts)
{
	start();
	CUstream first, second;
	CUevent event, timed;
	CUcontext other;
	int at = -1;
	float ms;
	CU(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	CU(cuEventCreate(&timed, 0));
	GIVES(cuEventElapsedTime_v2(&ms, event, timed), CUDA_ERROR_INVALID_HANDLE);
	CU(cuCtxCreate_v2(&other, 0, 1));
	CU(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	block_stream(first);
	CU(cuEventRecord(event, first));
	GIVES(cuEventRecord(event, second), CUDA_ERROR_INVALID_HANDLE); // another context's stream
	GIVES(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	CU(cuStreamWaitEvent(second, event, 0));
	CU(cuLaunchHostFunc(second, note_order, &at));
	pause_ms(5);
	CHECK_INT(at, -1);
	atomic_store(&gate, 1);
	CU(cuEventSynchronize(event));
	CU(cuStreamSynchronize(second));
	CHECK(at >= 0);
	CU(cuCtxDestroy_v2(other));
	start();
	CU(cuEventDestroy_v2(event));
	GIVES(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
	CU(cuEventDestroy_v2(timed));
	CU(cuStreamDestroy_v2(first));
}

TEST(pageable_sources_can_be_reused_when_the_call_returns)
{
	start();
	CUstream stream;
	CUdeviceptr device;
	char source[64], back[64];
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CU(cuMemAlloc_v2(&device, sizeof source));
	block_stream(stream);
	memset(source, 7, sizeof source);
	CU(cuMemcpyHtoDAsync_v2(device, source, sizeof source, stream));
	memset(source, 9, sizeof source);
	atomic_store(&gate, 1);
	// the target is pageable memory, so it is filled when the call returns
	CU(cuMemcpyDtoHAsync_v2(back, device, sizeof back, stream));
	CHECK_INT(back[63], 7);
	CU(cuMemFree_v2(device));
	CU(cuStreamDestroy_v2(stream));
}

TEST(a_pool_reuses_memory_in_stream_order)
{
	start();
	CUstream stream, other;
	CUdeviceptr a, b, c;
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	CU(cuMemAllocAsync(&a, 1 << 20, stream));
	block_stream(stream);
	CU(cuMemFreeAsync(a, stream));
	// the freed memory must not be reused in this stream yet, which is another one
	CU(cuMemAllocAsync(&b, 1 << 20, other));
	CHECK(b != a);
	CU(cuMemAllocAsync(&c, 1 << 20, stream)); // the freed memory may be reused in the stream that freed it
	CHECK(c == a);
	atomic_store(&gate, 1);
	CU(cuMemFreeAsync(b, other));
	CU(cuMemFreeAsync(c, stream));
	CU(cuCtxSynchronize());
	CU(cuStreamDestroy_v2(stream));
	CU(cuStreamDestroy_v2(other));
}

TEST(peer_access_must_be_enabled)
{
	CUcontext first = start(), second;
	CUdeviceptr there;
	int can;
	CU(cuDeviceCanAccessPeer(&can, 0, 1));
	CHECK_INT(can, 1);
	CU(cuDevicePrimaryCtxRetain(&second, 1));
	CU(cuCtxSetCurrent(second));
	CU(cuMemAlloc_v2(&there, 4096));
	CU(cuCtxSetCurrent(first));
	int flags = -1;
	CU(cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, there));
	CHECK_INT(flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE);
	CU(cuCtxEnablePeerAccess(second, 0));
	GIVES(cuCtxEnablePeerAccess(second, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	CU(cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, there));
	CHECK_INT(flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
	CU(cuCtxDisablePeerAccess(second));
	CU(cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, there));
	CHECK_INT(flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE);
	CU(cuDevicePrimaryCtxRelease_v2(1));
}

TEST(memory_unmapped_under_a_running_operation_loses_the_context)
{
	start();
	pid_t child = fork();
	if (child == 0) { // executes the program again, so that the child has its own driver
		char *arguments[] = {"test-sim-stream", "--unmapped", NULL};
		execv("/proc/self/exe", arguments);
		_exit(127);
	}
	CHECK_CHILD(child);
}

// Is the child of the test above, if the program was executed with "--unmapped". Runs before main().
__attribute__((constructor)) static void run_unmapped(int argc, char **argv)
{
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;
	CUstream stream;
	CUcontext context;

	if (argc < 2 || strcmp(argv[1], "--unmapped") != 0)
		return;
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
	    cuStreamCreate(&stream, 1) || cuMemCreate(&handle, 2 * MIB, &properties, 0) ||
	    cuMemAddressReserve(&address, 2 * MIB, 0, 0, 0) || cuMemMap(address, 2 * MIB, 0, handle, 0) ||
	    cuMemSetAccess(address, 2 * MIB, &access, 1))
		_exit(1);
	atomic_store(&gate, 0);
	if (cuLaunchHostFunc(stream, wait_at_gate, NULL) || cuMemsetD8Async(address, 1, 2 * MIB, stream) ||
	    cuMemUnmap(address, 2 * MIB)) // unmapping does not wait for the memset that uses the memory
		_exit(2);
	atomic_store(&gate, 1);
	if (cuStreamSynchronize(stream) != CUDA_ERROR_ILLEGAL_ADDRESS ||
	    cuCtxSynchronize() != CUDA_ERROR_ILLEGAL_ADDRESS ||
	    cuMemAlloc_v2(&address, 16) != CUDA_ERROR_ILLEGAL_ADDRESS)
		_exit(3);
	_exit(0);
}
