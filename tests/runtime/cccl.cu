// Tests Thrust and CUB, which call much of the runtime.
#include <cub/device/device_reduce.cuh>
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/scan.h>
#include <thrust/sort.h>

#include <cstdio>

int main()
{
	const int COUNT = 5000;
	thrust::host_vector<int> numbers(COUNT);
	long long expected = 0, first_half = 0;
	int *sum;
	void *temporary = nullptr;
	size_t size = 0;
	int got = 0;

	for (int i = 0; i < COUNT; i++) {
		numbers[i] = (i * 7919) % 5003;
		expected += numbers[i];
	}
	thrust::device_vector<int> device = numbers;
	thrust::sort(device.begin(), device.end());
	thrust::host_vector<int> sorted = device;
	for (int i = 1; i < COUNT; i++)
		if (sorted[i - 1] > sorted[i])
			return printf("FAIL not sorted at %d\n0 passed, 1 failed, 0 skipped\n", i), 1;
	for (int i = 0; i <= COUNT / 2; i++)
		first_half += sorted[i];
	cudaMalloc(&sum, sizeof *sum);
	cub::DeviceReduce::Sum(temporary, size, thrust::raw_pointer_cast(device.data()), sum, COUNT);
	cudaMalloc(&temporary, size);
	cub::DeviceReduce::Sum(temporary, size, thrust::raw_pointer_cast(device.data()), sum, COUNT);
	cudaMemcpy(&got, sum, sizeof got, cudaMemcpyDeviceToHost);
	thrust::inclusive_scan(device.begin(), device.end(), device.begin());
	bool right = got == expected && device[COUNT / 2] == first_half && cudaGetLastError() == cudaSuccess;
	printf("%s cccl\n%d passed, %d failed, 0 skipped\n", right ? "ok" : "FAIL", right, !right);
	return !right;
}
