// replay MIB: launches a captured graph over and over, and counts the launches. The graph increases one word in every
// STRIDE bytes of the first half of device memory by a kernel, and copies the first half to the second half. All other
// words keep a value that depends on their place. Prints "ready" and answers requests, lines of standard input:
//   launched  launches the graph once more, waits for it, and prints "launched"
//   check     compares all memory with what the number of launches gives, and prints "right N", the number of launches
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver_call.h"

enum { MIB = 1 << 20, STRIDE = 64 << 10, THREADS = 16, QUEUED = 8 };

// Each thread increases the first word of one stride.
static const char source[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
			     ".visible .entry increase(.param .u64 p)\n{\n"
			     ".reg .b32 %r<6>; .reg .b64 %d<4>;\n"
			     "ld.param.u64 %d1, [p];\n"
			     "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
			     "mad.lo.s32 %r4, %r1, %r2, %r3; mul.wide.u32 %d2, %r4, 65536; add.s64 %d3, %d1, %d2;\n"
			     "ld.global.u32 %r5, [%d3]; add.u32 %r5, %r5, 1; st.global.u32 [%d3], %r5;\nret;\n}\n";

static CUdeviceptr memory;
static CUstream stream;
static CUgraphExec graph;
static size_t half; // bytes of one half of the memory
static uint32_t launches;

static uint32_t value_at(size_t offset)
{
	return (uint32_t)(offset / 4) * 2654435761u + (offset % STRIDE == 0 ? launches : 0);
}

static void fill(void)
{
	uint32_t *words = malloc(half);

	if (!words)
		exit(1);
	for (size_t offset = 0; offset < half; offset += 4)
		words[offset / 4] = value_at(offset);
	DO(cuMemcpyHtoD(memory, words, half));
	DO(cuMemcpyHtoD(memory + half, words, half));
	free(words);
}

// Returns the offset of the first wrong word, or the size of the memory.
static size_t find_wrong(void)
{
	static uint32_t words[MIB / 4];

	for (size_t at = 0; at < 2 * half; at += MIB) {
		DO(cuMemcpyDtoH(words, memory + at, MIB));
		for (size_t offset = 0; offset < MIB; offset += 4)
			if (words[offset / 4] != value_at((at + offset) % half))
				return at + offset;
	}
	return 2 * half;
}

static void capture(CUfunction increase)
{
	void *parameters[] = {&memory};
	CUgraph captured;

	DO(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	DO(cuLaunchKernel(increase, (unsigned int)(half / STRIDE / THREADS), 1, 1, THREADS, 1, 1, 0, stream, parameters,
			  NULL));
	DO(cuMemcpyDtoDAsync(memory + half, memory, half, stream));
	DO(cuStreamEndCapture(stream, &captured));
	DO(cuGraphInstantiate(&graph, captured, 0));
	DO(cuGraphDestroy(captured));
}

static void start(size_t mib)
{
	CUcontext context;
	CUmodule module;
	CUfunction increase;

	half = mib / 2 * MIB;
	DO(cuInit(0));
	DO(cuDevicePrimaryCtxRetain(&context, 0));
	DO(cuCtxSetCurrent(context));
	DO(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	DO(cuModuleLoadData(&module, source));
	DO(cuModuleGetFunction(&increase, module, "increase"));
	DO(cuMemAlloc(&memory, 2 * half));
	fill();
	capture(increase);
}

static void launch(void)
{
	DO(cuGraphLaunch(graph, stream));
	if (++launches % QUEUED == 0)
		DO(cuStreamSynchronize(stream));
}

static void answer(const char *request)
{
	size_t wrong;

	launch();
	DO(cuStreamSynchronize(stream));
	if (strcmp(request, "launched\n") == 0)
		printf("launched\n");
	else if (strcmp(request, "check\n") == 0 && (wrong = find_wrong()) < 2 * half)
		printf("wrong word at %zu after %u launches\n", wrong, launches);
	else if (strcmp(request, "check\n") == 0)
		printf("right %u\n", launches);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	size_t mib = argc == 2 ? strtoull(argv[1], NULL, 10) : 0;
	char line[64];

	if (mib < 2 || mib % 2)
		return 2;
	start(mib);
	printf("ready\n");
	fflush(stdout);
	// One request at a time arrives, so nothing is left in the buffer of stdin when poll() is called.
	for (;;) {
		if (poll(&input, 1, 0) <= 0)
			launch();
		else if (fgets(line, sizeof line, stdin))
			answer(line);
		else
			return 0;
	}
}
