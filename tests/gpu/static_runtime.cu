// A program with the static CUDA runtime, which nvcc links by default. Reports the memory that it sees, allocates
// memory, computes, and tries to allocate more than the limit.
#include <cstdio>
#include <cstdlib>

__global__ void square(float *values, int count)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		values[i] *= values[i];
}

int main()
{
	const int count = 1 << 20;
	size_t available = 0, total = 0;
	float *values, *host = static_cast<float *>(malloc(count * sizeof(float)));
	void *more = nullptr;

	cudaError_t error = cudaMemGetInfo(&available, &total);
	if (error != cudaSuccess || cudaMalloc(&values, count * sizeof(float)) != cudaSuccess) {
		fprintf(stderr, "static_runtime: %s\n", cudaGetErrorString(error ? error : cudaGetLastError()));
		return 1;
	}
	for (int i = 0; i < count; i++)
		host[i] = i % 100;
	cudaMemcpy(values, host, count * sizeof(float), cudaMemcpyHostToDevice);
	square<<<(count + 255) / 256, 256>>>(values, count);
	cudaMemcpy(host, values, count * sizeof(float), cudaMemcpyDeviceToHost);
	for (int i = 0; i < count; i++)
		if (host[i] != (i % 100) * (i % 100)) {
			fprintf(stderr, "static_runtime: element %d is %g\n", i, host[i]);
			return 1;
		}
	error = cudaMalloc(&more, total);
	printf("total %zu free %zu beyond %s\n", total, available, cudaGetErrorName(error));
	cudaFree(values);
	return cudaGetLastError() == cudaErrorMemoryAllocation && cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
