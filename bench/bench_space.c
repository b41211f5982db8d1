// Measures the memory of a virtual GPU. Compares blocks from warm pools with the driver's own allocations. Also
// measures new pages. Compares the speed at which compaction copies and compares blocks and returns pages with one
// large copy.
#include "core/core.h"
#include "figures.h"
#include "vram_rate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPETITIONS = 41, TURN = 1000, PASSES = 8 };

static struct vg_context *context;
static struct vg_memory_space *space;
static struct bench_report *report;
static int simulated;

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void check_driver(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "bench_space: %s: CUresult %d\n", what, (int)result);
	exit(1);
}

static double report_values(const char *what, const char *unit, double *values, size_t count, double beside,
			    enum bench_rule rule, double limit)
{
	struct bench_figure figure = {.baseline = beside, .rule = rule, .limit = limit};

	snprintf(figure.what, sizeof figure.what, "%s", what);
	snprintf(figure.unit, sizeof figure.unit, "%s", unit);
	bench_figure_set(&figure, values, count);
	bench_report_add(report, &figure);
	return figure.value;
}

// ---- allocation -------------------------------------------------------------------------------------

static size_t wanted;

static void allocate_block(void)
{
	vg_address address;

	check(vg_memory_space_allocate(space, wanted, 0, &address));
	check(vg_memory_space_free(space, address));
}

static void allocate_plainly(void)
{
	CUdeviceptr address;

	check_driver(core_driver->cuMemAlloc_v2(&address, wanted), "cuMemAlloc");
	check_driver(core_driver->cuMemFree_v2(address), "cuMemFree");
}

static void allocate_async(void)
{
	CUdeviceptr address;

	check_driver(core_driver->cuMemAllocAsync(&address, wanted, CU_STREAM_PER_THREAD), "cuMemAllocAsync");
	check_driver(core_driver->cuMemFreeAsync(address, CU_STREAM_PER_THREAD), "cuMemFreeAsync");
}

static double measure_pair(const char *what, void (*pair)(void), int turn, double beside, enum bench_rule rule,
			   double limit)
{
	double values[REPETITIONS];

	for (int i = -3; i < REPETITIONS; i++) {
		double start = now_ns();
		for (int j = 0; j < turn; j++)
			pair();
		if (i >= 0)
			values[i] = (now_ns() - start) / turn;
	}
	return report_values(what, "ns", values, REPETITIONS, beside, rule, limit);
}

static void measure_allocation(void)
{
	wanted = MIB;
	double plain = measure_pair("cuMemAlloc+cuMemFree_1M", allocate_plainly, 20, 0, BENCH_NO_LIMIT, 0);
	measure_pair("cuMemAllocAsync+cuMemFreeAsync_1M", allocate_async, 100, 0, BENCH_NO_LIMIT, 0);
	measure_pair("allocate+free_1M_warm", allocate_block, TURN, plain, BENCH_AT_MOST, 300);
	wanted = 4096;
	measure_pair("allocate+free_4K_warm", allocate_block, TURN, 0, BENCH_NO_LIMIT, 0);
	wanted = 64 * MIB;
	measure_pair("allocate+free_64M_warm", allocate_block, TURN, 0, BENCH_NO_LIMIT, 0);
}

// Measures allocations without warm pools: each one creates, maps and zeroes pages, and returns them to the driver.
static void measure_cold(const char *what, size_t bytes)
{
	double make[REPETITIONS], give[REPETITIONS];
	struct vg_defragment_result returned;
	vg_address address;
	char name[64];

	for (int i = -3; i < REPETITIONS; i++) {
		double start = now_ns();
		check(vg_memory_space_allocate(space, bytes, 0, &address));
		double made = now_ns();
		check(vg_memory_space_free(space, address));
		double freed = now_ns();
		check(vg_memory_space_defragment(space, &returned));
		if (i < 0)
			continue;
		make[i] = (made - start) * 1e-3;
		give[i] = (now_ns() - freed) * 1e-3;
	}
	snprintf(name, sizeof name, "allocate_%s_cold", what);
	report_values(name, "us", make, REPETITIONS, 0, BENCH_NO_LIMIT, 0);
	snprintf(name, sizeof name, "give_back_%s", what);
	report_values(name, "us", give, REPETITIONS, 0, BENCH_NO_LIMIT, 0);
}

// ---- compaction -------------------------------------------------------------------------------------

// Measures one large copy. Returns the GB read and written a second.
static double measure_copy(size_t bytes)
{
	double values[REPETITIONS];
	CUdeviceptr from, to;
	CUevent events[2];
	float ms;

	check_driver(core_driver->cuMemAlloc_v2(&from, bytes), "cuMemAlloc");
	check_driver(core_driver->cuMemAlloc_v2(&to, bytes), "cuMemAlloc");
	for (int i = 0; i < 2; i++)
		check_driver(core_driver->cuEventCreate(&events[i], CU_EVENT_DEFAULT), "cuEventCreate");
	for (int i = -3; i < REPETITIONS; i++) {
		check_driver(core_driver->cuEventRecord(events[0], CU_STREAM_PER_THREAD), "cuEventRecord");
		check_driver(core_driver->cuMemcpyDtoDAsync_v2(to, from, bytes, CU_STREAM_PER_THREAD), "cuMemcpyDtoD");
		check_driver(core_driver->cuEventRecord(events[1], CU_STREAM_PER_THREAD), "cuEventRecord");
		check_driver(core_driver->cuEventSynchronize(events[1]), "cuEventSynchronize");
		check_driver(core_driver->cuEventElapsedTime_v2(&ms, events[0], events[1]), "cuEventElapsedTime");
		if (i >= 0)
			values[i] = 2 * (double)bytes / (double)ms * 1e-6;
	}
	for (int i = 0; i < 2; i++)
		check_driver(core_driver->cuEventDestroy_v2(events[i]), "cuEventDestroy");
	check_driver(core_driver->cuMemFree_v2(to), "cuMemFree");
	check_driver(core_driver->cuMemFree_v2(from), "cuMemFree");
	return report_values("cuMemcpyDtoD", "GB/s", values, REPETITIONS, 0, BENCH_NO_LIMIT, 0);
}

