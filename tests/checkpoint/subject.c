// A CUDA program that the tests dump and restore. It has memory of cuMemAlloc, of a pool and of the virtual memory
// calls, a stream, an event and a graph. In each round it runs the graph, which counts in device memory, and checks
// that all other memory is unchanged. It writes the number of the last round into FILE. On SIGTERM it exits with 0 if
// all memory was right. Usage: subject FILE [WHAT...], with names of subject_kinds.c for further resources and actions.
// On SIGUSR1 it forks a child, on SIGUSR2 it becomes a program without CUDA by exec.
#include "subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

volatile sig_atomic_t ended;
const char *file_name;
CUdevice device;
static CUcontext context;

static void end(int signal)
{
	(void)signal;
	ended = 1;
}

static void fork_late(int signal)
{
	(void)signal;
	if (_Fork() == 0)
		for (;;)
			pause();
}

static void leave_cuda(int signal)
{
	(void)signal;
	execl("/bin/sleep", "sleep", "600", (char *)NULL);
}

void must(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	// While the program exits, calls of its other threads may fail. These threads only wait for the end.
	while (ended && gettid() != getpid())
		pause();
	fprintf(stderr, "subject: %s: %d\n", what, (int)result);
	_exit(3);
}

static void make_memory(struct work *work)
{
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
	CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	size_t size;

	MUST(cuMemAlloc(&work->memory[0], BYTES));
	MUST(cuMemAllocAsync(&work->memory[1], BYTES, work->stream));
	MUST(cuMemGetAllocationGranularity(&size, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	size = (BYTES + size - 1) / size * size;
	MUST(cuMemCreate(&handle, size, &properties, 0));
	MUST(cuMemAddressReserve(&work->memory[2], size, 0, 0, 0));
	MUST(cuMemMap(work->memory[2], size, 0, handle, 0));
	MUST(cuMemSetAccess(work->memory[2], size, &access, 1));
	for (unsigned i = 0; i < 3; i++)
		MUST(cuMemsetD32Async(work->memory[i], work->seed + i, WORDS, work->stream));
	MUST(cuStreamSynchronize(work->stream));
}

// Captures a graph that copies the first word of the pool's memory to the second word of the other two memories.
static void make_graph(struct work *work)
{
	CUgraph captured;

	MUST(cuStreamBeginCapture(work->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	MUST(cuMemcpyDtoDAsync(work->memory[0] + 4, work->memory[1], 4, work->stream));
	MUST(cuMemcpyDtoDAsync(work->memory[2] + 4, work->memory[1], 4, work->stream));
	MUST(cuStreamEndCapture(work->stream, &captured));
	MUST(cuGraphInstantiate(&work->graph, captured, 0));
	MUST(cuGraphDestroy(captured));
}

void make(struct work *work)
{
	work->words = malloc(BYTES);
	MUST(cuCtxSetCurrent(context));
	MUST(cuStreamCreate(&work->stream, CU_STREAM_NON_BLOCKING));
	MUST(cuEventCreate(&work->event, CU_EVENT_DISABLE_TIMING));
	make_memory(work);
	make_graph(work);
}

int look(struct work *work, uint32_t round)
{
	uint32_t *words = work->words;

	MUST(cuMemsetD32Async(work->memory[1], round, 1, work->stream));
	MUST(cuGraphLaunch(work->graph, work->stream));
	MUST(cuEventRecord(work->event, work->stream));
	MUST(cuEventSynchronize(work->event));
	for (unsigned i = 0; i < 3; i++) {
		MUST(cuMemcpyDtoH(words, work->memory[i], BYTES));
		for (unsigned w = 2; w < WORDS; w++)
			if (words[w] != work->seed + i) {
				snprintf(work->wrong, sizeof work->wrong, "round %u: memory %u has %#x at word %u",
					 round, i, words[w], w);
				return 0;
			}
		if (i == 1 ? words[0] != round : words[1] != round) {
			snprintf(work->wrong, sizeof work->wrong, "round %u: the graph wrote %u, %u to memory %u",
				 round, words[0], words[1], i);
			return 0;
		}
	}
	return 1;
}

void run(const char *file_to_write, int count, char **names)
{
	struct work work = {.seed = 0x1000};

	file_name = file_to_write;
	make_kinds(1, count, names);
	FILE *file = fopen(file_name, "w");
	MUST(cuInit(0));
	MUST(cuDeviceGet(&device, 0));
	MUST(cuDevicePrimaryCtxRetain(&context, device));
	make(&work);
	make_kinds(0, count, names);
	for (uint32_t round = 1; !ended && look(&work, round); round++) {
		if (!file || pwrite(fileno(file), &round, sizeof round, 0) != sizeof round)
			exit(4);
		usleep(10000);
	}
	if (*work.wrong)
		fprintf(stderr, "subject: %s\n", work.wrong);
	exit(*work.wrong ? 1 : 0);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	signal(SIGTERM, end);
	signal(SIGUSR1, fork_late);
	signal(SIGUSR2, leave_cuda);
	run(argv[1], argc - 2, argv + 2);
}
