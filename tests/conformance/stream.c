// Tests streams: creation, the null streams, order, host functions, waiting and memory operations.
#include "conformance.h"

#include <pthread.h>
#include <stdatomic.h>

static CUfunction spin;
// the nanoseconds for which kernels spin: a busy machine never suspends the test's thread for that long
static unsigned long long long_enough = 400000000;

static void need_spin(void)
{
	need_context();
	if (!spin)
		spin = need_function(need_module(ptx_basic), "spin");
}

static void launch_spin(CUstream stream, unsigned long long nanoseconds)
{
	void *arguments[] = {&nanoseconds};

	NEED(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

CONFORM(creation)
{
	CUstream stream = NULL;
	unsigned flags = 99;
	int priority = 99, least, greatest;
	unsigned long long first = 0, second = 0;
	CUcontext owner = NULL;
	CUdevice where = -1;

	need_context();
	WORKS(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	WORKS(cuStreamGetFlags(stream, &flags));
	EQUALS(flags, CU_STREAM_NON_BLOCKING);
	WORKS(cuStreamGetPriority(stream, &priority));
	EQUALS(priority, 0);
	WORKS(cuStreamGetCtx(stream, &owner));
	HOLDS(owner == context);
	WORKS(cuStreamGetDevice(stream, &where));
	EQUALS(where, device);
	WORKS(cuStreamGetId(stream, &first));
	WORKS(cuStreamGetId(NULL, &second));
	HOLDS(first != second);
	WORKS(cuStreamQuery(stream));
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuStreamDestroy(stream));
	WORKS(cuCtxGetStreamPriorityRange(&least, &greatest));
	WORKS(cuStreamCreateWithPriority(&stream, CU_STREAM_DEFAULT, greatest - 10));
	WORKS(cuStreamGetPriority(stream, &priority));
	EQUALS(priority, greatest); // clamped
	WORKS(cuStreamDestroy(stream));
	WORKS(cuStreamCreateWithPriority(&stream, CU_STREAM_DEFAULT, 5));
	WORKS(cuStreamGetPriority(stream, &priority));
	EQUALS(priority, least);
	WORKS(cuStreamDestroy(stream));
	GIVES(cuStreamCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuStreamCreate(&stream, 8), CUDA_ERROR_INVALID_VALUE);
}

CONFORM(null_streams)
{
	unsigned flags = 99;
	int priority = 99;

	need_context();
	WORKS(cuStreamGetFlags(NULL, &flags));
	EQUALS(flags, 0);
	WORKS(cuStreamGetPriority(NULL, &priority));
	EQUALS(priority, 0);
	WORKS(cuStreamQuery(NULL));
	WORKS(cuStreamQuery(CU_STREAM_LEGACY));
	WORKS(cuStreamQuery(CU_STREAM_PER_THREAD));
	WORKS(cuStreamGetFlags(CU_STREAM_PER_THREAD, &flags));
	WORKS(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	GIVES(cuStreamDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
	GIVES(cuStreamGetFlags(NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

CONFORM(busy_and_idle)
{
	CUstream stream, other;

	need_spin();
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	NEED(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	double start = seconds();
	launch_spin(stream, long_enough); // asynchronous:
	GIVES(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	WORKS(cuStreamQuery(other));
	WORKS(cuStreamQuery(NULL)); // a non-blocking stream does not block the null stream
	WORKS(cuStreamSynchronize(other));
	GIVES(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	WORKS(cuStreamSynchronize(stream));
	HOLDS(seconds() - start >= 0.39);
	WORKS(cuStreamQuery(stream));
	launch_spin(stream, 50000000);
	WORKS(cuStreamDestroy(stream)); // the call does not wait; the work goes on
	WORKS(cuCtxSynchronize());
	WORKS(cuStreamDestroy(other));
}

CONFORM(the_null_stream_orders_blocking_streams)
{
	CUstream blocking;

	need_spin();
	NEED(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	launch_spin(blocking, long_enough);
	launch_spin(NULL, 1000);
	GIVES(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	double start = seconds();
	WORKS(cuStreamSynchronize(NULL));
	HOLDS(seconds() - start > 0.1);
	WORKS(cuStreamQuery(blocking));
	launch_spin(NULL, long_enough);
	launch_spin(blocking, 1000);
	GIVES(cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
	start = seconds();
	WORKS(cuStreamSynchronize(blocking));
	HOLDS(seconds() - start > 0.1);
	// the per-thread stream is a blocking stream too
	launch_spin(CU_STREAM_PER_THREAD, long_enough);
	launch_spin(CU_STREAM_LEGACY, 1000);
	GIVES(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
	WORKS(cuCtxSynchronize());
	WORKS(cuStreamDestroy(blocking));
}

static atomic_int called;
static CUresult inside;

static void CUDA_CB call_host(void *argument)
{
	CUdeviceptr address;

	inside = cuMemAlloc(&address, 4096); // CUDA calls are forbidden in a host function
	called += (int)(intptr_t)argument;
}

static void CUDA_CB call_back(CUstream stream, CUresult status, void *argument)
{
	inside = status;
	called += (int)(intptr_t)argument;
}

CONFORM(host_functions)
{
	CUstream stream;

	need_spin();
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	called = 0;
	launch_spin(stream, 50000000);
	WORKS(cuLaunchHostFunc(stream, call_host, (void *)5));
	EQUALS(called, 0);
	GIVES(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	WORKS(cuStreamSynchronize(stream));
	EQUALS(called, 5);
	EQUALS(inside, CUDA_ERROR_NOT_PERMITTED);
	WORKS(cuStreamAddCallback(stream, call_back, (void *)2, 0));
	WORKS(cuStreamSynchronize(stream));
	EQUALS(called, 7);
	EQUALS(inside, CUDA_SUCCESS);
	GIVES(cuLaunchHostFunc(stream, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuStreamAddCallback(stream, call_back, NULL, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuStreamAddCallback(stream, NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuStreamDestroy(stream));
}

CONFORM(waiting_for_an_event)
{
	CUstream first, second;
	CUevent event;

	need_spin();
	NEED(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	NEED(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	NEED(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	WORKS(cuStreamWaitEvent(second, event, 0)); // the event was never recorded: no wait
	WORKS(cuStreamSynchronize(second));
	launch_spin(first, long_enough);
	WORKS(cuEventRecord(event, first));
	WORKS(cuStreamWaitEvent(second, event, 0));
	launch_spin(second, 1000);
	GIVES(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
	WORKS(cuStreamSynchronize(second));
	WORKS(cuEventQuery(event));
	GIVES(cuStreamWaitEvent(second, NULL, 0), CUDA_ERROR_INVALID_HANDLE);
	GIVES(cuStreamWaitEvent(second, event, 8), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuEventDestroy(event));
	WORKS(cuStreamDestroy(first));
	WORKS(cuStreamDestroy(second));
}

CONFORM(memory_operations)
{
	CUstream waiter, writer;
	CUdeviceptr flag;
	unsigned value = 0;

	need_context();
	NEED(cuStreamCreate(&waiter, CU_STREAM_NON_BLOCKING));
	NEED(cuStreamCreate(&writer, CU_STREAM_NON_BLOCKING));
	NEED(cuMemAlloc(&flag, 16));
	NEED(cuMemsetD8(flag, 0, 16));
	NEED(cuCtxSynchronize());
	WORKS(cuStreamWaitValue32(waiter, flag, 3, CU_STREAM_WAIT_VALUE_GEQ));
	WORKS(cuMemsetD32Async(flag + 4, 7, 1, waiter));
	GIVES(cuStreamQuery(waiter), CUDA_ERROR_NOT_READY);
	WORKS(cuStreamWriteValue32(writer, flag, 3, 0));
	WORKS(cuStreamSynchronize(waiter));
	WORKS(cuMemcpyDtoH(&value, flag + 4, 4));
	EQUALS(value, 7);
	GIVES(cuStreamWriteValue32(writer, flag + 2, 3, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuStreamWaitValue32(waiter, flag, 3, 77), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuStreamWriteValue64(writer, flag + 8, 1ull << 40, 0));
	WORKS(cuStreamWaitValue64(writer, flag + 8, 1ull << 40, CU_STREAM_WAIT_VALUE_EQ));
	WORKS(cuStreamSynchronize(writer));
	CUstreamBatchMemOpParams batch[2];
	memset(batch, 0, sizeof batch);
	batch[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	batch[0].writeValue.address = flag;
	batch[0].writeValue.value = 11;
	batch[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
	batch[1].waitValue.address = flag;
	batch[1].waitValue.value = 11;
	batch[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
	WORKS(cuStreamBatchMemOp(writer, 2, batch, 0));
	WORKS(cuStreamSynchronize(writer));
	WORKS(cuMemcpyDtoH(&value, flag, 4));
	EQUALS(value, 11);
	WORKS(cuMemFree(flag));
	WORKS(cuStreamDestroy(waiter));
	WORKS(cuStreamDestroy(writer));
}

static atomic_uint *words; // words in host memory that kernels and streams can access

static void need_words(void)
{
	need_spin();
	if (!words)
		NEED(cuMemHostAlloc((void **)&words, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	memset((void *)words, 0, 4096);
}

static CUdeviceptr address_of(int index)
{
	return (CUdeviceptr)(words + index);
}

CONFORM(memory_operations_on_words_of_the_host)
{
	CUstream stream;
	cuuint64_t wide = 0;

	need_words();
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	WORKS(cuStreamWaitValue32(stream, address_of(0), 3, CU_STREAM_WAIT_VALUE_GEQ));
	WORKS(cuStreamWriteValue32(stream, address_of(1), 5, 0));
	WORKS(cuStreamWaitValue64(stream, address_of(2), 1ull << 40, CU_STREAM_WAIT_VALUE_EQ));
	WORKS(cuStreamWriteValue64(stream, address_of(4), 7ull << 40, 0));
	usleep(50000);
	EQUALS(atomic_load(&words[1]), 0);
	atomic_store(&words[0], 2); // too small
	usleep(50000);
	EQUALS(atomic_load(&words[1]), 0);
	GIVES(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	atomic_store(&words[0], 3);
	for (double end = seconds() + 10; atomic_load(&words[1]) == 0 && seconds() < end; usleep(1000))
		;
	EQUALS(atomic_load(&words[1]), 5);
	GIVES(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	atomic_store((_Atomic cuuint64_t *)&words[2], 1ull << 40);
	WORKS(cuStreamSynchronize(stream));
	memcpy(&wide, (void *)&words[4], sizeof wide);
	EQUALS(wide, 7ll << 40);
	WORKS(cuStreamDestroy(stream));
}

static void CUDA_CB wait_for_word(void *argument)
{
	while (!atomic_load(&words[0]))
		usleep(1000);
}

CONFORM(a_host_function_holds_its_stream_only)
{
	CUstream stream, other;
	CUevent event;

	need_words();
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	NEED(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	NEED(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	WORKS(cuLaunchHostFunc(stream, wait_for_word, NULL));
	launch_spin(stream, 1000);
	WORKS(cuEventRecord(event, stream));
	launch_spin(other, 1000);
	WORKS(cuStreamSynchronize(other));
	GIVES(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	atomic_store(&words[0], 1);
	WORKS(cuEventSynchronize(event));
	WORKS(cuEventDestroy(event));
	WORKS(cuStreamDestroy(stream));
	WORKS(cuStreamDestroy(other));
}

enum { LAUNCHES = 3000 };
static atomic_uint launched;

static void *launch_many(void *stream)
{
	unsigned long long nanoseconds = 0;
	void *arguments[] = {&nanoseconds};

	if (cuCtxSetCurrent(context) != CUDA_SUCCESS)
		return NULL;
	for (int i = 0; i < LAUNCHES; i++) {
		if (cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL) != CUDA_SUCCESS)
			return NULL;
		atomic_fetch_add(&launched, 1);
	}
	return stream;
}

static atomic_bool queried;

static void *query_stream(void *stream)
{
	CUresult result = cuCtxSetCurrent(context);

	result = result == CUDA_SUCCESS ? cuStreamQuery(stream) : result;
	atomic_store(&queried, true);
	return (void *)(uintptr_t)result;
}

// A full queue blocks the thread that launches, and threads that query this stream. Other streams work.
CONFORM(a_full_queue_makes_launches_wait)
{
	CUstream stream, other;
	pthread_t thread, asking;
	CUevent event;
	void *result;

	need_words();
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	NEED(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	NEED(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	WORKS(cuStreamWaitValue32(stream, address_of(0), 1, CU_STREAM_WAIT_VALUE_GEQ));
	atomic_store(&launched, 0);
	pthread_create(&thread, NULL, launch_many, stream);
	for (double end = seconds() + 30; atomic_load(&launched) < 900 && seconds() < end; usleep(1000))
		;
	usleep(200000); // long enough for all launches to return, if the queue had no limit
	BETWEEN(atomic_load(&launched), 900, 1200);
	launch_spin(other, 1000);
	WORKS(cuEventRecord(event, other));
	WORKS(cuEventSynchronize(event));
	atomic_store(&queried, false);
	pthread_create(&asking, NULL, query_stream, stream);
	usleep(200000);
	HOLDS(!atomic_load(&queried));
	BETWEEN(atomic_load(&launched), 900, 1200);
	atomic_store(&words[0], 1);
	pthread_join(asking, &result);
	HOLDS((uintptr_t)result == CUDA_ERROR_NOT_READY || (uintptr_t)result == CUDA_SUCCESS);
	pthread_join(thread, &result);
	HOLDS(result != NULL);
	EQUALS(atomic_load(&launched), LAUNCHES);
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuEventDestroy(event));
	WORKS(cuStreamDestroy(stream));
	WORKS(cuStreamDestroy(other));
}

CONFORM(attributes)
{
	CUstream first, second;
	CUstreamAttrValue value;

	need_context();
	NEED(cuStreamCreate(&first, 0));
	NEED(cuStreamCreate(&second, 0));
	memset(&value, 0, sizeof value);
	value.syncPolicy = CU_SYNC_POLICY_BLOCKING_SYNC;
	WORKS(cuStreamSetAttribute(first, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
	WORKS(cuStreamCopyAttributes(second, first));
	memset(&value, 0, sizeof value);
	WORKS(cuStreamGetAttribute(second, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
	EQUALS(value.syncPolicy, CU_SYNC_POLICY_BLOCKING_SYNC);
	WORKS(cuStreamDestroy(first));
	WORKS(cuStreamDestroy(second));
}
