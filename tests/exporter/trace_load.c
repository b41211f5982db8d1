// trace_load PER_SECOND: a tenant for test_trace.py. Fills a buffer on each GPU so many times a second, copies 1 MiB
// to one of them after each 10 fills, and reads 64 KiB after each 20. Prints "ready" after the first fill. When its
// standard input ends, prints how many fills and copies to the GPU it made, and ends.
#include <cuda.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MIB = 1 << 20, COPIED = 64 << 10, MOST_GPUS = 8 };

#define CHECK(call) check(call, #call)
static void check(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "trace_load: %s: error %d\n", what, (int)result);
	exit(1);
}

static int has_ended(int ms)
{
	struct pollfd input = {STDIN_FILENO, POLLIN, 0};

	return poll(&input, 1, ms) > 0;
}

struct gpu {
	CUcontext context;
	CUdeviceptr memory;
};

static int prepare_gpus(struct gpu gpus[MOST_GPUS])
{
	CUdevice device;
	int count;

	CHECK(cuInit(0));
	CHECK(cuDeviceGetCount(&count));
	for (int i = count = count < MOST_GPUS ? count : MOST_GPUS; i-- > 0;) { // the first one stays current
		CHECK(cuDeviceGet(&device, i));
		CHECK(cuDevicePrimaryCtxRetain(&gpus[i].context, device));
		CHECK(cuCtxSetCurrent(gpus[i].context));
		CHECK(cuMemAlloc(&gpus[i].memory, 64 * MIB));
	}
	return count;
}

static void fill_others(const struct gpu *gpus, int count)
{
	for (int i = count - 1; i > 0; i--) {
		CHECK(cuCtxSetCurrent(gpus[i].context));
		CHECK(cuMemsetD32(gpus[i].memory, 7, MIB / 4));
		CHECK(cuCtxSynchronize());
	}
	CHECK(cuCtxSetCurrent(gpus[0].context));
}

int main(int argc, char **argv)
{
	static char bytes[MIB];
	int rate = argc > 1 ? atoi(argv[1]) : 1000;
	unsigned long fills = 0, copies = 0;
	struct gpu gpus[MOST_GPUS];
	int count = prepare_gpus(gpus);
	CUdeviceptr memory = gpus[0].memory;

	do {
		CHECK(cuMemsetD32(memory, 7, MIB / 4));
		if (++fills % 10 == 0) {
			CHECK(cuMemcpyHtoD(memory, bytes, MIB));
			copies++;
		}
		if (fills % 20 == 0)
			CHECK(cuMemcpyDtoH(bytes, memory, COPIED));
		CHECK(cuCtxSynchronize());
		fill_others(gpus, count);
		if (fills == 1) {
			puts("ready");
			fflush(stdout);
		}
	} while (!has_ended(fills % 4 ? 0 : 4000 / rate));
	printf("%lu %lu\n", fills, copies);
	return 0;
}
