// Events: recording, querying, elapsed time and its errors.
#include "conformance.h"

CONFORM(flags_and_handles)
{
	CUevent event;

	need_context();
	WORKS(cuEventCreate(&event, CU_EVENT_BLOCKING_SYNC));
	WORKS(cuEventDestroy(event));
	GIVES(cuEventCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuEventCreate(&event, 0x100), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE); // needs disabled timing
	WORKS(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	WORKS(cuEventDestroy(event));
	GIVES(cuEventDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
	GIVES(cuEventRecord(NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
	GIVES(cuEventQuery(NULL), CUDA_ERROR_INVALID_HANDLE);
	GIVES(cuEventSynchronize(NULL), CUDA_ERROR_INVALID_HANDLE);
}

CONFORM(never_recorded)
{
	CUevent event, other;
	float elapsed = -1;

	need_context();
	NEED(cuEventCreate(&event, 0));
	NEED(cuEventCreate(&other, 0));
	WORKS(cuEventQuery(event));
	WORKS(cuEventSynchronize(event));
	GIVES(cuEventElapsedTime(&elapsed, event, other), CUDA_ERROR_INVALID_HANDLE);
	WORKS(cuEventRecord(event, NULL));
	WORKS(cuEventSynchronize(event));
	GIVES(cuEventElapsedTime(&elapsed, event, other), CUDA_ERROR_INVALID_HANDLE);
	WORKS(cuEventDestroy(event));
	WORKS(cuEventDestroy(other));
}

CONFORM(elapsed_time)
{
	CUevent start, end, untimed;
	CUstream stream;
	float elapsed = -1;
	unsigned long long nanoseconds = 100000000;
	void *arguments[] = {&nanoseconds};

	need_context();
	CUfunction spin = need_function(need_module(ptx_basic), "spin");
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	NEED(cuEventCreate(&start, 0));
	NEED(cuEventCreate(&end, 0));
	NEED(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
	NEED(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL)); // warm
	NEED(cuStreamSynchronize(stream));
	WORKS(cuEventRecord(start, stream));
	NEED(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
	WORKS(cuEventRecord(end, stream));
	GIVES(cuEventQuery(end), CUDA_ERROR_NOT_READY);
	GIVES(cuEventElapsedTime(&elapsed, start, end), CUDA_ERROR_NOT_READY);
	WORKS(cuEventSynchronize(end));
	WORKS(cuEventQuery(end));
	WORKS(cuEventElapsedTime(&elapsed, start, end));
	BETWEEN(elapsed, 99, 5000);
	WORKS(cuEventElapsedTime(&elapsed, end, start));
	BETWEEN(elapsed, -5000, -99);
	WORKS(cuEventRecord(untimed, stream));
	WORKS(cuEventSynchronize(untimed));
	GIVES(cuEventElapsedTime(&elapsed, start, untimed), CUDA_ERROR_INVALID_HANDLE);
	FAILS(cuEventElapsedTime(NULL, start, end));
	GIVES(cuEventElapsedTime(&elapsed, NULL, end), CUDA_ERROR_INVALID_HANDLE);
	WORKS(cuEventDestroy(start));
	WORKS(cuEventDestroy(end));
	WORKS(cuEventDestroy(untimed));
	WORKS(cuStreamDestroy(stream));
}

CONFORM(a_later_record_replaces)
{
	CUevent event;
	CUstream stream;
	unsigned long long nanoseconds = 100000000;
	void *arguments[] = {&nanoseconds};

	need_context();
	CUfunction spin = need_function(need_module(ptx_basic), "spin");
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	NEED(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	WORKS(cuEventRecord(event, stream));
	WORKS(cuEventSynchronize(event));
	NEED(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
	WORKS(cuEventQuery(event)); // still the first record
	WORKS(cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_DEFAULT));
	GIVES(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	GIVES(cuEventRecordWithFlags(event, stream, 8), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuEventDestroy(event)); // does not wait
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuStreamDestroy(stream));
}

CONFORM(event_and_stream_of_two_contexts)
{
	CUevent event;
	CUcontext made;
	CUstream stream;

	need_context();
	NEED(cuEventCreate(&event, 0));
	NEED(cuCtxCreate(&made, NULL, 0, device));
	NEED(cuStreamCreate(&stream, 0));
	GIVES(cuEventRecord(event, stream), CUDA_ERROR_INVALID_HANDLE);
	WORKS(cuStreamWaitEvent(stream, event, 0)); // waiting across contexts is allowed
	WORKS(cuCtxDestroy(made));
	need_context();
	WORKS(cuEventDestroy(event));
}
