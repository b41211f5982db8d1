// Computes occupancy: how many blocks and clusters multiprocessors run at once.
#include "context.h"
#include "entry.h"
#include "kernel.h"
#include "launch.h"
#include "process.h"

#define WARP 32
#define REGISTER_UNIT 256
#define SHARED_UNIT 128

// Constants with which the driver of an H200 computes how many clusters fit. A multiprocessor runs at most 8 blocks of
// clusters. For clusters of more than two blocks, 31 of the 33 groups of four multiprocessors count. For clusters of
// more than four blocks, the result is rounded down to an even number.
enum { CLUSTERED_BLOCKS = 8, GROUP = 4, GROUPS = 33, CLUSTERED_GROUPS = 31 };

struct sim_multiprocessor sim_multiprocessor(void)
{
	int cc = sim_module_target();
	struct sim_multiprocessor sm = {.threads = 2048, .blocks = 32, .registers = 65536};

	if (cc == 75) {
		sm.threads = 1024;
		sm.blocks = 16;
	} else if (cc == 86 || cc == 87 || cc == 89 || cc >= 120) {
		sm.threads = 1536;
		sm.blocks = cc == 86 || cc == 87 ? 16 : 24;
	}
	sm.reserved_shared = cc >= 80 ? 1024 : 0;
	sm.shared = sim_kernel_shared_limit() + sm.reserved_shared;
	return sm;
}

static int min_int(int a, int b)
{
	return a < b ? a : b;
}

int sim_occupancy_blocks(const struct ptx_function_info *info, int threads, size_t dynamic_shared)
{
	struct sim_multiprocessor sm = sim_multiprocessor();
	int warps = (threads + WARP - 1) / WARP;
	size_t shared = sim_round_up(info->static_shared + dynamic_shared, SHARED_UNIT);

	if (threads <= 0 || threads > (int)info->max_threads || shared > (size_t)(sm.shared - sm.reserved_shared))
		return 0;
	int registers = (int)sim_round_up((size_t)info->registers * WARP, REGISTER_UNIT) * warps;
	int blocks = min_int(sm.blocks, sm.threads / (warps * WARP));
	if (registers)
		blocks = min_int(blocks, sm.registers / registers);
	if (shared + (size_t)sm.reserved_shared)
		blocks = min_int(blocks, sm.shared / (int)(shared + (size_t)sm.reserved_shared));
	return blocks;
}

static CUresult get_function(CUfunction handle, struct CUfunc_st **ret_function)
{
	struct sim_context *context;

	if (handle && handle->magic == SIM_FUNCTION_MAGIC) {
		*ret_function = handle;
		return sim_failure();
	}
	SIM_TRY(sim_context_current(&context));
	return sim_function_get(handle, context, ret_function);
}

static CUresult count_active_blocks(int *count, CUfunction func, int threads, size_t shared, unsigned flags)
{
	struct CUfunc_st *function;

	if (!count || threads <= 0 || (flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(get_function(func, &function));
	*count = sim_occupancy_blocks(function->info, threads, shared);
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize,
						     size_t dynamicSMemSize)
{
	SIM_ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor);
	return count_active_blocks(numBlocks, func, blockSize, dynamicSMemSize, 0);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func, int blockSize,
							      size_t dynamicSMemSize, unsigned int flags)
{
	SIM_ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags);
	return count_active_blocks(numBlocks, func, blockSize, dynamicSMemSize, flags);
}

