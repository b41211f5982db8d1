// Tests the runtime's functions with C++ types in programs compiled by virgate-clang: instances of kernel templates,
// variables, and pointers of any type.
#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

static int passed, failed;

#define EXPECT(condition)                                                                                              \
	do {                                                                                                           \
		if (condition) {                                                                                       \
			passed++;                                                                                      \
		} else {                                                                                               \
			failed++;                                                                                      \
			printf("FAIL line %d: %s\n", __LINE__, #condition);                                            \
		}                                                                                                      \
	} while (0)
#define GIVES(call, error)                                                                                             \
	do {                                                                                                           \
		cudaError_t error_ = (call);                                                                           \
		if (error_ == (error)) {                                                                               \
			passed++;                                                                                      \
		} else {                                                                                               \
			failed++;                                                                                      \
			printf("FAIL line %d: %s gives %s\n", __LINE__, #call, cudaGetErrorName(error_));              \
		}                                                                                                      \
	} while (0)
#define WORKS(call) GIVES(call, cudaSuccess)

struct pair {
	int first;
	double second;
};

namespace scope
{
__device__ int counter = 3;
}
__constant__ float factors[4];
__device__ pair both = {1, 2};
static __device__ double table[8];

template <typename T> __global__ void fill(T *to, T value)
{
	to[blockIdx.x * blockDim.x + threadIdx.x] = value + (T)factors[0] + (T)scope::counter;
}

template <typename T, int N> __global__ void scale(T *values)
{
	extern __shared__ int shared[];

	shared[threadIdx.x] = N;
	__syncthreads();
	values[threadIdx.x] *= (T)shared[blockDim.x - 1 - threadIdx.x];
	if (threadIdx.x == 0)
		both.second += table[2];
}

__global__ void store_pair(double *to, const pair given, long long rest)
{
	*to = given.first + given.second + (double)rest;
}
__global__ void count_up()
{
	atomicAdd(&scope::counter, 1);
}
__global__ void __launch_bounds__(96) bounded(int *to)
{
	*to = 1;
}

static void test_allocations()
{
	cudaMemPool_t pool;
	cudaStream_t stream;
	cudaEvent_t event;
	float *plain, *managed, *host, *more_host, *mapped, *pitched, *pooled, *from_pool;
	pair *ordered;
	void *untyped;
	size_t pitch = 0;

	WORKS(cudaStreamCreate(&stream));
	WORKS(cudaDeviceGetDefaultMemPool(&pool, 0));
	WORKS(cudaMalloc(&plain, 16));
	WORKS(cudaMalloc(&untyped, 16));
	WORKS(cudaFree(untyped));
	WORKS(cudaMallocManaged(&managed, 16));
	managed[3] = 1;
	WORKS(cudaMallocHost(&host, 16));
	WORKS(cudaMallocHost(&more_host, 16, cudaHostAllocMapped));
	WORKS(cudaMallocHost(&untyped, 16, cudaHostAllocPortable));
	WORKS(cudaFreeHost(untyped));
	WORKS(cudaHostGetDevicePointer(&mapped, more_host, 0));
	EXPECT(mapped == more_host);
	WORKS(cudaFreeHost(more_host));
	WORKS(cudaHostAlloc(&more_host, 16, cudaHostAllocDefault));
	more_host[3] = host[3] = 1;
	WORKS(cudaMallocPitch(&pitched, &pitch, 12, 3));
	EXPECT(pitch >= 12);
	WORKS(cudaMallocAsync(&ordered, sizeof *ordered, stream));
	WORKS(cudaMallocAsync(&pooled, 16, pool, stream));
	WORKS(cudaMallocAsync(&untyped, 16, pool, stream));
	WORKS(cudaMallocFromPoolAsync(&from_pool, 16, pool, stream));
	WORKS(cudaFreeAsync(ordered, stream));
	WORKS(cudaFreeAsync(pooled, stream));
	WORKS(cudaFreeAsync(untyped, stream));
	WORKS(cudaFreeAsync(from_pool, stream));
	WORKS(cudaEventCreate(&event, cudaEventDisableTiming));
	WORKS(cudaEventRecord(event, stream));
	WORKS(cudaStreamSynchronize(stream));
	float elapsed;
	GIVES(cudaEventElapsedTime(&elapsed, event, event), cudaErrorInvalidResourceHandle); // not timed
	cudaGetLastError();
	WORKS(cudaEventDestroy(event));
	WORKS(cudaFree(plain));
	WORKS(cudaFree(managed));
	WORKS(cudaFree(pitched));
	WORKS(cudaFreeHost(host));
	WORKS(cudaFreeHost(more_host));
	WORKS(cudaStreamDestroy(stream));
}

static void test_symbols()
{
	const float given[4] = {1, 2, 3, 4};
	float back[2] = {};
	pair got = {}, other = {5, 6};
	cudaStream_t stream;
	void *address, *by_pointer;
	size_t size = 0;
	int count = 0;

	WORKS(cudaStreamCreate(&stream));
	WORKS(cudaMemcpyToSymbol(factors, given, sizeof given));
	WORKS(cudaMemcpyFromSymbol(back, factors, sizeof back, 2 * sizeof(float)));
	EXPECT(back[0] == 3 && back[1] == 4);
	WORKS(cudaMemcpyFromSymbol(&count, scope::counter, sizeof count));
	EXPECT(count == 3);
	WORKS(cudaMemcpyToSymbolAsync(both, &other, sizeof other, 0, cudaMemcpyHostToDevice, stream));
	WORKS(cudaMemcpyFromSymbolAsync(&got, both, sizeof got, 0, cudaMemcpyDeviceToHost, stream));
	WORKS(cudaStreamSynchronize(stream));
	EXPECT(got.first == 5 && got.second == 6);
	WORKS(cudaMemcpyToSymbolAsync(both, &got, sizeof got));
	WORKS(cudaMemcpyFromSymbolAsync(&other, both, sizeof other));
	WORKS(cudaGetSymbolSize(&size, factors));
	EXPECT(size == sizeof factors);
	WORKS(cudaGetSymbolSize(&size, table));
	EXPECT(size == sizeof table);
	WORKS(cudaGetSymbolAddress(&address, table));
	WORKS(cudaGetSymbolAddress(&by_pointer, (const void *)table));
	EXPECT(address == by_pointer);
	WORKS(cudaMemset(address, 0, size));
	GIVES(cudaMemcpyToSymbol(factors, given, sizeof given, 4), cudaErrorInvalidValue); // beyond the end
	GIVES(cudaGetSymbolAddress(&address, given), cudaErrorInvalidSymbol);
	cudaGetLastError();
	WORKS(cudaStreamDestroy(stream));
}

static void test_launches()
{
	double values[32], sum = 0, *device;
	void *arguments[] = {&device};
	cudaLaunchAttribute attribute = {};
	cudaLaunchConfig_t config = {};
	cudaFuncAttributes attributes;
	const char *name = "";
	cudaFunction_t function;
	cudaKernel_t handle;

	WORKS(cudaMalloc(&device, sizeof values));
	fill<double><<<1, 32>>>(device, 0.5);
	WORKS(cudaGetLastError());
	WORKS(cudaLaunchKernel(scale<double, 3>, 1, 32, arguments, 32 * sizeof(int)));
	WORKS(cudaLaunchKernel((void *)scale<double, 2>, 1, dim3(32), arguments, 32 * sizeof(int), 0));
	WORKS(cudaLaunchCooperativeKernel(scale<double, 5>, 1, 32, arguments, 32 * sizeof(int)));
	WORKS(cudaMemcpy(values, device, sizeof values, cudaMemcpyDeviceToHost));
	EXPECT(values[0] == 4.5 * 30 && values[31] == 4.5 * 30);

	config.gridDim = 1;
	config.blockDim = 1;
	attribute.id = cudaLaunchAttributePriority;
	config.attrs = &attribute;
	config.numAttrs = 1;
	pair given = {1, 2};
	// the third argument is an int, and is converted to the kernel's long long
	WORKS(cudaLaunchKernelEx(&config, store_pair, device, given, 4));
	WORKS(cudaMemcpy(&sum, device, sizeof sum, cudaMemcpyDeviceToHost));
	EXPECT(sum == 7);
	WORKS(cudaLaunchKernelEx(&config, fill<double>, device + 1, 1));
	WORKS(cudaMemcpy(values, device, sizeof values, cudaMemcpyDeviceToHost));
	EXPECT(values[0] == 7 && values[1] == 5);
	WORKS(cudaLaunchKernelEx(&config, count_up));
	WORKS(cudaGetKernel(&handle, store_pair));
	WORKS(cudaLaunchKernelEx(&config, handle, device, given, 5LL));
	WORKS(cudaMemcpy(&sum, device, sizeof sum, cudaMemcpyDeviceToHost));
	EXPECT(sum == 8);

	WORKS(cudaFuncGetAttributes(&attributes, bounded));
	EXPECT(attributes.maxThreadsPerBlock == 96);
	WORKS(cudaFuncSetAttribute(scale<float, 1>, cudaFuncAttributeMaxDynamicSharedMemorySize, 60 * 1024));
	WORKS(cudaFuncGetAttributes(&attributes, scale<float, 1>));
	EXPECT(attributes.maxDynamicSharedSizeBytes == 60 * 1024);
	WORKS(cudaFuncSetCacheConfig(fill<float>, cudaFuncCachePreferShared));
	WORKS(cudaFuncGetName(&name, fill<float>));
	EXPECT(strcmp(name, "_Z4fillIfEvPT_S0_") == 0);
	WORKS(cudaGetFuncBySymbol(&function, (const void *)fill<float>));
	WORKS(cudaFree(device));
}

static size_t shared_for(int threads)
{
	return threads * 128;
}

static size_t word_for(int threads)
{
	return threads * sizeof(int);
}

// Returns whether `block` is the best block size: no other size gives more resident threads, and `grid` blocks fill the
// device exactly.
template <typename T, typename Shared> static bool is_best(T kernel, int grid, int block, Shared shared)
{
	int multiprocessors = 0, blocks = 0, most = 0;

	cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
	for (int size = 32; size <= 1024; size += 32)
		if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, size, shared(size)) == cudaSuccess &&
		    blocks * size > most)
			most = blocks * size;
	cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, block, shared(block));
	return most > 0 && blocks * block == most && grid == blocks * multiprocessors;
}

