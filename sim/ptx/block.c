// Allocates the memory of thread blocks, and starts and ends them. Each worker reuses its own blocks.
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "sim/ptx/engine.h"

static size_t local_memory_size(const struct ptx_run *run)
{
	return run->local_bytes ? run->warps_per_block * PTX_LANES * run->local_stride : 0;
}

static void destroy_block(const struct ptx_run *run, struct ptx_block *block)
{
	if (!block)
		return;
	if (block->local)
		munmap(block->local, local_memory_size(run));
	free(block->shared);
	free(block->warps);
	free(block);
}

static struct ptx_block *create_block(struct ptx_worker *worker)
{
	const struct ptx_run *run = worker->run;
	const uint32_t *size = run->launch->block;
	struct ptx_block *block = calloc(1, sizeof *block);

	if (!block)
		return NULL;
	block->warp_count = run->warps_per_block;
	block->thread_count = run->threads_per_block;
	block->warps = calloc(block->warp_count, sizeof *block->warps);
	block->shared = aligned_alloc(64, (run->shared_size + 127ull) & ~63ull);
	if (local_memory_size(run)) {
		block->local = mmap(NULL, local_memory_size(run), PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (block->local == MAP_FAILED)
			block->local = NULL;
	}
	if (!block->warps || !block->shared || (local_memory_size(run) && !block->local)) {
		destroy_block(run, block);
		return NULL;
	}
	for (uint32_t thread = 0; thread < block->warp_count * PTX_LANES; thread++) {
		struct ptx_warp *warp = &block->warps[thread / PTX_LANES];
		warp->tid[0][thread % PTX_LANES] = thread % size[0];
		warp->tid[1][thread % PTX_LANES] = thread / size[0] % size[1];
		warp->tid[2][thread % PTX_LANES] = thread / size[0] / size[1];
	}
	for (uint32_t i = 0; i < block->warp_count; i++) {
		struct ptx_warp *warp = &block->warps[i];
		warp->index = i;
		warp->block = block;
		warp->worker = worker;
		warp->constants = run->module->constants;
		warp->local = block->local ? block->local + i * PTX_LANES * run->local_stride : NULL;
	}
	return block;
}

static int start_warp(struct ptx_warp *warp)
{
	const struct ptx_run *run = warp->worker->run;
	const struct ptx_function *function = run->function;
	uint32_t left = warp->block->thread_count - warp->index * PTX_LANES;
	struct ptx_frame *frame = ptx_frame_create(warp->worker, function);

	if (!frame)
		return -ENOMEM;
	memset(warp->arrived, 0, sizeof warp->arrived);
	warp->cluster_arrived = 0;
	warp->live = left >= PTX_LANES ? UINT32_MAX : (1u << left) - 1;
	frame->parent = NULL;
	frame->call = NULL;
	frame->depth = 0;
	frame->lanes = warp->live;
	frame->local_base = 0;
	frame->local_top = (function->local_bytes + 15) & ~15u;
	warp->frame = frame;
	warp->base_frame = frame;
	warp->group_count = 1;
	warp->groups[0] =
		(struct ptx_group){.mask = warp->live, .pc = function->ops, .frame = frame, .budget = PTX_BUDGET};
	return 0;
}

// Sets the position of a block in the grid. It is block number `rank` of cluster number `unit`.
static void set_position(const struct ptx_run *run, struct ptx_block *block, uint64_t unit, uint32_t rank)
{
	const uint32_t *grid = run->launch->grid;

	block->rank = rank;
	for (int axis = 0; axis < 3; axis++) {
		uint32_t size = run->cluster[axis], clusters = grid[axis] / size;
		block->id[axis] = (uint32_t)(unit % clusters) * size + rank % size;
		unit /= clusters;
		rank /= size;
	}
	block->linear = block->id[0] + (uint64_t)grid[0] * (block->id[1] + (uint64_t)grid[1] * block->id[2]);
}

static int start_block(struct ptx_worker *worker, uint64_t unit, uint32_t rank)
{
	const struct ptx_run *run = worker->run;
	struct ptx_block *block = worker->idle;

	if (block)
		worker->idle = block->next;
	else if (!(block = create_block(worker)))
		return -ENOMEM;
	block->next = worker->resident;
	worker->resident = block;
	worker->resident_count++;
	block->cluster = NULL;
	set_position(run, block, unit, rank);
	block->live = block->thread_count;
	memset(block->shared, 0, run->shared_size);
	memset(block->barriers, 0, sizeof block->barriers);
	block->barriers_in_use = 0;
	for (uint32_t i = 0; i < block->warp_count; i++) {
		int r = start_warp(&block->warps[i]);
		if (r)
			return r;
	}
	return 0;
}

int ptx_unit_start(struct ptx_worker *worker, uint64_t unit)
{
	const struct ptx_run *run = worker->run;
	struct ptx_block *blocks[PTX_CLUSTER_BLOCKS];

	for (uint32_t rank = 0; rank < run->cluster_blocks; rank++) {
		int r = start_block(worker, unit, rank);
		if (r)
			return r;
		blocks[rank] = worker->resident;
	}
	if (!run->function->info.uses_cluster)
		return 0;
	struct ptx_cluster *cluster = &blocks[0]->own_cluster;
	memcpy(cluster->blocks, blocks, run->cluster_blocks * sizeof *blocks);
	cluster->live = cluster->missing = run->cluster_blocks * run->threads_per_block;
	for (uint32_t rank = 0; rank < run->cluster_blocks; rank++)
		blocks[rank]->cluster = cluster;
	return 0;
}

void ptx_block_finish(struct ptx_worker *worker, struct ptx_block **at)
{
	struct ptx_block *block = *at;

	for (uint32_t i = 0; i < block->warp_count; i++) {
		ptx_frame_release(worker, block->warps[i].base_frame);
		block->warps[i].base_frame = NULL;
	}
	*at = block->next;
	block->next = worker->idle;
	worker->idle = block;
	worker->resident_count--;
}

void ptx_cluster_finish(struct ptx_worker *worker, const struct ptx_cluster *cluster)
{
	for (struct ptx_block **at = &worker->resident; *at;) {
		if ((*at)->cluster == cluster)
			ptx_block_finish(worker, at);
		else
			at = &(*at)->next;
	}
}

void ptx_blocks_destroy(struct ptx_worker *worker)
{
	const struct ptx_run *run = worker->run;
	struct ptx_block *lists[] = {worker->resident, worker->idle};

	for (int i = 0; i < 2; i++)
		for (struct ptx_block *block = lists[i], *next; block; block = next) {
			next = block->next;
			for (uint32_t w = 0; i == 0 && w < block->warp_count; w++)
				ptx_warp_abandon(&block->warps[w]);
			destroy_block(run, block);
		}
	for (uint32_t i = 0; worker->free_frames && i < run->module->function_count; i++)
		for (struct ptx_frame *frame = worker->free_frames[i], *next; frame; frame = next) {
			next = frame->parent;
			free(frame);
		}
	free(worker->free_frames);
}