// Creates blocks with contents and destroys every second one, so that each page is half full.
static struct vg_movable_block **make_blocks(size_t count, size_t size)
{
	struct vg_movable_block **blocks = calloc(count, sizeof(struct vg_movable_block *));
	uint64_t *noise = make_noise(size);
	vg_address first = 0, address;

	for (size_t i = 0; i < count; i++) {
		check(vg_movable_block_create(space, size, &blocks[i]));
		check(vg_movable_block_pin(blocks[i], &address));
		if (first)
			check(vg_memory_space_copy(space, address, first, size));
		else
			check(vg_memory_space_write(space, address, noise, size));
		if (first)
			check(vg_movable_block_unpin(blocks[i]));
		else
			first = address;
	}
	check(vg_movable_block_unpin(blocks[0]));
	for (size_t i = 1; i < count; i += 2) {
		vg_movable_block_destroy(blocks[i]);
		blocks[i] = NULL;
	}
	free(noise);
	return blocks;
}

static void measure_compaction(const char *what, size_t total, size_t size, double beside)
{
	struct vg_compact_options options = {.size = sizeof options, .max_bytes = total / 4 / PASSES};
	const size_t count = total / size;
	double copy[PASSES], verify[PASSES], remap[PASSES], wall[PASSES];
	struct vg_movable_block **blocks = make_blocks(count, size);
	struct vg_compact_result result;
	char name[64];
	size_t passes = 0;

	check(vg_memory_space_defragment(space, NULL));
	for (; passes < PASSES; passes++) {
		double start = now_ns();
		check(vg_memory_space_compact(space, &options, &result));
		wall[passes] = (now_ns() - start) * 1e-6;
		if (!result.bytes_moved || !result.bytes_returned)
			break;
		copy[passes] = 2 * (double)result.bytes_moved / result.copy_ms * 1e-6;
		verify[passes] = 2 * (double)result.bytes_moved / result.verify_ms * 1e-6;
		remap[passes] = result.remap_ms * 1e3 / ((double)result.bytes_returned / (2 << 20));
	}
	if (passes == 0) {
		fprintf(stderr, "bench_space: nothing was moved\n");
		exit(1);
	}
	snprintf(name, sizeof name, "compact_copy_%s", what);
	report_values(name, "GB/s", copy, passes, beside, simulated ? BENCH_NO_LIMIT : BENCH_AT_LEAST, 2500);
	snprintf(name, sizeof name, "compact_verify_%s", what);
	report_values(name, "GB/s", verify, passes, 0, BENCH_NO_LIMIT, 0);
	snprintf(name, sizeof name, "compact_remap_%s", what);
	report_values(name, "us/page", remap, passes, 0, BENCH_NO_LIMIT, 0);
	snprintf(name, sizeof name, "compact_call_%s", what);
	report_values(name, "ms", wall, passes, 0, BENCH_NO_LIMIT, 0);
	for (size_t i = 0; i < count; i++)
		vg_movable_block_destroy(blocks[i]);
	free(blocks);
}

int main(int argc, char **argv)
{
	struct vg_memory_space_options options = {.size = sizeof options, .manual_defragmentation = 1};
	struct vg_device *device;
	struct CUctx_st *before;

	if (argc != 1 && !(argc == 3 && strcmp(argv[1], "--json") == 0)) {
		fprintf(stderr, "usage: bench_space [--json FILE]\n");
		return 2;
	}
	simulated = getenv("VIRGATE_SIM") != NULL;
	const size_t total = simulated ? 64 * MIB : 8192 * MIB;
	report = bench_report_create();
	if (!report)
		return 1;
	check(vg_device_get(0, &device));
	check(vg_context_primary(device, &context));
	check(vg_context_set_current(context, &before));
	options.limit = total + total / 8;
	check(vg_memory_space_create(context, &options, &space));
	printf("on %s; \"beside\" is the driver's own call\n", vg_device_name(device));
	measure_allocation();
	check(vg_memory_space_defragment(space, NULL));
	measure_cold("2M", 2 * MIB);
	measure_cold("64M", 64 * MIB);
	double beside = measure_copy(total / 4 / PASSES);
	printf("compaction, passes of %zu MiB; bytes read and written a second, by the device's clock\n",
	       total / 4 / PASSES / MIB);
	measure_compaction("1M", total, MIB, beside);
	measure_compaction("64K", total, MIB / 16, beside);
	vg_memory_space_destroy(space);
	vg_context_destroy(context);
	return bench_report_finish(report, argc == 3 ? argv[2] : NULL);
}
