// A CUDA program to be taken off the GPU, off the machine, and back: memory of cuMemAlloc, of a pool and of the virtual
// memory calls, a stream, an event and a graph. Every round it runs the graph, which counts in device memory, and looks
// whether the rest is as it was. Its file holds the number of the last round. SIGTERM: it ends with 0 if all was right.
#include <cuda.h>

#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = 1 << 18, BYTES = WORDS * 4 };

static volatile sig_atomic_t ended;

static void end(int signal)
{
	(void)signal;
	ended = 1;
}

static void must(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "subject: %s: %d\n", what, (int)result);
	_exit(3);
}
#define MUST(call) must(call, #call)

static CUdeviceptr memory[3]; // of the three kinds
static CUstream stream;
static CUevent event;
static CUgraphExec graph;

static void make_memory(CUdevice device)
{
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
	CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	size_t size;

	MUST(cuMemAlloc(&memory[0], BYTES));
	MUST(cuMemAllocAsync(&memory[1], BYTES, stream));
	MUST(cuMemGetAllocationGranularity(&size, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	size = (BYTES + size - 1) / size * size;
	MUST(cuMemCreate(&handle, size, &properties, 0));
	MUST(cuMemAddressReserve(&memory[2], size, 0, 0, 0));
	MUST(cuMemMap(memory[2], size, 0, handle, 0));
	MUST(cuMemSetAccess(memory[2], size, &access, 1));
	for (unsigned i = 0; i < 3; i++)
		MUST(cuMemsetD32Async(memory[i], 0x1000 + i, WORDS, stream));
	MUST(cuStreamSynchronize(stream));
}

// Copies the first word of the pool's memory behind the first of the others: three nodes' worth of work.
static void make_graph(void)
{
	CUgraph captured;

	MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	MUST(cuMemcpyDtoDAsync(memory[0] + 4, memory[1], 4, stream));
	MUST(cuMemcpyDtoDAsync(memory[2] + 4, memory[1], 4, stream));
	MUST(cuStreamEndCapture(stream, &captured));
	MUST(cuGraphInstantiate(&graph, captured, 0));
	MUST(cuGraphDestroy(captured));
}

__attribute__((format(printf, 1, 2))) static const char *say(const char *format, ...)
{
	static char text[256];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	return text;
}

// What is wrong, or NULL.
static const char *look(uint32_t round)
{
	static uint32_t words[WORDS];

	MUST(cuMemsetD32Async(memory[1], round, 1, stream));
	MUST(cuGraphLaunch(graph, stream));
	MUST(cuEventRecord(event, stream));
	MUST(cuEventSynchronize(event));
	for (unsigned i = 0; i < 3; i++) {
		MUST(cuMemcpyDtoH(words, memory[i], BYTES));
		for (unsigned w = 2; w < WORDS; w++)
			if (words[w] != 0x1000 + i)
				return say("round %u: memory %u has %#x at word %u", round, i, words[w], w);
		if (i == 1 ? words[0] != round : words[1] != round)
			return say("round %u: the graph wrote %u, %u to memory %u", round, words[0], words[1], i);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	CUdevice device;
	CUcontext context;
	const char *wrong = NULL;

	if (argc != 2)
		return 2;
	signal(SIGTERM, end);
	FILE *file = fopen(argv[1], "w");
	MUST(cuInit(0));
	MUST(cuDeviceGet(&device, 0));
	MUST(cuDevicePrimaryCtxRetain(&context, device));
	MUST(cuCtxSetCurrent(context));
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	make_memory(device);
	make_graph();
	for (uint32_t round = 1; !ended && !wrong; round++) {
		wrong = look(round);
		if (!file || pwrite(fileno(file), &round, sizeof round, 0) != sizeof round)
			return 4;
		usleep(10000);
	}
	if (wrong)
		fprintf(stderr, "subject: %s\n", wrong);
	return wrong ? 1 : 0;
}
