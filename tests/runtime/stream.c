// Tests streams and events. Built twice: for the legacy default stream, and for the per-thread default stream.
#include "cudart.h"

CONFORM(streams_are_created_and_destroyed)
{
	cudaStream_t stream;
	unsigned flags = 99;
	int priority = 99, device = 99, least, greatest;
	unsigned long long id = 0, other_id = 0;

	WORKS(cudaStreamCreate(&stream));
	WORKS(cudaStreamGetFlags(stream, &flags));
	EQUALS(flags, cudaStreamDefault);
	WORKS(cudaStreamGetDevice(stream, &device));
	EQUALS(device, 0);
	WORKS(cudaStreamGetId(stream, &id));
	WORKS(cudaStreamGetId(NULL, &other_id));
	HOLDS(id != other_id);
	WORKS(cudaStreamDestroy(stream));
	WORKS(cudaDeviceGetStreamPriorityRange(&least, &greatest));
	WORKS(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
	WORKS(cudaStreamGetFlags(stream, &flags));
	EQUALS(flags, cudaStreamNonBlocking);
	WORKS(cudaStreamGetPriority(stream, &priority));
	EQUALS(priority, greatest);
	WORKS(cudaStreamDestroy(stream));
	GIVES_LAST(cudaStreamCreateWithFlags(&stream, 0x80), cudaErrorInvalidValue);
	GIVES_LAST(cudaStreamCreate(NULL), cudaErrorInvalidValue);
	GIVES_LAST(cudaStreamDestroy(NULL), cudaErrorInvalidResourceHandle);
	WORKS(cudaStreamSynchronize(NULL));
	WORKS(cudaStreamSynchronize(cudaStreamLegacy));
	WORKS(cudaStreamSynchronize(cudaStreamPerThread));
	WORKS(cudaStreamQuery(NULL));
}

// The legacy default stream waits for blocking streams, and they wait for it. The default stream of a thread does not.
CONFORM(default_stream_order)
{
	int *flag, *seen, *to = need_ints(1), value = 1;
	cudaStream_t blocking, free_running;

	NEED(cudaHostAlloc((void **)&flag, sizeof *flag, cudaHostAllocMapped));
	*flag = 0;
	NEED(cudaHostGetDevicePointer((void **)&seen, flag, 0));
	NEED(cudaStreamCreate(&blocking));
	NEED(cudaStreamCreateWithFlags(&free_running, cudaStreamNonBlocking));
	// load the kernel now, since loading may wait for running kernels
	WORKS(launch_with(store, 1, 1, (void *[]){&to, &value}, NULL));
	WORKS(cudaStreamSynchronize(NULL));
	WORKS(launch_with(wait_for, 1, 1, (void *[]){&seen}, blocking));
	WORKS(launch_with(store, 1, 1, (void *[]){&to, &value}, NULL));
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
	// this returns only if the thread's default stream does not wait for the running kernel
	WORKS(cudaStreamSynchronize(NULL));
	WORKS(cudaStreamQuery(cudaStreamPerThread));
#else
	GIVES(cudaStreamQuery(NULL), cudaErrorNotReady);
	WORKS(launch_with(store, 1, 1, (void *[]){&to, &value}, free_running));
	WORKS(cudaStreamSynchronize(free_running));
	GIVES(cudaStreamQuery(cudaStreamLegacy), cudaErrorNotReady);
#endif
	GIVES(cudaStreamQuery(blocking), cudaErrorNotReady);
	*(volatile int *)flag = 1;
	WORKS(cudaDeviceSynchronize());
	EQUALS(read_int(to), 1);
	WORKS(cudaStreamDestroy(blocking));
	WORKS(cudaStreamDestroy(free_running));
	WORKS(cudaFree(to));
	WORKS(cudaFreeHost(flag));
}

CONFORM(events)
{
	cudaStream_t stream, other;
	cudaEvent_t begin, end, untimed;
	float milliseconds = -1;
	int *to = need_ints(1), value = 2;
	long long length = 2000000;

	NEED(cudaStreamCreate(&stream));
	NEED(cudaStreamCreate(&other));
	WORKS(cudaEventCreate(&begin));
	WORKS(cudaEventCreateWithFlags(&end, cudaEventBlockingSync));
	WORKS(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
	WORKS(cudaEventQuery(begin)); // not recorded yet
	GIVES_LAST(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorInvalidResourceHandle);
	WORKS(cudaEventRecord(begin, stream));
	WORKS(launch_with(spin, 1, 1, (void *[]){&length}, stream));
	WORKS(cudaEventRecordWithFlags(end, stream, cudaEventRecordDefault));
	WORKS(cudaStreamWaitEvent(other, end, 0));
	WORKS(launch_with(store, 1, 1, (void *[]){&to, &value}, other));
	WORKS(cudaEventRecord(untimed, other));
	WORKS(cudaEventSynchronize(untimed));
	WORKS(cudaEventQuery(end));
	WORKS(cudaEventElapsedTime(&milliseconds, begin, end));
	HOLDS(milliseconds >= 1.9f);
	GIVES_LAST(cudaEventElapsedTime(&milliseconds, begin, untimed), cudaErrorInvalidResourceHandle);
	FAILS(cudaEventElapsedTime(NULL, begin, end));
	cudaGetLastError();
	GIVES_LAST(cudaEventCreateWithFlags(&end, 0x100), cudaErrorInvalidValue);
	GIVES_LAST(cudaEventCreate(NULL), cudaErrorInvalidValue);
	GIVES_LAST(cudaEventRecord(NULL, stream), cudaErrorInvalidResourceHandle);
	GIVES_LAST(cudaEventDestroy(NULL), cudaErrorInvalidResourceHandle);
	EQUALS(read_int(to), 2);
	WORKS(cudaEventDestroy(begin));
	WORKS(cudaEventDestroy(end));
	WORKS(cudaEventDestroy(untimed));
	WORKS(cudaStreamDestroy(stream));
	WORKS(cudaStreamDestroy(other));
	WORKS(cudaFree(to));
}

CONFORM(attributes_of_streams)
{
	cudaStream_t stream, other;
	cudaLaunchAttributeValue value = {.syncPolicy = cudaSyncPolicySpin};

	NEED(cudaStreamCreate(&stream));
	NEED(cudaStreamCreate(&other));
	WORKS(cudaStreamSetAttribute(stream, cudaLaunchAttributeSynchronizationPolicy, &value));
	value.syncPolicy = cudaSyncPolicyAuto;
	WORKS(cudaStreamGetAttribute(stream, cudaLaunchAttributeSynchronizationPolicy, &value));
	EQUALS(value.syncPolicy, cudaSyncPolicySpin);
	WORKS(cudaStreamCopyAttributes(other, stream));
	value.syncPolicy = cudaSyncPolicyAuto;
	WORKS(cudaStreamGetAttribute(other, cudaLaunchAttributeSynchronizationPolicy, &value));
	EQUALS(value.syncPolicy, cudaSyncPolicySpin);
	WORKS(cudaStreamDestroy(stream));
	WORKS(cudaStreamDestroy(other));
}

CONFORM(stream_copies_are_ordered)
{
	enum { COUNT = 1000 };
	int *host, *device = need_ints(COUNT);
	cudaStream_t stream;

	NEED(cudaMallocHost((void **)&host, COUNT * sizeof *host));
	NEED(cudaStreamCreate(&stream));
	for (int i = 0; i < COUNT; i++)
		host[i] = i;
	WORKS(cudaDeviceSynchronize());
	WORKS(cudaMemcpyAsync(device, host, COUNT * sizeof *host, cudaMemcpyHostToDevice, stream));
	launch_store(device + 5, 500, stream);
	WORKS(cudaMemcpyAsync(host, device, COUNT * sizeof *host, cudaMemcpyDeviceToHost, stream));
	WORKS(cudaStreamSynchronize(stream));
	EQUALS(host[5], 500);
	EQUALS(host[999], 999);
	WORKS(cudaMemcpyAsync(host, device + 5, sizeof *host, cudaMemcpyDefault, stream));
	WORKS(cudaStreamSynchronize(stream));
	EQUALS(host[0], 500);
	WORKS(cudaStreamDestroy(stream));
	WORKS(cudaFreeHost(host));
	WORKS(cudaFree(device));
}
