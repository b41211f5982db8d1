#include "vram_access.h"
#include "vram_rate.h"

#include "core/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAIRS = 400, LONG_PAIRS = 31, WARM = 3 };

struct access_case {
	const char *name;
	size_t bytes;
	unsigned calls; // in a turn
	bool pinned;	// the program's memory is page-locked
};
// Small copies: the library may add 100 ns to a call.
static const struct access_case small[] = {{"64", 64, 50, false}, {"4K", 4096, 50, false}, {"64K", 65536, 20, false}};
// Large copies, from 64 MiB: the library may add 2 %.
static const struct access_case large_on_gpu[] = {
	{"64M", 64 * MIB, 1, false}, {"64M_pinned", 64 * MIB, 1, true}, {"1G_pinned", 1024 * MIB, 1, true}};
static const struct access_case large_on_simulator[] = {{"64M", 64 * MIB, 1, false}};

static bool simulated;
static struct {
	struct vg_vram_handle handle;
	vg_address address; // device memory for the driver's own calls
	char *host;
	size_t bytes;
} subject;

static void check_driver(CUresult result)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "bench_vram: the driver's own copy returned %d\n", result);
	exit(1);
}

static void write_by_handle(void)
{
	check(vg_vram_write_at(subject.handle, 0, subject.host, subject.bytes));
}

static void write_raw(void)
{
	check_driver(core_driver->cuMemcpyHtoD_v2(subject.address, subject.host, subject.bytes));
}

static void read_by_handle(void)
{
	check(vg_vram_read_at(subject.handle, 0, subject.host, subject.bytes));
}

static void read_raw(void)
{
	check_driver(core_driver->cuMemcpyDtoH_v2(subject.host, subject.address, subject.bytes));
}

// Returns the ns that one call takes.
static double time_turn(const struct access_case *one, void (*call)(void))
{
	struct timespec begin, end;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (unsigned i = 0; i < one->calls; i++)
		call();
	clock_gettime(CLOCK_MONOTONIC, &end);
	check_driver(core_driver->cuCtxSynchronize()); // wait, so that no pending write slows the next turn
	return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / one->calls;
}

// Reports the median difference over pairs of turns: in ns, or in percent if `large`. Each side goes first equally
// often. On the simulator, large copies are the host's own copies: their figure has no limit.
static void measure(struct bench_report *report, const char *what, const struct access_case *one, bool large,
		    void (*library)(void), void (*direct)(void))
{
	static double figures[PAIRS], beside[PAIRS];
	struct bench_figure figure = {.limit = large ? 2 : 100, .rule = BENCH_AT_MOST}, alone;
	if (large && simulated)
		figure.rule = BENCH_NO_LIMIT;
	const int pairs = large ? LONG_PAIRS : PAIRS;

	for (int pair = -WARM; pair < pairs; pair++) {
		double ours = 0, theirs = 0;
		for (int i = 0; i < 2; i++)
			if ((pair + i) & 1)
				ours = time_turn(one, library);
			else
				theirs = time_turn(one, direct);
		if (pair < 0)
			continue;
		figures[pair] = large ? 100 * (ours / theirs - 1) : ours - theirs;
		beside[pair] = theirs;
	}
	bench_figure_set(&figure, figures, pairs);
	bench_figure_set(&alone, beside, pairs);
	figure.baseline = alone.value;
	snprintf(figure.unit, sizeof figure.unit, "%s", large ? "% added" : "ns added");
	snprintf(figure.what, sizeof figure.what, "%s_%s", what, one->name);
	bench_report_add(report, &figure);
}

static void measure_case(struct bench_report *report, struct vg_vram *vram, struct vg_context *context,
			 const struct access_case *one, bool large)
{
	struct vg_memory_resource *memory, *pinned;
	struct vg_buffer *other, *host = NULL;
	char *pageable = NULL;

	check(vg_synchronous_resource_create(context, &memory));
	check(vg_legacy_pinned_resource_create(context, &pinned));
	check(vg_buffer_create(memory, one->bytes, NULL, &other));
	check(vg_vram_allocate(vram, one->bytes, NULL, &subject.handle));
	if (one->pinned)
		check(vg_buffer_create(pinned, one->bytes, NULL, &host));
	else
		pageable = malloc(one->bytes);
	subject.host = one->pinned ? (char *)(uintptr_t)vg_buffer_address(host) : pageable;
	if (!subject.host)
		check(VG_NO_MEMORY);
	memset(subject.host, 0x5a, one->bytes);
	subject.address = vg_buffer_address(other);
	subject.bytes = one->bytes;
	measure(report, "write", one, large, write_by_handle, write_raw);
	measure(report, "read", one, large, read_by_handle, read_raw);
	check(vg_vram_free(subject.handle));
	free(pageable);
	vg_buffer_destroy(host);
	vg_buffer_destroy(other);
	vg_memory_resource_destroy(pinned);
	vg_memory_resource_destroy(memory);
}

void bench_access(struct bench_report *report, struct vg_device *device, bool on_simulator)
{
	simulated = on_simulator;
	const struct access_case *large = simulated ? large_on_simulator : large_on_gpu;
	size_t count = simulated ? sizeof large_on_simulator / sizeof *large : sizeof large_on_gpu / sizeof *large;
	struct vg_vram_options options = {.size = sizeof options, .device = device};
	struct vg_context *context;
	struct CUctx_st *before;
	struct vg_vram *vram;

	check(vg_context_primary(device, &context));
	check(vg_context_set_current(context, &before)); // the driver's own calls need a current context
	check(vg_vram_open(&options, &vram));
	for (size_t i = 0; i < sizeof small / sizeof *small; i++)
		measure_case(report, vram, context, &small[i], false);
	for (size_t i = 0; i < count; i++)
		measure_case(report, vram, context, &large[i], true);
	vg_vram_destroy(vram);
	check(vg_context_restore(before));
	vg_context_destroy(context);
}
