// One launch: its blocks dealt to host threads, each of which runs a few at a time.
//
// A host thread runs one block to its end. When all threads of the block only wait for
// memory to change, it starts another beside it, as a device would have long done: blocks
// that wait for each other get on. A cooperative grid has all its blocks started at once. The
// blocks of a cluster that meet are started together, by one host thread.
#include <errno.h>
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "sim/ptx/engine.h"

enum {
	BLOCK_DONE,
	BLOCK_SPINS,
	BLOCK_WAITS, // nothing ran: for other blocks of its cluster
	BLOCK_PAUSES, // the same, after something ran
	BLOCK_STOPPED,
	THREADS_PER_SM = 2048,
	BLOCKS_PER_SM = 32,
	TIMED_PATIENCE = 6,
	HELP_AFTER_NS = 50000 /* what waking threads costs */
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static size_t local_size(const struct ptx_run *run)
{
	return run->local_bytes ? run->warps_per_block * PTX_LANES * run->local_stride : 0;
}

static void block_destroy(const struct ptx_run *run, struct ptx_block *block)
{
	if (!block)
		return;
	if (block->local)
		munmap(block->local, local_size(run));
	free(block->shared);
	free(block->warps);
	free(block);
}

static struct ptx_block *block_create(struct ptx_worker *worker)
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
	if (local_size(run)) {
		block->local = mmap(NULL, local_size(run), PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (block->local == MAP_FAILED)
			block->local = NULL;
	}
	if (!block->warps || !block->shared || (local_size(run) && !block->local)) {
		block_destroy(run, block);
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

static int warp_start(struct ptx_warp *warp)
{
	const struct ptx_run *run = warp->worker->run;
	const struct ptx_function *function = run->function;
	uint32_t left = warp->block->thread_count - warp->index * PTX_LANES;
	struct ptx_frame *frame = ptx_frame_take(warp->worker, function);

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
		(struct ptx_group){.mask = warp->live, .pc = function->ops, .frame = frame, .budget = PTX_TURN};
	return 0;
}

static void block_place(const struct ptx_run *run, struct ptx_block *block, uint64_t unit, uint32_t rank)
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

static int block_start(struct ptx_worker *worker, uint64_t unit, uint32_t rank)
{
	const struct ptx_run *run = worker->run;
	struct ptx_block *block = worker->idle;

	if (block)
		worker->idle = block->next;
	else if (!(block = block_create(worker)))
		return -ENOMEM;
	block->next = worker->resident;
	worker->resident = block;
	worker->resident_count++;
	block->cluster = NULL;
	block_place(run, block, unit, rank);
	block->live = block->thread_count;
	memset(block->shared, 0, run->shared_size);
	memset(block->barriers, 0, sizeof block->barriers);
	block->barriers_in_use = 0;
	for (uint32_t i = 0; i < block->warp_count; i++) {
		int r = warp_start(&block->warps[i]);
		if (r)
			return r;
	}
	return 0;
}

// A cluster whose blocks meet, or one block.
static int unit_start(struct ptx_worker *worker, uint64_t unit)
{
	const struct ptx_run *run = worker->run;
	struct ptx_block *blocks[PTX_CLUSTER_BLOCKS];

	for (uint32_t rank = 0; rank < run->cluster_blocks; rank++) {
		int r = block_start(worker, unit, rank);
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

// False: fewer came than were called. Where not every block must be there, the others get on without them.
static bool call_helpers(struct ptx_run *run)
{
	uint32_t count = run->worker_count - 1;

	run->called_helpers = true;
	atomic_fetch_sub(&run->finished_workers, count);
	uint32_t lacking = count - ptx_helpers_call(run, count);
	atomic_fetch_add(&run->finished_workers, lacking);
	return lacking == 0;
}

// Gives each warp turns until the block is done, stopped, or does nothing but poll.
static int block_run(struct ptx_worker *worker, struct ptx_block *block)
{
	struct ptx_run *run = worker->run;
	bool ran = false;

	for (;;) {
		uint64_t changes = worker->changes;
		bool spins = true;
		worker->ran = false;
		for (uint32_t i = 0; i < block->warp_count; i++) {
			struct ptx_warp *warp = &block->warps[i];
			if (!warp->live)
				continue;
			if (worker->index == 0 && !run->called_helpers && now_ns() - run->start_ns > HELP_AFTER_NS)
				call_helpers(run);
			enum ptx_warp_result result = ptx_warp_run(warp);
			if (result == PTX_WARP_FAULT)
				return BLOCK_STOPPED;
			for (uint32_t g = 0; g < warp->group_count && result == PTX_WARP_YIELDED; g++)
				spins &= warp->groups[g].state != PTX_GROUP_READY || warp->groups[g].spinning;
		}
		ran |= worker->ran;
		if (!block->live && !(block->cluster && block->cluster->live))
			return BLOCK_DONE;
		if (!block->live || (!worker->ran && run->cluster_blocks > 1))
			return ran ? BLOCK_PAUSES : BLOCK_WAITS;
		if (!worker->ran) {
			struct ptx_block *next = block->next;
			block->next = NULL;
			ptx_fault_deadlock(run, block, "every live thread of a block waits");
			block->next = next;
			return BLOCK_STOPPED;
		}
		if (run->launch->cancel && __atomic_load_n(run->launch->cancel, __ATOMIC_RELAXED)) {
			ptx_fault(&block->warps[0], NULL, 0, PTX_FAULT_CANCELLED, 0, "cancelled");
			return BLOCK_STOPPED;
		}
		if (atomic_load_explicit(&run->stop, memory_order_relaxed))
			return BLOCK_STOPPED;
		if (spins && changes == worker->changes)
			return BLOCK_SPINS;
	}
}

static void block_finish(struct ptx_worker *worker, struct ptx_block **at)
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

// All blocks of a cluster end together: they know each other.
static void cluster_finish(struct ptx_worker *worker, const struct ptx_cluster *cluster)
{
	for (struct ptx_block **at = &worker->resident; *at;) {
		if ((*at)->cluster == cluster)
			block_finish(worker, at);
		else
			at = &(*at)->next;
	}
}

static int start_some(struct ptx_worker *worker, bool more)
{
	struct ptx_run *run = worker->run;
	int r = 0;

	if (run->launch->cooperative) {
		for (uint64_t at = worker->next_cooperative; at < run->unit_count && r == 0; at += run->worker_count)
			r = unit_start(worker, at);
		worker->next_cooperative = run->unit_count;
		return r;
	}
	if (worker->resident && (!more || worker->resident_count + run->cluster_blocks > run->resident_limit))
		return 0;
	if (atomic_load(&run->next_unit) >= run->unit_count)
		return 0;
	uint64_t next = atomic_fetch_add(&run->next_unit, 1);
	return next < run->unit_count ? unit_start(worker, next) : 0;
}

// All this worker's threads poll, and it can start no other block. Nobody else gets on
// either for long, and nobody outside can write what they look at: that is a deadlock.
static void spin(struct ptx_worker *worker)
{
	struct ptx_run *run = worker->run;
	uint64_t now = now_ns();

	if (worker->changes != worker->seen) {
		atomic_fetch_add(&run->changes, worker->changes - worker->seen);
		worker->seen = worker->changes;
	}
	uint64_t changes = atomic_load(&run->changes);
	if (!worker->is_spinning) {
		worker->is_spinning = true;
		atomic_fetch_add(&run->spinning_workers, 1);
		worker->quiet_since_ns = now;
		worker->quiet_changes = changes;
	}
	uint64_t bound = run->deadlock_ns * (worker->timed ? TIMED_PATIENCE : 1);
	bool all = atomic_load(&run->spinning_workers) + atomic_load(&run->finished_workers) >= run->worker_count;
	if (changes != worker->quiet_changes || worker->host_polled || !all) {
		worker->quiet_since_ns = now;
		worker->quiet_changes = changes;
	} else if (now - worker->quiet_since_ns > bound) {
		ptx_fault_deadlock(run, worker->resident, "every live thread polls memory that nobody changes");
	}
	worker->host_polled = worker->timed = false;
	if (now - worker->quiet_since_ns > 10000000)
		usleep(200);
	else
		sched_yield();
}

enum turn { TURN_RAN, TURN_SPINS, TURN_STOPPED };

// Gives each resident block its turn. TURN_SPINS: all of them only wait.
static enum turn blocks_run(struct ptx_worker *worker)
{
	bool spins = true, stuck = true;

	for (struct ptx_block **at = &worker->resident; *at;) {
		struct ptx_cluster *cluster = (*at)->cluster;
		int result = block_run(worker, *at);
		if (result == BLOCK_STOPPED)
			return TURN_STOPPED;
		spins &= result == BLOCK_SPINS || result == BLOCK_WAITS;
		stuck &= result == BLOCK_WAITS;
		if (result == BLOCK_DONE && cluster) {
			cluster_finish(worker, cluster);
			return TURN_RAN; // the list has changed
		}
		if (result == BLOCK_DONE)
			block_finish(worker, at);
		else
			at = &(*at)->next;
	}
	if (!stuck)
		return spins ? TURN_SPINS : TURN_RAN;
	ptx_fault_deadlock(worker->run, worker->resident, "every live thread of a cluster waits");
	return TURN_STOPPED;
}

static void worker_work(struct ptx_worker *worker)
{
	struct ptx_run *run = worker->run;
	bool more = false;

	while (!atomic_load_explicit(&run->stop, memory_order_relaxed)) {
		uint32_t resident = worker->resident_count;
		int r = start_some(worker, more);
		if (r) {
			atomic_store(&run->error, r);
			atomic_store(&run->stop, 1);
			return;
		}
		if (!worker->resident)
			return;
		if (more && worker->resident_count == resident) {
			spin(worker);
		} else if (worker->is_spinning) {
			worker->is_spinning = false;
			atomic_fetch_sub(&run->spinning_workers, 1);
		}
		enum turn turn = blocks_run(worker);
		if (turn == TURN_STOPPED)
			return;
		more = turn == TURN_SPINS;
	}
}

static void worker_finish(struct ptx_worker *worker)
{
	struct ptx_run *run = worker->run;
	struct ptx_block *lists[] = {worker->resident, worker->idle};

	if (worker->is_spinning)
		atomic_fetch_sub(&run->spinning_workers, 1);
	atomic_fetch_add(&run->finished_workers, 1);
	for (int i = 0; i < 2; i++)
		for (struct ptx_block *block = lists[i], *next; block; block = next) {
			next = block->next;
			for (uint32_t w = 0; i == 0 && w < block->warp_count; w++)
				ptx_warp_abandon(&block->warps[w]);
			block_destroy(run, block);
		}
	for (uint32_t i = 0; worker->free_frames && i < run->module->function_count; i++)
		for (struct ptx_frame *frame = worker->free_frames[i], *next; frame; frame = next) {
			next = frame->parent;
			free(frame);
		}
	free(worker->free_frames);
}

void ptx_worker_main(struct ptx_worker *worker)
{
	// Threads inherit the program's rounding and flushing (-ffast-math): kernels must not.
	const unsigned saved = _mm_getcsr();

	_mm_setcsr(_MM_MASK_MASK);
	worker->free_frames = calloc(worker->run->module->function_count, sizeof *worker->free_frames);
	if (worker->free_frames) {
		worker_work(worker);
	} else {
		atomic_store(&worker->run->error, -ENOMEM);
		atomic_store(&worker->run->stop, 1);
	}
	worker_finish(worker);
	_mm_setcsr(saved);
}

// Blocks of a cluster that do not meet run each for itself, as those of no cluster.
static int cluster_prepare(struct ptx_run *run)
{
	const struct ptx_launch *launch = run->launch;
	uint64_t blocks = 1;

	for (int axis = 0; axis < 3; axis++) {
		bool meet = run->function->info.uses_cluster && launch->cluster[axis];
		run->cluster[axis] = meet ? launch->cluster[axis] : 1;
		blocks *= run->cluster[axis];
		if (blocks > PTX_CLUSTER_BLOCKS || launch->grid[axis] % run->cluster[axis])
			return -EINVAL;
	}
	run->cluster_blocks = (uint32_t)blocks;
	run->unit_count = run->block_count / blocks;
	return 0;
}

static int run_prepare(struct ptx_run *run, const struct ptx_launch *launch)
{
	const struct ptx_function *function = launch->function;
	const struct ptx_function_info *info = &function->info;
	uint64_t threads = (uint64_t)launch->block[0] * launch->block[1];
	uint64_t stack = launch->stack_bytes ? launch->stack_bytes : 1 << 20;
	static _Atomic uint64_t grids;

	for (int axis = 0; axis < 3; axis++) {
		if (!launch->grid[axis] || !launch->block[axis] || launch->block[axis] > 1024)
			return -EINVAL;
		if (info->required[0] && info->required[axis] != launch->block[axis])
			return -EINVAL;
	}
	threads *= launch->block[2];
	if (threads > 1024 || threads > info->max_threads || function->entry_refusal ||
	    launch->dynamic_shared > 256 << 10)
		return -EINVAL;
	run->launch = launch;
	run->function = function;
	run->module = function->module;
	run->space = *launch->space;
	run->threads_per_block = (uint32_t)threads;
	run->warps_per_block = (uint32_t)(threads + PTX_LANES - 1) / PTX_LANES;
	run->block_count = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
	if (cluster_prepare(run))
		return -EINVAL;
	run->shared_size = PTX_SHARED_FIRST + function->dynamic_shared_at + launch->dynamic_shared;
	stack = stack > 16 << 20 ? 16 << 20 : stack;
	run->local_bytes = (function->local_bytes + 15) & ~15u;
	if (function->callee_count || function->calls_indirectly || function->uses_alloca)
		run->local_bytes += function->static_stack + (uint32_t)stack;
	run->local_stride = ((run->local_bytes + 63ull) / 64 | 1) * 64; // odd: lanes must not share a cache set
	run->worker_count = launch->threads ? launch->threads : 1;
	if (run->worker_count > run->unit_count)
		run->worker_count = (uint32_t)run->unit_count;
	uint64_t per_sm = THREADS_PER_SM / threads < BLOCKS_PER_SM ? THREADS_PER_SM / threads : BLOCKS_PER_SM;
	run->resident_limit = (uint32_t)((launch->sm_count ? launch->sm_count : 1) * per_sm / run->worker_count);
	run->deadlock_ns = (launch->deadlock_ms ? launch->deadlock_ms : 10000) * 1000000ull;
	run->grid_id = atomic_fetch_add(&grids, 1) + 1;
	return 0;
}

// The calling thread is the first worker. It calls the others once the launch turns out to be worth it, or at once
// where every block must be there. Until then they count as done.
static int run_workers(struct ptx_run *run)
{
	uint32_t count = run->worker_count;

	run->workers = calloc(count, sizeof *run->workers);
	if (!run->workers)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		run->workers[i] = (struct ptx_worker){.run = run, .index = i, .next_cooperative = i};
	run->started = 1;
	pthread_mutex_init(&run->print_lock, NULL);
	pthread_cond_init(&run->helped, NULL);
	run->start_ns = now_ns();
	atomic_store(&run->finished_workers, count - 1);
	run->called_helpers = count == 1;
	if (run->launch->cooperative && count > 1 && !call_helpers(run)) { // some blocks would never start
		atomic_store(&run->error, -EAGAIN);
		atomic_store(&run->stop, 1);
	}
	ptx_worker_main(&run->workers[0]);
	ptx_helpers_dismiss(run, run->launch->cooperative);
	pthread_cond_destroy(&run->helped);
	pthread_mutex_destroy(&run->print_lock);
	return 0;
}

int ptx_run(const struct ptx_launch *launch, struct ptx_fault *ret_fault)
{
	struct ptx_run *run = calloc(1, sizeof *run);
	size_t bytes = launch->function->info.parameter_bytes;
	int r = run ? run_prepare(run, launch) : -ENOMEM;
	uint8_t *parameters = NULL;

	if (r == 0) {
		parameters = aligned_alloc(64, (bytes + 64) & ~63ull);
		if (!parameters)
			r = -ENOMEM;
	}
	if (r == 0) {
		if (bytes)
			memcpy(parameters, launch->parameters, bytes);
		run->parameters = parameters;
		r = run_workers(run);
		r = r ? r : atomic_load(&run->error);
		if (atomic_load(&run->fault_taken)) {
			*ret_fault = run->fault;
			r = 1;
		}
	}
	free(parameters);
	if (run) {
		free(run->workers);
	}
	free(run);
	return r;
}