static void test_occupancy()
{
	cudaLaunchAttribute attribute = {};
	cudaLaunchConfig_t config = {};
	int blocks = 0, more = 0, grid = 0, block = 0, multiprocessors = 0, clusters = 0;
	size_t shared = 0;

	WORKS(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
	WORKS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill<float>, 1024, 0));
	EXPECT(blocks == 2);
	WORKS(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&more, fill<int>, 512, 0, cudaOccupancyDefault));
	EXPECT(more == 4);
	WORKS(cudaOccupancyMaxPotentialBlockSize(&grid, &block, fill<float>));
	EXPECT(block == 1024 && grid == 2 * multiprocessors);
	WORKS(cudaOccupancyMaxPotentialBlockSize(&grid, &block, fill<float>, 0, 200));
	EXPECT(block % 32 == 0 || block == 200);
	WORKS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill<float>, block, 0));
	EXPECT(grid == blocks * multiprocessors && block * blocks > 1800);
	WORKS(cudaOccupancyMaxPotentialBlockSize(&grid, &block, bounded));
	// two sizes are nearly equal: 32 blocks of 64 threads are 2048, and 21 blocks of 96 are 2016
	EXPECT(block == 64 || block == 96);
	WORKS(cudaOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, fill<float>, 40 * 1024));
	EXPECT(block == 1024 || block == 512);
	WORKS(cudaOccupancyMaxPotentialBlockSizeVariableSMem(&grid, &block, scale<float, 3>, shared_for));
	EXPECT(is_best(scale<float, 3>, grid, block, shared_for));
	WORKS(cudaOccupancyMaxPotentialBlockSizeVariableSMem(&grid, &block, scale<float, 2>, word_for));
	EXPECT(is_best(scale<float, 2>, grid, block, word_for));
	// no block can have so much shared memory
	WORKS(cudaOccupancyMaxPotentialBlockSize(&grid, &block, fill<float>, (size_t)1 << 20));
	EXPECT(grid == 0 && block == 0);
	GIVES(cudaOccupancyMaxPotentialBlockSize((int *)nullptr, &block, fill<float>), cudaErrorInvalidValue);
	WORKS(cudaOccupancyAvailableDynamicSMemPerBlock(&shared, fill<float>, 2, 1024));
	EXPECT(shared > 0);
	config.gridDim = 8;
	config.blockDim = 32;
	WORKS(cudaOccupancyMaxPotentialClusterSize(&clusters, fill<float>, &config));
	EXPECT(clusters == 8);
	attribute.id = cudaLaunchAttributeClusterDimension;
	attribute.val.clusterDim.x = 2;
	attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
	config.attrs = &attribute;
	config.numAttrs = 1;
	WORKS(cudaOccupancyMaxActiveClusters(&clusters, fill<float>, &config));
	EXPECT(clusters > 0);
	cudaGetLastError();
}