static CUresult find_best_block(int *minimum_grid, int *block, CUfunction func, CUoccupancyB2DSize of_block,
				size_t fixed, int limit, unsigned flags)
{
	struct CUfunc_st *function;
	int best_threads = 0, best_block = 0, best_blocks = 0;

	if (!minimum_grid || !block || limit < 0 || (flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(get_function(func, &function));
	int most = (int)function->info->max_threads;
	if (limit && limit < most)
		most = limit;
	for (int size = (most + WARP - 1) / WARP * WARP; size > 0; size -= WARP) {
		int threads = min_int(size, most);
		int blocks = sim_occupancy_blocks(function->info, threads, of_block ? of_block(threads) : fixed);
		if (blocks * threads > best_threads) {
			best_threads = blocks * threads;
			best_block = threads;
			best_blocks = blocks;
		}
	}
	*block = best_block;
	*minimum_grid = best_blocks * (int)function->module->context->sms;
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
					  CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
					  int blockSizeLimit)
{
	SIM_ENTER(cuOccupancyMaxPotentialBlockSize);
	return find_best_block(minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize,
			       blockSizeLimit, 0);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize, CUfunction func,
						   CUoccupancyB2DSize blockSizeToDynamicSMemSize,
						   size_t dynamicSMemSize, int blockSizeLimit, unsigned int flags)
{
	SIM_ENTER(cuOccupancyMaxPotentialBlockSizeWithFlags);
	return find_best_block(minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize,
			       blockSizeLimit, flags);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func, int numBlocks, int blockSize)
{
	struct CUfunc_st *function;
	struct sim_multiprocessor sm = sim_multiprocessor();

	SIM_ENTER(cuOccupancyAvailableDynamicSMemPerBlock);
	if (!dynamicSmemSize || numBlocks <= 0 || blockSize <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(get_function(func, &function));
	if (numBlocks > sim_occupancy_blocks(function->info, blockSize, 0))
		return CUDA_ERROR_INVALID_VALUE;
	int each = (sm.shared / numBlocks - sm.reserved_shared) / SHARED_UNIT * SHARED_UNIT;
	each = min_int(each, sim_kernel_shared_limit());
	*dynamicSmemSize = (size_t)(each - (int)function->info->static_shared);
	return CUDA_SUCCESS;
}

// Computes the size of the cluster with which this configuration would launch the kernel.
static CUresult get_cluster(const CUlaunchConfig *config, const struct CUfunc_st *function, unsigned ret_cluster[3])
{
	const unsigned grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};
	struct sim_launch_attributes attributes = {.set = 0};

	if (config->numAttrs && !config->attrs)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < config->numAttrs; i++)
		SIM_TRY(sim_launch_attributes_add(&attributes, config->attrs[i].id, &config->attrs[i].value));
	return sim_launch_cluster(function, grid, &attributes, ret_cluster);
}

CUresult cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func, const CUlaunchConfig *config)
{
	struct CUfunc_st *function;

	SIM_ENTER(cuOccupancyMaxPotentialClusterSize);
	if (!clusterSize || !config)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(get_function(func, &function));
	*clusterSize = sim_process.config.cc_major < 9	? 1
		       : function->settings.cluster_any ? SIM_CLUSTER_MOST
							: SIM_CLUSTER_PORTABLE;
	return CUDA_SUCCESS;
}

// Returns how many clusters of `blocks` blocks run at once on `sms` multiprocessors. A multiprocessor has room for
// `resident` blocks.
static int count_active_clusters(int resident, int sms, int blocks)
{
	if (blocks == 0) // a launch without a cluster
		return 0;
	if (blocks <= 2)
		return resident * sms / blocks;
	int slots = resident * GROUP * (sms * CLUSTERED_GROUPS / (GROUP * GROUPS));
	return blocks <= GROUP ? slots / blocks : slots / (2 * blocks) * 2;
}

CUresult cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func, const CUlaunchConfig *config)
{
	struct CUfunc_st *function;
	unsigned cluster[3];

	SIM_ENTER(cuOccupancyMaxActiveClusters);
	if (!numClusters || !config)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(get_function(func, &function));
	SIM_TRY(get_cluster(config, function, cluster));
	int threads = (int)(config->blockDimX * config->blockDimY * config->blockDimZ);
	int blocks = (int)(cluster[0] * cluster[1] * cluster[2]);
	int resident = sim_occupancy_blocks(function->info, threads, config->sharedMemBytes);
	*numClusters =
		count_active_clusters(min_int(resident, CLUSTERED_BLOCKS), (int)function->module->context->sms, blocks);
	return CUDA_SUCCESS;
}
