// Helpers of the tests of how processes share the device's time: kernels of known length, and a page of memory that a
// test shares with its child processes. Include in exactly one file per program.
//
// A kernel named burnN takes N microseconds. On a GPU, it runs a loop as often as that takes. On the simulated device,
// VIRGATE_SIM_COST sets its time. Where possible, times are measured by the device, between two events of one stream.
#pragma once

#include "conformance.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

#define BURN(name)                                                                    \
	".visible .entry " name "(.param .u32 rounds) {\n"                            \
	"	.reg .b32 %r<4>;\n	.reg .pred %p;\n"                                        \
	"	ld.param.u32 %r1, [rounds];\n	mov.u32 %r2, 0;\n	mov.u32 %r3, 12345;\n"      \
	"again:\n	mad.lo.u32 %r3, %r3, 1664525, 1013904223;\n	add.u32 %r2, %r2, 1;\n" \
	"	setp.lt.u32 %p, %r2, %r1;\n	@%p bra again;\n"                               \
	"	setp.eq.u32 %p, %r3, 0;\n	@%p trap;\n	ret;\n}\n"

// meet(mine, other, value): tells the other process that this kernel runs, and spins until the other process's kernel
// runs.
static const char ptx_burn[] = PTX_HEAD BURN("burn50") BURN("burn200") BURN("burn1000") BURN("burn3000") BURN(
	"burn50000") ".visible .entry meet(.param .u64 mine, .param .u64 other, .param .u32 value) {\n"
		     "	.reg .b64 %a, %b;\n	.reg .b32 %v, %w;\n	.reg .pred %p;\n"
		     "	ld.param.u64 %a, [mine];\n	ld.param.u64 %b, [other];\n	ld.param.u32 %v, [value];\n"
		     "	st.volatile.global.u32 [%a], %v;\n"
		     "again:\n	ld.volatile.global.u32 %w, [%b];\n	setp.lt.u32 %p, %w, %v;\n"
		     "	@%p bra again;\n	ret;\n}\n";

// The memory that a test shares with its child processes. The device can access it, too.
struct page {
	_Atomic unsigned words[2]; // words that kernels write and wait for
	// a blocked stream of the test waits until gates[0] reaches a value, a blocked stream of its child for gates[1]
	_Atomic unsigned gates[2];
	_Atomic unsigned opens; // a stream or the child waits until this is 1
	_Atomic unsigned loaded, stop;
	_Atomic unsigned queued;
};
static struct page *page;
static CUdeviceptr page_address;
static int page_descriptor = -1;
static CUstream stream;
static CUmodule burns;
// `self`: the index of this process in `gates`; `gate`: the value for which its stream waits
static unsigned self, gate;

static void map_page(void)
{
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, page_descriptor, 0);
	if (page == MAP_FAILED)
		FAIL("mmap: %m");
	NEED(cuMemHostRegister(page, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
	NEED(cuMemHostGetDevicePointer(&page_address, page, 0));
}

static void need_stream(void)
{
	need_context();
	if (stream)
		return;
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	burns = need_module(ptx_burn);
}

// Skips the test if the simulated device does not share its time. Creates the stream and the page. Called before every
// test.
static void need_sharing(void)
{
	const char *simulated = getenv("VIRGATE_SIM");

	if (simulated && !strstr(simulated, "slice="))
		SKIP("the simulated device does not share its time");
	need_stream();
	if (!page) {
		page_descriptor = memfd_create("page", 0); // so that the children inherit the descriptor
		if (page_descriptor < 0 || ftruncate(page_descriptor, 4096) != 0)
			FAIL("memfd: %m");
		map_page();
	}
	memset((void *)page, 0, sizeof *page);
}

static pid_t start_tenant(const char *name)
{
	char number[16];

	sprintf(number, "%d", page_descriptor);
	return start_child(name, number);
}

// Each child calls this first, to join the page that it shares with the test.
static void join_page(const char *argument)
{
	self = 1;
	page_descriptor = atoi(argument);
	need_stream();
	map_page();
}

static void wait_until(_Atomic unsigned *word, unsigned least)
{
	for (double end = seconds() + 30; atomic_load(word) < least; usleep(200))
		if (seconds() > end)
			FAIL("nothing came within 30 s");
}

// ---- kernels of known length ----------------------------------------------------------------

struct burn {
	CUfunction function;
	unsigned rounds;
};

static void launch(const struct burn *burn)
{
	unsigned rounds = burn->rounds;
	void *arguments[] = {&rounds};

	NEED(cuLaunchKernel(burn->function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
}

// Blocks the stream until open_stream() is called. Kernels that are queued meanwhile then run without gaps, even on a
// slow host.
static void hold_stream(void)
{
	CUdeviceptr word = page_address + offsetof(struct page, gates) + 4 * self;

	NEED(cuStreamWaitValue32(stream, word, ++gate, CU_STREAM_WAIT_VALUE_GEQ));
}

static void open_stream(void)
{
	atomic_store(&page->gates[self], gate);
}

static CUevent record(void)
{
	CUevent event;

	NEED(cuEventCreate(&event, CU_EVENT_DEFAULT));
	NEED(cuEventRecord(event, stream));
	return event;
}

// Waits for both events and destroys them. Returns the time between them in microseconds, as the device measured it.
static double between(CUevent from, CUevent to)
{
	float ms = 0;

	NEED(cuEventSynchronize(to));
	NEED(cuEventElapsedTime(&ms, from, to));
	WORKS(cuEventDestroy(from));
	WORKS(cuEventDestroy(to));
	return ms * 1e3;
}

// Measures the time of some kernels. One kernel runs before them, so that the first event is recorded on a busy device,
// not while the stream is idle.
static double measure(const struct burn *burn, unsigned times)
{
	hold_stream();
	launch(burn);
	CUevent from = record();
	for (unsigned i = 0; i < times; i++)
		launch(burn);
	CUevent to = record();
	open_stream();
	return between(from, to);
}

// Finds the number of rounds for which the kernel takes the time in its name (burn200: 200 microseconds). Returns the
// kernel with this number. No other process may use the device meanwhile.
static struct burn need_burn(const char *name)
{
	struct burn burn = {need_function(burns, name), 1};
	double wanted = atof(name + 4), took = 0;

	for (int i = 0; i < 40; i++) {
		took = measure(&burn, 1);
		double more = wanted / took;
		if (more < 1.02 && more > 0.98)
			break;
		burn.rounds = (unsigned)(burn.rounds * (more > 10 ? 10 : more)) + (more > 1);
	}
	BETWEEN(took, wanted * 0.9, wanted * 1.1);
	return burn;
}