static void test_graphs()
{
	float given[4] = {7, 8, 9, 10}, other[4] = {1, 1, 1, 1}, got[4] = {}, more[4] = {};
	cudaGraphNode_t to, from, nodes[1];
	cudaGraphExec_t instance;
	cudaGraph_t graph;
	cudaStream_t stream;

	WORKS(cudaStreamCreate(&stream));
	WORKS(cudaGraphCreate(&graph, 0));
	WORKS(cudaGraphAddMemcpyNodeToSymbol(&to, graph, NULL, 0, factors, other, sizeof other, 0,
					     cudaMemcpyHostToDevice));
	nodes[0] = to;
	WORKS(cudaGraphAddMemcpyNodeFromSymbol(&from, graph, nodes, 1, more, factors, sizeof more, 0,
					       cudaMemcpyDeviceToHost));
	WORKS(cudaGraphMemcpyNodeSetParamsToSymbol(to, factors, given, sizeof given, 0, cudaMemcpyHostToDevice));
	WORKS(cudaGraphMemcpyNodeSetParamsFromSymbol(from, got, factors, sizeof got, 0, cudaMemcpyDeviceToHost));
	WORKS(cudaGraphInstantiate(&instance, graph, NULL, NULL, 0));
	WORKS(cudaGraphLaunch(instance, stream));
	WORKS(cudaStreamSynchronize(stream));
	EXPECT(memcmp(got, given, sizeof got) == 0);
	WORKS(cudaGraphExecMemcpyNodeSetParamsToSymbol(instance, to, factors, other, sizeof other, 0,
						       cudaMemcpyHostToDevice));
	WORKS(cudaGraphExecMemcpyNodeSetParamsFromSymbol(instance, from, more, factors, sizeof more, 0,
							 cudaMemcpyDeviceToHost));
	WORKS(cudaGraphLaunch(instance, stream));
	WORKS(cudaStreamSynchronize(stream));
	EXPECT(memcmp(more, other, sizeof more) == 0);
	WORKS(cudaGraphExecDestroy(instance));
	WORKS(cudaGraphDestroy(graph));
	WORKS(cudaStreamDestroy(stream));
}

