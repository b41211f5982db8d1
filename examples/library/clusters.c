// Thread block clusters: groups of blocks that run at the same time on neighbouring multiprocessors. The grid is
// given in clusters. Each block stores its rank in its cluster.
#include "nvrtc.h"

static const char source[] = "extern \"C\" __global__ void number(unsigned *numbers)\n"
			     "{\n"
			     "	unsigned rank, blocks;\n"
			     "	asm(\"mov.u32 %0, %%cluster_ctarank;\" : \"=r\"(rank));\n"
			     "	asm(\"mov.u32 %0, %%cluster_nctarank;\" : \"=r\"(blocks));\n"
			     "	if (threadIdx.x == 0)\n"
			     "		numbers[blockIdx.x] = rank * 100 + blocks;\n"
			     "}\n";
enum { CLUSTERS = 6, BLOCKS = 4 };

int main(void)
{
	unsigned numbers[CLUSTERS * BLOCKS], most, resident, wrong = 0;
	struct vg_memory_resource *pool;
	struct vg_context *context;
	struct vg_stream *stream;
	struct vg_device *device;
	struct vg_buffer *buffer;
	int major, minor;

	check(vg_device_get(0, &device));
	vg_device_compute_capability(device, &major, &minor);
	if (major < 9) {
		printf("skipped: clusters need compute capability 9.0, %s has %d.%d\n", vg_device_name(device), major,
		       minor);
		return 77;
	}
	check(vg_context_primary(device, &context));
	check(vg_stream_create(context, NULL, &stream));
	struct vg_kernel *kernel = compile_kernel(device, source, "number");

	struct vg_launch_config config = {
		.size = sizeof config, .grid = {CLUSTERS}, .block = {128}, .cluster = {BLOCKS}};
	check(vg_kernel_max_potential_cluster_size(kernel, stream, &config, &most));
	check(vg_kernel_max_active_clusters(kernel, stream, &config, &resident));
	printf("a cluster has up to %u blocks; %u clusters of %d are on the device at once\n", most, resident, BLOCKS);

	check(vg_device_pool_current(device, &pool));
	check(vg_buffer_create(pool, sizeof numbers, stream, &buffer));
	check(vg_launch(stream, &config, kernel, VG_ARGUMENTS(vg_buffer_address(buffer))));
	check(vg_buffer_read(buffer, 0, numbers, sizeof numbers, stream));
	check(vg_stream_sync(stream));
	for (unsigned i = 0; i < CLUSTERS * BLOCKS; i++)
		wrong += numbers[i] != i % BLOCKS * 100 + BLOCKS;

	vg_buffer_destroy(buffer);
	vg_memory_resource_destroy(pool);
	vg_kernel_destroy(kernel);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
	printf("clusters: %d blocks in clusters of %d, %u with a wrong number\n", CLUSTERS * BLOCKS, BLOCKS, wrong);
	return wrong != 0;
}
