#include "core/error.h"
#include "core/launch.h"
#include "core/stream.h"

#include <limits.h>

static enum vg_status check_block(unsigned block_threads, size_t shared_memory)
{
	if (!block_threads || block_threads > INT_MAX)
		return vg_fail(VG_INVALID, 0, "a block of %u threads", block_threads);
	if (shared_memory > INT_MAX)
		return vg_fail(VG_INVALID, 0, "%zu bytes of dynamic shared memory: no device has as much",
			       shared_memory);
	return VG_OK;
}

enum vg_status vg_kernel_max_active_blocks(struct vg_kernel *kernel, struct vg_context *context, unsigned block_threads,
					   size_t shared_memory, unsigned *ret_blocks)
{
	VG_ENTRY();
	int blocks;

	CORE_USABLE(kernel, "kernel");
	CORE_USABLE(context, "context");
	CORE_NEEDED(ret_blocks);
	CORE_TRY(check_block(block_threads, shared_memory));
	CORE_ENTER(scope, context->handle);
	CORE_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, (CUfunction)kernel->handle, (int)block_threads,
		  shared_memory);
	*ret_blocks = (unsigned)blocks;
	return VG_OK;
}

// The options that the driver's callback reads. The driver passes no pointer of its caller to the callback, and runs
// the callback on the thread of its caller. So the options are in a variable of that thread.
static _Thread_local const struct vg_block_size_options *current_options;

static size_t shared_memory_of(int block_threads)
{
	return current_options->shared_memory_of(block_threads, current_options->user);
}

enum vg_status vg_kernel_max_potential_block_size(struct vg_kernel *kernel, struct vg_context *context,
						  const struct vg_block_size_options *options,
						  unsigned *ret_minimum_grid, unsigned *ret_block_threads)
{
	VG_ENTRY();
	struct vg_block_size_options o;
	int grid, block;

	CORE_USABLE(kernel, "kernel");
	CORE_USABLE(context, "context");
	CORE_NEEDED(ret_minimum_grid);
	CORE_NEEDED(ret_block_threads);
	CORE_OPTIONS(o, options);
	if (o.shared_memory && o.shared_memory_of)
		return vg_fail(VG_INVALID, 0, "shared_memory and shared_memory_of are both given: use one of them");
	CORE_TRY(check_block(o.block_limit ? o.block_limit : 1, o.shared_memory));
	CORE_ENTER(scope, context->handle);
	// Saved, because the callback may call this function again.
	const struct vg_block_size_options *outer = current_options;
	current_options = &o;
	CUresult r = core_driver->cuOccupancyMaxPotentialBlockSize(&grid, &block, (CUfunction)kernel->handle,
								   o.shared_memory_of ? shared_memory_of : NULL,
								   o.shared_memory, (int)o.block_limit);
	current_options = outer;
	if (r)
		return core_driver_failed(r, "cuOccupancyMaxPotentialBlockSize", "%s", "");
	*ret_minimum_grid = (unsigned)grid;
	*ret_block_threads = (unsigned)block;
	return VG_OK;
}

enum vg_status vg_kernel_available_shared_memory(struct vg_kernel *kernel, struct vg_context *context, unsigned blocks,
						 unsigned block_threads, size_t *ret_bytes)
{
	VG_ENTRY();
	int most;

	CORE_USABLE(kernel, "kernel");
	CORE_USABLE(context, "context");
	CORE_NEEDED(ret_bytes);
	CORE_TRY(check_block(block_threads, 0));
	CORE_ENTER(scope, context->handle);
	CORE_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, &most, (CUfunction)kernel->handle, (int)block_threads,
		  0);
	if (!blocks || blocks > (unsigned)most)
		return vg_fail(VG_INVALID, 0,
			       "%u blocks of %u threads on one SM: from 1 to %d fit, without shared memory", blocks,
			       block_threads, most);
	CORE_CALL(cuOccupancyAvailableDynamicSMemPerBlock, ret_bytes, (CUfunction)kernel->handle, (int)blocks,
		  (int)block_threads);
	return VG_OK;
}

static enum vg_status prepare_clusters(const struct vg_stream *stream, const struct vg_launch_config *config,
				       struct core_launch *launch)
{
	const struct vg_device *device = stream->context->device;
	struct vg_launch_config c;

	CORE_OPTIONS(c, config);
	CORE_TRY(core_launch_configure(launch, &c, device));
	launch->native.hStream = stream->handle;
	if (device->compute_major < 9)
		return vg_fail(VG_UNSUPPORTED, 0,
			       "thread block clusters need compute capability 9.0, device %d has %d.%d",
			       device->ordinal, device->compute_major, device->compute_minor);
	return VG_OK;
}

enum vg_status vg_kernel_max_potential_cluster_size(struct vg_kernel *kernel, struct vg_stream *stream,
						    const struct vg_launch_config *config, unsigned *ret_blocks)
{
	VG_ENTRY();
	struct core_launch launch;
	int blocks;

	CORE_USABLE(kernel, "kernel");
	CORE_USABLE(stream, "stream");
	CORE_NEEDED(config);
	CORE_NEEDED(ret_blocks);
	CORE_TRY(prepare_clusters(stream, config, &launch));
	CORE_ENTER(scope, stream->context->handle);
	CORE_CALL(cuOccupancyMaxPotentialClusterSize, &blocks, (CUfunction)kernel->handle, &launch.native);
	*ret_blocks = (unsigned)blocks;
	return VG_OK;
}

enum vg_status vg_kernel_max_active_clusters(struct vg_kernel *kernel, struct vg_stream *stream,
					     const struct vg_launch_config *config, unsigned *ret_clusters)
{
	VG_ENTRY();
	struct core_launch launch;
	int clusters;

	CORE_USABLE(kernel, "kernel");
	CORE_USABLE(stream, "stream");
	CORE_NEEDED(config);
	CORE_NEEDED(ret_clusters);
	CORE_TRY(prepare_clusters(stream, config, &launch));
	if (!launch.cluster[0])
		return vg_fail(VG_INVALID, 0, "the configuration names no cluster: set its field cluster");
	CORE_ENTER(scope, stream->context->handle);
	CORE_CALL(cuOccupancyMaxActiveClusters, &clusters, (CUfunction)kernel->handle, &launch.native);
	*ret_clusters = (unsigned)clusters;
	return VG_OK;
}
