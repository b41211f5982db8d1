// How fast device memory is hashed on the GPU, from call to root, beside what it could be compared with: copying it on
// the device, and bringing it to pinned host memory, which a hash on the host would have to do first. And what handles
// add to the driver's copies (vram_access.c), and how fast regions are sealed and verified (vram_seal.c).
//   bench_vram [--json FILE]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <virgate/virgate.h>

#include "figures.h"
#include "vram/hash.h"
#include "vram_access.h"
#include "vram_seal.h"

#define MIB ((size_t)1 << 20)
#define LARGEST_PINNED (1024 * MIB) // more takes seconds to allocate, and is no faster
enum { REPETITIONS = 41, WARM = 3 };

struct size_case {
	const char *name;
	size_t size;
	double limit; // GB/s at least; 0: only reported
};
static const struct size_case on_gpu[] = {
	{"64K", MIB / 16, 0}, {"1M", MIB, 0}, {"64M", 64 * MIB, 0}, {"1G", 1024 * MIB, 1000}, {"8G", 8192 * MIB, 1000},
};
// The simulated one shall hash 1 MiB in a fifth of a second.
static const struct size_case on_simulator[] = {{"64K", MIB / 16, 0}, {"1M", MIB, 0.005}, {"16M", 16 * MIB, 0}};

static struct vg_device *device;
static struct vg_stream *stream;
static struct vram_hasher *hasher;
static struct vg_buffer *buffer, *other, *host;
static const uint8_t key[VRAM_KEY_BYTES] = {1, 2, 3};

void check(enum vg_status status)
{
	if (status == VG_OK)
		return;
	fprintf(stderr, "bench_vram: %s: %s\n", vg_last_error()->function, vg_last_error()->text);
	exit(1);
}

static void hash(void)
{
	uint8_t root[VRAM_ROOT_BYTES];

	check(vram_hash(hasher, stream, vg_buffer_address(buffer), vg_buffer_size(buffer), key, __func__, root));
}

static void copy_on_device(void)
{
	check(vg_buffer_copy(other, buffer, stream));
	check(vg_stream_sync(stream));
}

static void copy_to_host(void)
{
	check(vg_buffer_copy(host, buffer, stream));
	check(vg_stream_sync(stream));
}

// GB/s of the whole call; the median.
static double measure(struct bench_report *report, const char *what, const struct size_case *one, void (*call)(void),
		      double beside, double limit)
{
	struct bench_figure figure = {.unit = "GB/s",
				      .baseline = beside,
				      .limit = limit,
				      .rule = limit > 0 ? BENCH_AT_LEAST : BENCH_NO_LIMIT};
	struct timespec begin, end;
	double rates[REPETITIONS];

	for (int i = -WARM; i < REPETITIONS; i++) {
		clock_gettime(CLOCK_MONOTONIC, &begin);
		call();
		clock_gettime(CLOCK_MONOTONIC, &end);
		if (i >= 0)
			rates[i] = (double)one->size /
				   ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec));
	}
	bench_figure_set(&figure, rates, REPETITIONS);
	snprintf(figure.what, sizeof figure.what, "%s_%s", what, one->name);
	bench_report_add(report, &figure);
	return figure.value;
}

uint64_t *make_noise(size_t size)
{
	uint64_t *noise = malloc(size), word = 0x9e3779b97f4a7c15;

	if (!noise) {
		fprintf(stderr, "bench_vram: no memory for %zu bytes\n", size);
		exit(1);
	}
	for (size_t i = 0; i < size / sizeof *noise; i++) {
		word ^= word << 13;
		word ^= word >> 7;
		word ^= word << 17;
		noise[i] = word;
	}
	return noise;
}

static void fill(size_t size)
{
	size_t tile = size < 16 * MIB ? size : 16 * MIB;
	uint64_t *noise = make_noise(tile);

	for (size_t at = 0; at < size; at += tile)
		check(vg_buffer_write(buffer, at, noise, tile, stream));
	check(vg_stream_sync(stream));
	free(noise);
}

static void measure_size(struct bench_report *report, const struct size_case *one)
{
	struct vg_memory_resource *memory, *pinned;
	struct vg_context *context = vg_stream_context(stream);

	check(vg_synchronous_resource_create(context, &memory));
	check(vg_legacy_pinned_resource_create(context, &pinned));
	check(vg_buffer_create(memory, one->size, NULL, &buffer));
	check(vg_buffer_create(memory, one->size, NULL, &other));
	fill(one->size);
	if (one->size <= LARGEST_PINNED) {
		check(vg_buffer_create(pinned, one->size, NULL, &host));
		measure(report, "copy_to_host", one, copy_to_host, 0, 0);
		vg_buffer_destroy(host);
	}
	double beside = measure(report, "copy_on_device", one, copy_on_device, 0, 0);
	measure(report, "hash", one, hash, beside, one->limit);
	vg_buffer_destroy(other);
	vg_buffer_destroy(buffer);
	vg_memory_resource_destroy(pinned);
	vg_memory_resource_destroy(memory);
}

int main(int argc, char **argv)
{
	struct bench_report *report = bench_report_create();
	int simulated = getenv("VIRGATE_SIM") != NULL;
	const struct size_case *sizes = simulated ? on_simulator : on_gpu;
	size_t count = simulated ? sizeof on_simulator / sizeof *sizes : sizeof on_gpu / sizeof *sizes;
	struct vg_context *context;

	if (argc != 1 && !(argc == 3 && strcmp(argv[1], "--json") == 0)) {
		fprintf(stderr, "usage: bench_vram [--json FILE]\n");
		return 2;
	}
	if (!report)
		return 1;
	check(vg_device_get(0, &device));
	check(vg_context_primary(device, &context));
	check(vg_stream_create(context, NULL, &stream));
	check(vram_hasher_create(context, "bench_vram", &hasher));
	printf("on %s; bytes hashed or copied a second, with the call and its wait; \"beside\" is the copy on the "
	       "device\n",
	       vg_device_name(device));
	for (size_t i = 0; i < count; i++)
		measure_size(report, &sizes[i]);
	printf("what a handle adds to the driver's own copy; \"beside\" is that, in ns\n");
	bench_access(report, device, simulated);
	printf("regions sealed and verified, with keys and MACs; \"beside\" is reading the contents back\n");
	bench_seal(report, device, simulated);
	vram_hasher_destroy(hasher);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
	return bench_report_finish(report, argc == 3 ? argv[2] : NULL);
}
