// server MIB VALUE [PIECE]: fills device memory with the value and answers requests, which are lines of standard input.
// With PIECE, cuMemCreate creates the memory in pieces of PIECE MiB; the first piece is also mapped at a second
// address.
//   check          reads three places of the memory and prints "right" or "wrong"
//   write VALUE    fills the memory with another value, and prints "written"
//   set MIB VALUE  writes one word at the beginning of that MiB, and prints "set"
//   block SECONDS  queues work that lasts so long, prints "begun", and does not wait for it
//   copy           copies the memory to pinned host memory and back, chunk by chunk, and prints the seconds of each way
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver_call.h"

enum { MIB = 1 << 20, WORDS = MIB / 4 };

static CUdeviceptr allocate(size_t mib)
{
	CUdeviceptr memory;

	DO(cuMemAlloc(&memory, mib * MIB));
	return memory;
}

static const CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					   .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
static const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
				       .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

// Creates and maps memory in pieces, and releases their handles. Returns its address; *ret_alias is the second address
// of the first piece.
static CUdeviceptr create_pieces(size_t mib, size_t piece, CUdeviceptr *ret_alias)
{
	CUdeviceptr memory;
	CUmemGenericAllocationHandle handle;

	DO(cuMemAddressReserve(&memory, mib * MIB, 0, 0, 0));
	DO(cuMemAddressReserve(ret_alias, piece * MIB, 0, 0, 0));
	for (size_t at = 0; at < mib; at += piece) {
		size_t size = (mib - at < piece ? mib - at : piece) * MIB;
		DO(cuMemCreate(&handle, size, &wanted, 0));
		DO(cuMemMap(memory + at * MIB, size, 0, handle, 0));
		if (at == 0)
			DO(cuMemMap(*ret_alias, size, 0, handle, 0));
		DO(cuMemRelease(handle));
	}
	DO(cuMemSetAccess(memory, mib * MIB, &access, 1));
	DO(cuMemSetAccess(*ret_alias, piece * MIB, &access, 1));
	return memory;
}

static void sleep_for(void *seconds)
{
	nanosleep(&(struct timespec){.tv_sec = *(int *)seconds}, NULL);
}

static int is_right(CUdeviceptr memory, size_t mib, uint32_t value)
{
	static uint32_t words[WORDS];
	const size_t places[] = {0, (size_t)rand() % mib, mib - 1};

	for (size_t i = 0; i < 3; i++) {
		DO(cuMemcpyDtoH(words, memory + places[i] * MIB, MIB));
		for (size_t k = 0; k < WORDS; k++)
			if (words[k] != value)
				return 0;
	}
	return 1;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

// Copies the memory to one chunk of pinned host memory and back, and measures both ways.
static void copy(CUdeviceptr memory, size_t mib, CUstream stream, double ret_seconds[2])
{
	static const size_t chunk = 128;
	void *host;

	DO(cuMemHostAlloc(&host, chunk * MIB, 0));
	for (int way = 0; way < 2; way++) {
		double begun = now();
		for (size_t at = 0; at < mib; at += chunk) {
			size_t bytes = (mib - at < chunk ? mib - at : chunk) * MIB;
			if (way == 0)
				DO(cuMemcpyDtoHAsync(host, memory + at * MIB, bytes, stream));
			else
				DO(cuMemcpyHtoDAsync(memory + at * MIB, host, bytes, stream));
		}
		DO(cuStreamSynchronize(stream));
		ret_seconds[way] = now() - begun;
	}
	DO(cuMemFreeHost(host));
}

int main(int argc, char **argv)
{
	size_t mib = argc > 2 ? strtoull(argv[1], NULL, 10) : 0, piece = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	uint32_t value = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0, word;
	CUdeviceptr memory, alias = 0;
	CUcontext context;
	CUstream stream;
	char line[64];
	double took[2];
	unsigned int at;
	int seconds;

	if (mib == 0 || piece > mib)
		return 2;
	DO(cuInit(0));
	DO(cuDevicePrimaryCtxRetain(&context, 0));
	DO(cuCtxSetCurrent(context));
	DO(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	memory = piece ? create_pieces(mib, piece, &alias) : allocate(mib);
	DO(cuMemsetD32(memory, value, mib * WORDS));
	DO(cuCtxSynchronize());
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		if (strcmp(line, "check\n") == 0) {
			int right = is_right(memory, mib, value) && (!alias || is_right(alias, piece, value));
			printf("%s\n", right ? "right" : "wrong");
		} else if (strcmp(line, "copy\n") == 0) {
			copy(memory, mib, stream, took);
			printf("%.4f %.4f\n", took[0], took[1]);
		} else if (sscanf(line, "write %u", &value) == 1) {
			DO(cuMemsetD32(memory, value, mib * WORDS));
			DO(cuCtxSynchronize());
			printf("written\n");
		} else if (sscanf(line, "set %u %u", &at, &word) == 2) {
			DO(cuMemsetD32(memory + (size_t)at * MIB, word, 1));
			printf("set\n");
		} else if (sscanf(line, "block %d", &seconds) == 1) {
			DO(cuLaunchHostFunc(stream, sleep_for, &seconds));
			printf("begun\n");
		}
		fflush(stdout);
	}
	return 0;
}
