#include "vram_seal.h"

#include "vram_rate.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const struct rate_case on_gpu[] = {
	{"1M", MIB, 0}, {"64M", 64 * MIB, 0}, {"1G", 1024 * MIB, 1000}, {"8G", 8192 * MIB, 1000}};
static const struct rate_case on_simulator[] = {{"64K", MIB / 16, 0}, {"1M", MIB, 0}};

static const struct vg_seal_options options = {.size = sizeof options, .id = "bench"};
static struct vg_vram_handle handle;
static struct vg_seal seal;
static size_t bytes;
static char *host;

static void fill_with_noise(void)
{
	size_t tile = bytes < MIB ? bytes : MIB;
	uint64_t *noise = make_noise(tile);

	check(vg_vram_write_at(handle, 0, noise, tile));
	free(noise);
	for (size_t at = tile; at < bytes; at *= 2)
		check(vg_vram_copy(handle, at, handle, 0, at < bytes - at ? at : bytes - at));
}

static void seal_region(void)
{
	check(vg_vram_seal(handle, &options, &seal));
}

static void unseal_region(void)
{
	check(vg_vram_unseal(handle));
}

static void verify_region(void)
{
	check(vg_vram_verify(handle, &seal));
}

// Copies the contents to the host. A hash on the host would need this copy first.
static void read_region(void)
{
	check(vg_vram_read_at(handle, 0, host, bytes));
}

static void measure_size(struct bench_report *report, struct vg_vram *vram, const struct rate_case *one)
{
	double beside = 0;

	bytes = one->bytes;
	check(vg_vram_allocate(vram, bytes, NULL, &handle));
	fill_with_noise();
	if (bytes <= 1024 * MIB && (host = malloc(bytes))) {
		beside = bench_rate(report, "read_back", one, read_region, NULL, 0, 0);
		free(host);
	}
	bench_rate(report, "seal", one, seal_region, unseal_region, beside, one->limit);
	seal_region();
	bench_rate(report, "verify", one, verify_region, NULL, beside, one->limit);
	check(vg_vram_free(handle));
}

void bench_seal(struct bench_report *report, struct vg_device *device, bool simulated)
{
	const struct rate_case *sizes = simulated ? on_simulator : on_gpu;
	size_t count = simulated ? sizeof on_simulator / sizeof *sizes : sizeof on_gpu / sizeof *sizes;
	char directory[] = "/tmp/virgate-bench.XXXXXX", key[64];
	struct vg_vram *vram;

	if (!mkdtemp(directory)) {
		perror("bench_vram: a directory in /tmp");
		exit(1);
	}
	snprintf(key, sizeof key, "%s/key", directory);
	check(vg_seal_key_create(key));
	check(vg_vram_open(
		&(struct vg_vram_options){.size = sizeof(struct vg_vram_options), .device = device, .key_file = key},
		&vram));
	unlink(key);
	rmdir(directory);
	for (size_t i = 0; i < count; i++)
		measure_size(report, vram, &sizes[i]);
	check(vg_vram_close(vram, NULL));
	vg_vram_destroy(vram);
}
