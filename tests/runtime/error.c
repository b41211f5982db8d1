// Tests errors: names and texts, each thread's last error, sticky errors.
#include <pthread.h>

#include "cudart.h"

CONFORM(names_and_texts)
{
	HOLDS(strcmp(cudaGetErrorName(cudaSuccess), "cudaSuccess") == 0);
	HOLDS(strcmp(cudaGetErrorString(cudaSuccess), "no error") == 0);
	HOLDS(strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue") == 0);
	HOLDS(strcmp(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument") == 0);
	HOLDS(strcmp(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation") == 0);
	HOLDS(strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory") == 0);
	HOLDS(strcmp(cudaGetErrorString(cudaErrorInvalidConfiguration), "invalid configuration argument") == 0);
	HOLDS(strcmp(cudaGetErrorString(cudaErrorInvalidDeviceFunction), "invalid device function") == 0);
	HOLDS(strcmp(cudaGetErrorString(cudaErrorInvalidDevice), "invalid device ordinal") == 0);
	HOLDS(strcmp(cudaGetErrorString(cudaErrorNoKernelImageForDevice),
		     "no kernel image is available for execution on the device") == 0);
	HOLDS(strcmp(cudaGetErrorString(cudaErrorIllegalAddress), "an illegal memory access was encountered") == 0);
	HOLDS(strcmp(cudaGetErrorName((cudaError_t)12345), "unrecognized error code") == 0);
	HOLDS(strcmp(cudaGetErrorString((cudaError_t)12345), "unrecognized error code") == 0);
	HOLDS(strcmp(cudaGetErrorString(cudaErrorInvalidSymbol), "invalid device symbol") == 0);
	HOLDS(strcmp(cudaGetErrorString(cudaErrorInvalidMemcpyDirection), "invalid copy direction for memcpy") == 0);
}

CONFORM(last_error_is_kept_until_it_is_read)
{
	void *pointer = NULL;

	GIVES(cudaGetLastError(), cudaSuccess);
	GIVES(cudaSetDevice(1000), cudaErrorInvalidDevice);
	WORKS(cudaMalloc(&pointer, 4)); // a call that succeeds does not clear the error
	GIVES(cudaPeekAtLastError(), cudaErrorInvalidDevice);
	GIVES(cudaPeekAtLastError(), cudaErrorInvalidDevice);
	GIVES(cudaGetLastError(), cudaErrorInvalidDevice);
	GIVES(cudaGetLastError(), cudaSuccess);
	GIVES(cudaMalloc(NULL, 4), cudaErrorInvalidValue);
	GIVES(cudaMemcpy(pointer, pointer, 4, (enum cudaMemcpyKind)17), cudaErrorInvalidMemcpyDirection);
	GIVES(cudaGetLastError(), cudaErrorInvalidMemcpyDirection); // the last one
	WORKS(cudaFree(pointer));
}

static void *look_at_error(void *data)
{
	*(cudaError_t *)data = cudaPeekAtLastError();
	cudaSetDevice(1000);
	return NULL;
}

CONFORM(each_thread_has_its_own_last_error)
{
	cudaError_t seen = cudaErrorUnknown;
	pthread_t thread;

	GIVES(cudaMalloc(NULL, 4), cudaErrorInvalidValue);
	CHECK(pthread_create(&thread, NULL, look_at_error, &seen) == 0);
	pthread_join(thread, NULL);
	GIVES(seen, cudaSuccess);
	GIVES(cudaGetLastError(), cudaErrorInvalidValue);
}

CONFORM(not_ready_is_not_recorded)
{
	int *flag, *seen;
	cudaStream_t stream;
	cudaEvent_t event;

	NEED(cudaHostAlloc((void **)&flag, sizeof *flag, cudaHostAllocMapped));
	*flag = 0;
	NEED(cudaHostGetDevicePointer((void **)&seen, flag, 0));
	NEED(cudaStreamCreate(&stream));
	NEED(cudaEventCreate(&event));
	WORKS(launch_with(wait_for, 1, 1, (void *[]){&seen}, stream));
	WORKS(cudaEventRecord(event, stream));
	GIVES(cudaStreamQuery(stream), cudaErrorNotReady);
	GIVES(cudaPeekAtLastError(), cudaSuccess);
	GIVES(cudaEventQuery(event), cudaErrorNotReady);
	GIVES(cudaGetLastError(), cudaSuccess);
	*(volatile int *)flag = 1;
	WORKS(cudaStreamSynchronize(stream));
	WORKS(cudaStreamQuery(stream));
	WORKS(cudaEventQuery(event));
	WORKS(cudaEventDestroy(event));
	WORKS(cudaStreamDestroy(stream));
	WORKS(cudaFreeHost(flag));
}

CHILD(wild)
{
	void *pointer;

	NEED(cudaMalloc(&pointer, 4));
	WORKS(launch_with(wild, 1, 1, NULL, NULL));
	GIVES(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
	GIVES(cudaPeekAtLastError(), cudaErrorIllegalAddress);
	GIVES(cudaGetLastError(), cudaErrorIllegalAddress);
	GIVES(cudaGetLastError(), cudaSuccess); // the last error is cleared, but the context is still unusable
	GIVES(cudaMalloc(&pointer, 4), cudaErrorIllegalAddress);
	GIVES(launch_with(empty, 1, 1, NULL, NULL), cudaErrorIllegalAddress);
	GIVES(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

CONFORM(illegal_address_is_sticky)
{
	run_child("wild", NULL);
}

CHILD(trapped)
{
	WORKS(launch_with(trapped, 1, 1, NULL, NULL));
	GIVES(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
	GIVES(cudaStreamSynchronize(NULL), cudaErrorLaunchFailure);
}

CONFORM(trap_is_a_launch_failure)
{
	run_child("trapped", NULL);
}
