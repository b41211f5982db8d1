// Occupancy: how many blocks of a kernel fit on one multiprocessor, by threads and by shared memory, and which block
// size the driver recommends.
#include "nvrtc.h"

static const char source[] = "extern \"C\" __global__ void reverse(int *values, unsigned count)\n"
			     "{\n"
			     "	extern __shared__ int block[];\n"
			     "	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
			     "	if (i < count)\n"
			     "		block[blockDim.x - 1 - threadIdx.x] = values[i];\n"
			     "	__syncthreads();\n"
			     "	if (i < count)\n"
			     "		values[i] = block[threadIdx.x];\n"
			     "}\n";

// Returns the dynamic shared memory of a block with this many threads.
static size_t shared_memory_of(int threads, void *user)
{
	(void)user;
	return (size_t)threads * sizeof(int);
}

int main(void)
{
	struct vg_memory_resource *pool;
	struct vg_context *context;
	struct vg_stream *stream;
	struct vg_device *device;
	struct vg_buffer *buffer;
	unsigned blocks, best = 0, minimum_grid, threads;
	size_t most_shared;

	check(vg_device_get(0, &device));
	check(vg_context_primary(device, &context));
	check(vg_stream_create(context, NULL, &stream));
	struct vg_kernel *kernel = compile_kernel(device, source, "reverse");

	for (unsigned size = 32; size <= 1024; size *= 2) {
		check(vg_kernel_max_active_blocks(kernel, context, size, shared_memory_of((int)size, NULL), &blocks));
		printf("%4u threads: %2u blocks, %u threads on a multiprocessor\n", size, blocks, blocks * size);
		best = blocks * size > best ? blocks * size : best;
	}
	struct vg_block_size_options options = {.size = sizeof options, .shared_memory_of = shared_memory_of};
	check(vg_kernel_max_potential_block_size(kernel, context, &options, &minimum_grid, &threads));
	check(vg_kernel_max_active_blocks(kernel, context, threads, shared_memory_of((int)threads, NULL), &blocks));
	check(vg_kernel_available_shared_memory(kernel, context, blocks, threads, &most_shared));
	printf("recommended: %u threads, at least %u blocks; %u on a multiprocessor may have %zu bytes each\n", threads,
	       minimum_grid, blocks, most_shared);

	// Launches the recommended block size, on as many elements as fill the device once.
	unsigned count = minimum_grid * threads, wrong = 0;
	int *values = malloc(count * sizeof *values);
	if (!values)
		return 1;
	for (unsigned i = 0; i < count; i++)
		values[i] = (int)i;
	check(vg_device_pool_current(device, &pool));
	check(vg_buffer_create(pool, count * sizeof *values, stream, &buffer));
	check(vg_buffer_write(buffer, 0, values, count * sizeof *values, stream));
	struct vg_launch_config config = {.size = sizeof config,
					  .grid = {minimum_grid},
					  .block = {threads},
					  .shared_memory = shared_memory_of((int)threads, NULL)};
	check(vg_launch(stream, &config, kernel, VG_ARGUMENTS(vg_buffer_address(buffer), count)));
	check(vg_buffer_read(buffer, 0, values, count * sizeof *values, stream));
	check(vg_stream_sync(stream));
	for (unsigned i = 0; i < count; i++)
		wrong += values[i] != (int)(i / threads * threads + threads - 1 - i % threads);

	free(values);
	vg_buffer_destroy(buffer);
	vg_memory_resource_destroy(pool);
	vg_kernel_destroy(kernel);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
	printf("occupancy: %u of %u elements are wrong\n", wrong, count);
	return wrong != 0 || blocks * threads < best;
}
