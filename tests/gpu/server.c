// server MIB VALUE: fills device memory with the value and answers requests, one a line of standard input:
//   check          reads three places of the memory and prints "right" or "wrong"
//   block SECONDS  gives the GPU work that lasts so long, prints "begun", and does not wait for it
//   copy           copies the memory to pinned host memory and back, chunk by chunk, and prints the seconds of each way
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda.h>

enum { MIB = 1 << 20, WORDS = MIB / 4 };

#define DO(call)                                                                                                       \
	do {                                                                                                           \
		CUresult result = call;                                                                                \
		if (result != CUDA_SUCCESS) {                                                                          \
			fprintf(stderr, "%s: %d\n", #call, (int)result);                                               \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

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

// One chunk of host memory serves for all.
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
	size_t mib = argc > 2 ? strtoull(argv[1], NULL, 10) : 0;
	uint32_t value = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
	CUdeviceptr memory;
	CUcontext context;
	CUstream stream;
	char line[64];
	double took[2];
	int seconds;

	if (mib == 0)
		return 2;
	DO(cuInit(0));
	DO(cuDevicePrimaryCtxRetain(&context, 0));
	DO(cuCtxSetCurrent(context));
	DO(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	DO(cuMemAlloc(&memory, mib * MIB));
	DO(cuMemsetD32(memory, value, mib * WORDS));
	DO(cuCtxSynchronize());
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		if (strcmp(line, "check\n") == 0)
			printf("%s\n", is_right(memory, mib, value) ? "right" : "wrong");
		else if (strcmp(line, "copy\n") == 0) {
			copy(memory, mib, stream, took);
			printf("%.4f %.4f\n", took[0], took[1]);
		} else if (sscanf(line, "block %d", &seconds) == 1) {
			DO(cuLaunchHostFunc(stream, sleep_for, &seconds));
			printf("begun\n");
		}
		fflush(stdout);
	}
	return 0;
}
