// Measures how fast device memory is hashed on the GPU, from the call to the root hash. Beside it: a copy on the
// device, and a copy to pinned host memory, which a hash on the host would need first. Also measures how much time
// handles add to the driver's copies (vram_access.c), and how fast regions are sealed and verified (vram_seal.c).
//   bench_vram [--json FILE]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <virgate/virgate.h>

#include "figures.h"
#include "vram/hash.h"
#include "vram_access.h"
#include "vram_rate.h"
#include "vram_seal.h"

#define LARGEST_PINNED (1024 * MIB) // more memory takes seconds to allocate, and copies are no faster

static const struct rate_case on_gpu[] = {
	{"64K", MIB / 16, 0}, {"1M", MIB, 0}, {"64M", 64 * MIB, 0}, {"1G", 1024 * MIB, 1000}, {"8G", 8192 * MIB, 1000},
};
// The simulated GPU must hash 1 MiB in a fifth of a second.
static const struct rate_case on_simulator[] = {{"64K", MIB / 16, 0}, {"1M", MIB, 0.005}, {"16M", 16 * MIB, 0}};

static struct vg_device *device;
static struct vg_stream *stream;
static struct vram_hasher *hasher;
static struct vg_buffer *buffer, *other, *host;
static const uint8_t key[VRAM_KEY_BYTES] = {1, 2, 3};

static void hash(void)
{
	uint8_t root[VRAM_ROOT_BYTES];

	check(vram_hash(hasher, stream, vg_buffer_address(buffer), vg_buffer_size(buffer), key, root));
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

static void fill(size_t size)
{
	size_t tile = size < 16 * MIB ? size : 16 * MIB;
	uint64_t *noise = make_noise(tile);

	for (size_t at = 0; at < size; at += tile)
		check(vg_buffer_write(buffer, at, noise, tile, stream));
	check(vg_stream_sync(stream));
	free(noise);
}

static void measure_size(struct bench_report *report, const struct rate_case *one)
{
	struct vg_memory_resource *memory, *pinned;
	struct vg_context *context = vg_stream_context(stream);

	check(vg_synchronous_resource_create(context, &memory));
	check(vg_legacy_pinned_resource_create(context, &pinned));
	check(vg_buffer_create(memory, one->bytes, NULL, &buffer));
	check(vg_buffer_create(memory, one->bytes, NULL, &other));
	fill(one->bytes);
	if (one->bytes <= LARGEST_PINNED) {
		check(vg_buffer_create(pinned, one->bytes, NULL, &host));
		bench_rate(report, "copy_to_host", one, copy_to_host, NULL, 0, 0);
		vg_buffer_destroy(host);
	}
	double beside = bench_rate(report, "copy_on_device", one, copy_on_device, NULL, 0, 0);
	bench_rate(report, "hash", one, hash, NULL, beside, one->limit);
	vg_buffer_destroy(other);
	vg_buffer_destroy(buffer);
	vg_memory_resource_destroy(pinned);
	vg_memory_resource_destroy(memory);
}

int main(int argc, char **argv)
{
	struct bench_report *report = bench_report_create();
	int simulated = getenv("VIRGATE_SIM") != NULL;
	const struct rate_case *sizes = simulated ? on_simulator : on_gpu;
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
	check(vram_hasher_create(context, &hasher));
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
