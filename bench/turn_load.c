// A tenant for bench_turns.py: does one kind of work for some seconds with the driver API, and prints its progress.
//   turn_load calibrate              prints how many rounds of the kernel take a microsecond
//   turn_load KIND SECONDS ROUNDS    KIND: train, long, launch, half, infer, closed, graph, shapes, stamps
// Prints a line every 50 ms: {CLOCK_MONOTONIC in ns} {units of work done}. infer and closed print a line for each
// request instead: {end in ns} {duration in ns}. stamps prints a line for each kernel at the end: {begin} {end} in ns
// of the GPU's clock.
#include <cuda.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "turn_kernel.h"

static CUmodule module;
static CUfunction function;
static CUstream stream;
static int processors;

#define CHECK(call) check(call, #call)
static void check(CUresult result, const char *what)
{
	const char *name = "?";

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorName(result, &name);
	fprintf(stderr, "turn_load: %s: %s\n", what, name);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void sleep_ns(uint64_t ns)
{
	nanosleep(&(struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)}, NULL);
}

static void launch_blocks(unsigned int rounds, int blocks)
{
	CUdeviceptr nowhere = 0;
	void *arguments[] = {&rounds, &nowhere};

	CHECK(cuLaunchKernel(function, (unsigned int)blocks, 1, 1, 256, 1, 1, 0, stream, arguments, NULL));
}

static void launch(unsigned int rounds)
{
	launch_blocks(rounds, processors);
}

static void open_device(void)
{
	CUcontext context;
	CUdevice device;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
	CHECK(cuModuleLoadData(&module, turn_source));
	CHECK(cuModuleGetFunction(&function, module, "turn_work"));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static float time_launch(unsigned int rounds, CUevent begin, CUevent end)
{
	float ms;

	CHECK(cuEventRecord(begin, stream));
	launch(rounds);
	CHECK(cuEventRecord(end, stream));
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuEventElapsedTime(&ms, begin, end));
	return ms;
}

// Returns how many rounds take a microsecond: the median of some launches of at least 0.2 ms.
static double count_rounds_per_us(void)
{
	enum { TRIES = 21 };
	unsigned int rounds = 10;
	float times[TRIES];
	CUevent begin, end;

	CHECK(cuEventCreate(&begin, 0));
	CHECK(cuEventCreate(&end, 0));
	while (time_launch(rounds, begin, end) < 0.2f)
		rounds *= 2;
	for (uint64_t warm = now_ns() + 300000000; now_ns() < warm;)
		time_launch(rounds, begin, end);
	for (int i = 0; i < TRIES; i++) {
		float ms = time_launch(rounds, begin, end);
		int at = i;
		for (; at > 0 && times[at - 1] > ms; at--)
			times[at] = times[at - 1];
		times[at] = ms;
	}
	return rounds / (times[TRIES / 2] * 1e3);
}

static CUgraphExec capture_graph(unsigned int rounds, int kernels)
{
	CUgraphExec executable;
	CUgraph graph;

	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	for (int i = 0; i < kernels; i++)
		launch(rounds);
	CHECK(cuStreamEndCapture(stream, &graph));
	CHECK(cuGraphInstantiate(&executable, graph, 0));
	return executable;
}

// Launches kernels of 0.5 ms that record their times, and prints the times at the end.
static void run_stamps(unsigned int rounds, uint64_t end)
{
	enum { MOST = 1 << 20, BATCH = 64 };
	CUdeviceptr stamps;
	size_t count = 0;
	uint64_t(*times)[2];

	CHECK(cuModuleGetFunction(&function, module, "turn_stamp"));
	CHECK(cuMemAlloc(&stamps, MOST * sizeof *times));
	while (now_ns() < end && count + BATCH <= MOST) {
		for (int i = 0; i < BATCH; i++, count++) {
			CUdeviceptr stamp = stamps + count * sizeof *times;
			void *arguments[] = {&rounds, &stamp};
			CHECK(cuLaunchKernel(function, (unsigned int)processors, 1, 1, 256, 1, 1, 0, stream, arguments,
					     NULL));
		}
		CHECK(cuStreamSynchronize(stream));
	}
	times = calloc(count, sizeof *times);
	if (!times)
		exit(1);
	CHECK(cuMemcpyDtoH(times, stamps, count * sizeof *times));
	for (size_t i = 0; i < count; i++)
		printf("%llu %llu\n", (unsigned long long)times[i][0], (unsigned long long)times[i][1]);
	free(times);
}

// Returns the duration of one kernel of this kind of work, in µs.
static double kernel_us(const char *kind)
{
	static const struct {
		const char *kind;
		double us;
	} kinds[] = {{"long", 6500}, {"shapes", 20}, {"launch", 1}, {"infer", 4}, {"closed", 4}};

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(kind, kinds[i].kind) == 0)
			return kinds[i].us;
	return 200;
}

int main(int argc, char **argv)
{
	open_device();
	if (argc == 2 && strcmp(argv[1], "calibrate") == 0) {
		printf("%.3f\n", count_rounds_per_us());
		return 0;
	}
	if (argc != 4)
		return fprintf(stderr, "usage: turn_load calibrate | KIND SECONDS ROUNDS\n"), 2;
	const char *kind = argv[1];
	double per_us = atof(argv[3]);
	uint64_t end = now_ns() + (uint64_t)(atof(argv[2]) * 1e9), told = 0, done = 0;
	bool has_shapes = strcmp(kind, "shapes") == 0; // kernels of as many sizes as in the training of a model
	double us = kernel_us(kind);
	unsigned int rounds = (unsigned int)fmax(1, us * per_us);
	if (strcmp(kind, "stamps") == 0)
		return run_stamps((unsigned int)fmax(1, 500 * per_us), end), 0;
	bool is_closed = strcmp(kind, "closed") == 0; // a request begins when the previous one has ended
	bool is_infer = is_closed || strcmp(kind, "infer") == 0, is_half = strcmp(kind, "half") == 0;
	CUgraphExec graph = strcmp(kind, "graph") == 0 ? capture_graph(rounds, 40) : NULL;
	int batch = is_infer ? 128 : is_half ? 10 : has_shapes ? 480 : graph ? 1 : us < 10 ? 256 : us > 1000 ? 2 : 64;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (uint64_t begun = now_ns(); begun < end; begun = now_ns()) {
		for (int i = 0; i < batch; i++) {
			if (graph)
				CHECK(cuGraphLaunch(graph, stream));
			else
				launch_blocks(rounds, has_shapes ? 1 + i % 160 : processors);
		}
		CHECK(cuStreamSynchronize(stream));
		done += (uint64_t)batch;
		uint64_t now = now_ns();
		if (is_infer) {
			printf("%llu %llu\n", (unsigned long long)now, (unsigned long long)(now - begun));
			if (!is_closed && now < begun + 5000000)
				sleep_ns(begun + 5000000 - now);
		} else if (now - told >= 50000000) {
			printf("%llu %llu\n", (unsigned long long)now, (unsigned long long)done);
			told = now;
		}
		if (is_half)
			sleep_ns(3000000);
	}
	return 0;
}
