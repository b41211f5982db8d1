// trace_load PER_SECOND: a tenant for test_trace.py. Fills a buffer on the GPU so many times a second, copies 1 MiB to
// the GPU after each 10 fills, and reads 64 KiB after each 20. Prints "ready" after the first fill. When its standard
// input ends, prints how many fills and copies to the GPU it made, and ends.
#include <cuda.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MIB = 1 << 20, COPIED = 64 << 10 };

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

int main(int argc, char **argv)
{
	static char bytes[MIB];
	int rate = argc > 1 ? atoi(argv[1]) : 1000;
	unsigned long fills = 0, copies = 0;
	CUcontext context;
	CUdeviceptr memory;
	CUdevice device;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuMemAlloc(&memory, 64 * MIB));
	do {
		CHECK(cuMemsetD32(memory, 7, MIB / 4));
		if (++fills % 10 == 0) {
			CHECK(cuMemcpyHtoD(memory, bytes, MIB));
			copies++;
		}
		if (fills % 20 == 0)
			CHECK(cuMemcpyDtoH(bytes, memory, COPIED));
		CHECK(cuCtxSynchronize());
		if (fills == 1) {
			puts("ready");
			fflush(stdout);
		}
	} while (!has_ended(fills % 4 ? 0 : 4000 / rate));
	printf("%lu %lu\n", fills, copies);
	return 0;
}
