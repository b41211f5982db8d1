// Tests the declarations of the runtime's headers with clang, in a program with code for host and device. virgate-clang
// compiles it twice: for the legacy default stream, and for the per-thread default stream. The former build has
// -DTIMES=2: the kernel and the host multiply their results by TIMES.
#include <assert.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#ifndef TIMES
#define TIMES 1
#endif

__constant__ float factors[4];
__device__ int calls;

__global__ void scale(float *values, int count)
{
	__shared__ float tile[64];
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	tile[threadIdx.x] = values[i];
	__syncthreads();
	assert(i < count);
	values[i] = expf(-tile[63 - threadIdx.x]) * factors[i & 3] * TIMES;
	atomicAdd(&calls, 1);
	if (i == 0)
		printf("%d values\n", count);
}

#define CHECK(call)                                                                                                    \
	do {                                                                                                           \
		cudaError_t error_ = (call);                                                                           \
		if (error_ != cudaSuccess) {                                                                           \
			printf("FAIL line %d: %s\n", __LINE__, cudaGetErrorName(error_));                              \
			return 1;                                                                                      \
		}                                                                                                      \
	} while (0)

// Checks that threadIdx and similar variables convert to vectors, and that structures can have members with these
// names.
__global__ void places(float *to)
{
	uint3 thread = threadIdx, block = blockIdx;
	dim3 threads = blockDim, blocks(gridDim);

	to[block.x * threads.x + thread.x] = (float)(blocks.x * warpSize + thread.x);
}

static int count_wrong_places(float *device)
{
	cudaLaunchConfig_t config = {};
	void *arguments[] = {&device};
	float values[64];
	int wrong = 0;

	config.gridDim = 2;
	config.blockDim = 32;
	CHECK(cudaLaunchKernelExC(&config, (const void *)places, arguments));
	CHECK(cudaMemcpy(values, device, sizeof values, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 64; i++)
		wrong += values[i] != 2 * 32 + i % 32;
	return wrong;
}

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
// Checks that a launch without a stream goes to the thread's default stream.
static int count_wrong_streams(float *device)
{
	cudaGraph_t graph;
	size_t nodes = 0;

	CHECK(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeThreadLocal));
	places<<<1, 32>>>(device);
	CHECK(cudaGetLastError());
	CHECK(cudaStreamEndCapture(cudaStreamPerThread, &graph));
	CHECK(cudaGraphGetNodes(graph, NULL, &nodes));
	CHECK(cudaGraphDestroy(graph));
	return nodes != 1;
}
#endif

int main(void)
{
	float values[128], given[4] = {1, 2, 3, 4}, *device;
	cudaStream_t stream;
	int counted, wrong = 0;

	for (int i = 0; i < 128; i++)
		values[i] = (float)i / 128;
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaMalloc(&device, sizeof values));
	CHECK(cudaMemcpyToSymbol(factors, given, sizeof given));
	CHECK(cudaMemcpyAsync(device, values, sizeof values, cudaMemcpyHostToDevice, stream));
	scale<<<2, 64, 0, stream>>>(device, 128);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpyAsync(values, device, sizeof values, cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaMemcpyFromSymbol(&counted, calls, sizeof counted));
	for (int i = 0; i < 128; i++) {
		double want = exp(-(i / 64 * 64 + 63 - i % 64) / 128.0) * given[i & 3] * TIMES;
		wrong += fabs(values[i] - want) > 1e-6;
	}
	wrong += count_wrong_places(device);
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
	wrong += count_wrong_streams(device);
#endif
	scale<<<1, 2048>>>(device, 128);
	wrong += cudaGetLastError() != cudaErrorInvalidValue; // too many threads
	CHECK(cudaFree(device));
	CHECK(cudaStreamDestroy(stream));
	printf("%d calls, %d wrong\n", counted, wrong);
	printf("%d passed, %d failed, 0 skipped\n", !wrong && counted == 128, wrong || counted != 128);
	return wrong || counted != 128;
}
