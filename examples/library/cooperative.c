// A cooperative launch: all blocks of the grid are on the device at once, so that they can wait for each other. Each
// thread adds 1 to a sum; behind a barrier of all blocks, each block reads the sum of all threads.
#include "nvrtc.h"

static const char source[] = "// Waits until all blocks of the grid have come here.\n"
			     "static __device__ void meet(unsigned *arrived)\n"
			     "{\n"
			     "	__syncthreads();\n"
			     "	if (threadIdx.x == 0) {\n"
			     "		__threadfence();\n"
			     "		atomicAdd(arrived, 1);\n"
			     "		while (*(volatile unsigned *)arrived < gridDim.x)\n"
			     "			;\n"
			     "		__threadfence();\n"
			     "	}\n"
			     "	__syncthreads();\n"
			     "}\n"
			     "\n"
			     "extern \"C\" __global__\n"
			     "void add_up(unsigned *arrived, unsigned *sum, unsigned *agreeing)\n"
			     "{\n"
			     "	atomicAdd(sum, 1);\n"
			     "	meet(arrived);\n"
			     "	if (threadIdx.x == 0 && *(volatile unsigned *)sum == gridDim.x * blockDim.x)\n"
			     "		atomicAdd(agreeing, 1);\n"
			     "}\n";
enum { THREADS = 128 };

int main(void)
{
	struct vg_memory_resource *pool;
	struct vg_context *context;
	struct vg_stream *stream;
	struct vg_device *device;
	struct vg_buffer *words;
	unsigned per_multiprocessor, got[3];
	int multiprocessors, able;

	check(vg_device_get(0, &device));
	check(vg_device_property(device, VG_DEVICE_COOPERATIVE_LAUNCH, &able));
	if (!able) {
		printf("skipped: %s has no cooperative launches\n", vg_device_name(device));
		return 77;
	}
	check(vg_context_primary(device, &context));
	check(vg_stream_create(context, NULL, &stream));
	struct vg_kernel *kernel = compile_kernel(device, source, "add_up");

	// The maximum number of blocks that are on the device at once.
	check(vg_device_property(device, VG_DEVICE_MULTIPROCESSOR_COUNT, &multiprocessors));
	check(vg_kernel_max_active_blocks(kernel, context, THREADS, 0, &per_multiprocessor));
	unsigned blocks = per_multiprocessor * (unsigned)multiprocessors;
	struct vg_launch_config config = {
		.size = sizeof config, .grid = {blocks + 1}, .block = {THREADS}, .cooperative = 1};

	check(vg_device_pool_current(device, &pool));
	check(vg_buffer_create(pool, sizeof got, stream, &words));
	check(vg_buffer_fill_byte(words, 0, stream));
	vg_address at = vg_buffer_address(words);
	if (vg_launch(stream, &config, kernel, VG_ARGUMENTS(at, at + 4, at + 8)) != VG_LIMIT)
		return 1;
	printf("refused: %s\n", vg_last_error()->text);
	config.grid[0] = blocks;
	check(vg_launch(stream, &config, kernel, VG_ARGUMENTS(at, at + 4, at + 8)));
	check(vg_buffer_read(words, 0, got, sizeof got, stream));
	check(vg_stream_sync(stream));

	vg_buffer_destroy(words);
	vg_memory_resource_destroy(pool);
	vg_kernel_destroy(kernel);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
	printf("cooperative: %u of %u blocks saw the sum of all, %u\n", got[2], blocks, got[1]);
	return got[2] != blocks;
}
