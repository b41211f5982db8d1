// Tests managed variables in a program compiled by virgate-clang: host and kernels use the same memory.
#include <cuda_runtime.h>
#include <stdio.h>

struct place {
	int number;
	float weights[3];
};

__managed__ int counter = 5;
__device__ __managed__ place places[4] = {{1, {0.5f, 1, 2}}, {2, {}}, {3, {}}, {4, {}}};
static __managed__ double total;
static __managed__ int host_only = 8;
__managed__ int *chain;
__device__ int plain = 3;
namespace scope
{
__managed__ unsigned char bytes[3] = {1, 2, 3};
}

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
#define WORKS(call) EXPECT((call) == cudaSuccess)

template <typename T> __global__ void use(T *sum)
{
	atomicAdd(&counter, 10);
	places[2].weights[1] = 7;
	scope::bytes[1] = 9;
	*sum += (T)(places[0].weights[0] + (float)*chain + (float)plain);
}

static int *address_of(bool second)
{
	return second ? &places[3].number : &counter;
}

int main()
{
	cudaPointerAttributes attributes;
	void *address;
	size_t size;
	int read = 0;

	// The variables must have these values before the first call of the runtime.
	EXPECT(counter == 5 && places[0].weights[2] == 2 && *address_of(true) == 4 && host_only == 8);
	counter++;
	places[1].number = 20;
	chain = &places[1].number;
	total = 1;
	use<<<1, 4>>>(&total);
	WORKS(cudaGetLastError());
	WORKS(cudaDeviceSynchronize());
	EXPECT(*address_of(false) == 46);
	EXPECT(places[2].weights[1] == 7 && scope::bytes[1] == 9 && scope::bytes[2] == 3);
	EXPECT(total == 1 + 23.5);
	WORKS(cudaGetSymbolAddress(&address, counter));
	EXPECT(address == &counter);
	WORKS(cudaGetSymbolSize(&size, places));
	EXPECT(size == sizeof places);
	WORKS(cudaMemcpyFromSymbol(&read, counter, sizeof read));
	EXPECT(read == 46);
	WORKS(cudaPointerGetAttributes(&attributes, places));
	EXPECT(attributes.type == cudaMemoryTypeManaged);
	WORKS(cudaMemcpyFromSymbol(&read, plain, sizeof read));
	EXPECT(read == 3);
	int *sum = &host_only;
	void *arguments[] = {&sum};
	chain = &counter;
	WORKS(cudaLaunchKernel(use<int>, 1, 1, arguments));
	WORKS(cudaDeviceSynchronize());
	EXPECT(counter == 56 && host_only > 46);
	printf("%d passed, %d failed, 0 skipped\n", passed, failed);
	return failed != 0;
}