static void test_channels()
{
	cudaChannelFormatDesc desc = cudaCreateChannelDesc<float>();
	cudaExtent extent = make_cudaExtent(64, 8, 0);
	cudaPitchedPtr rows = make_cudaPitchedPtr(&extent, 128, 64, 8);
	cudaPos place = make_cudaPos(1, 2, 3);
	cudaArray_t array;

	EXPECT(desc.x == 32 && desc.y == 0 && desc.z == 0 && desc.w == 0 && desc.f == cudaChannelFormatKindFloat);
	desc = cudaCreateChannelDesc<uchar4>();
	EXPECT(desc.x == 8 && desc.y == 8 && desc.z == 8 && desc.w == 8 && desc.f == cudaChannelFormatKindUnsigned);
	desc = cudaCreateChannelDesc<short2>();
	EXPECT(desc.x == 16 && desc.y == 16 && desc.z == 0 && desc.f == cudaChannelFormatKindSigned);
	desc = cudaCreateChannelDesc<char>();
	EXPECT(desc.x == 8 && desc.y == 0 && desc.f == cudaChannelFormatKindSigned);
	EXPECT(rows.pitch == 128 && rows.xsize == 64 && rows.ysize == 8 && rows.ptr == &extent);
	EXPECT(place.x == 1 && place.y == 2 && place.z == 3);
	desc = cudaCreateChannelDesc<int2>();
	WORKS(cudaMalloc3DArray(&array, &desc, extent));
	WORKS(cudaFreeArray(array));
}

int main()
{
	test_allocations();
	test_symbols();
	test_launches();
	test_occupancy();
	test_graphs();
	test_channels();
	printf("%d passed, %d failed, 0 skipped\n", passed, failed);
	return failed != 0;
}
