// Runs a launch. Host threads run the blocks of the grid, and each has a worker. A worker runs one block to its end.
// But if all threads of the block only poll memory, the worker starts another block beside it, so that blocks that wait
// for each other make progress. In a cooperative launch, all blocks are started at once. One worker starts the blocks
// of a cluster together, if they use each other.
#include <errno.h>
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "sim/ptx/engine.h"

enum {
	BLOCKS_PER_SM = 32,
	CLOCK_PATIENCE = 6,	// loops that read a clock may poll this many times as long before it is a deadlock
	HELP_AFTER_NS = 50000,	// wake helper threads after this time; waking costs about as much
	BACK_OFF_NS = 10000000, // how long a worker polls before it sleeps
	BACK_OFF_US = 200,
};

enum block_result {
	BLOCK_DONE,
	BLOCK_SPINS,
	BLOCK_WAITS,  // all threads wait for other blocks of the cluster
	BLOCK_PAUSES, // some threads ran, and now all wait for other blocks of the cluster
	BLOCK_STOPPED,
};

enum turn_result { TURN_RAN, TURN_SPINS, TURN_STOPPED };

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void fail(struct ptx_run *run, int error)
{
	atomic_store(&run->error, error);
	atomic_store(&run->stop, 1);
}

// Calls helpers to run the other workers. Returns false if not every worker gets a thread. A cooperative launch then
// fails. Any other launch continues with fewer threads.
static bool call_helpers(struct ptx_run *run)
{
	uint32_t count = run->worker_count - 1;

	run->has_called_helpers = true;
	atomic_fetch_sub(&run->finished_workers, count);
	uint32_t lacking = count - ptx_helpers_call(run, count);
	atomic_fetch_add(&run->finished_workers, lacking);
	return lacking == 0;
}

// Runs each warp in turn until the block is done or stopped, or until its threads only poll memory.
static enum block_result run_block(struct ptx_worker *worker, struct ptx_block *block)
{
	struct ptx_run *run = worker->run;
	bool has_run = false;

	for (;;) {
		uint64_t changes = worker->changes;
		bool spins = true;
		worker->has_run = false;
		for (uint32_t i = 0; i < block->warp_count; i++) {
			struct ptx_warp *warp = &block->warps[i];
			if (!warp->live)
				continue;
			if (worker->index == 0 && !run->has_called_helpers && now_ns() - run->start_ns > HELP_AFTER_NS)
				call_helpers(run);
			enum ptx_warp_result result = ptx_warp_run(warp);
			if (result == PTX_WARP_FAULT)
				return BLOCK_STOPPED;
			for (uint32_t g = 0; g < warp->group_count && result == PTX_WARP_YIELDED; g++)
				spins &= warp->groups[g].state != PTX_GROUP_READY || warp->groups[g].spinning;
		}
		has_run |= worker->has_run;
		if (!block->live && !(block->cluster && block->cluster->live))
			return BLOCK_DONE;
		if (!block->live || (!worker->has_run && run->cluster_blocks > 1))
			return has_run ? BLOCK_PAUSES : BLOCK_WAITS;
		if (!worker->has_run) {
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

// Starts blocks. A cooperative launch starts all blocks of the worker. Any other launch starts the next blocks if no
// block runs. If `more` is set, it also starts them beside running blocks, if the device has room for them.
static int start_blocks(struct ptx_worker *worker, bool more)
{
	struct ptx_run *run = worker->run;
	int r = 0;

	if (run->launch->cooperative) {
		for (uint64_t at = worker->next_cooperative; at < run->unit_count && r == 0; at += run->worker_count)
			r = ptx_unit_start(worker, at);
		worker->next_cooperative = run->unit_count;
		return r;
	}
	if (worker->resident && (!more || worker->resident_count + run->cluster_blocks > run->resident_limit))
		return 0;
	if (atomic_load(&run->next_unit) >= run->unit_count)
		return 0;
	uint64_t next = atomic_fetch_add(&run->next_unit, 1);
	return next < run->unit_count ? ptx_unit_start(worker, next) : 0;
}

// Lets other threads run. Called repeatedly while all threads of this worker's blocks poll and it cannot start another
// block. Reports a deadlock if no worker makes progress for long, and no thread of the program can write the polled
// memory.
static void back_off(struct ptx_worker *worker)
{
	struct ptx_run *run = worker->run;
	uint64_t now = now_ns();

	if (worker->changes != worker->counted_changes) {
		atomic_fetch_add(&run->changes, worker->changes - worker->counted_changes);
		worker->counted_changes = worker->changes;
	}
	uint64_t changes = atomic_load(&run->changes);
	if (!worker->is_spinning) {
		worker->is_spinning = true;
		atomic_fetch_add(&run->spinning_workers, 1);
		worker->quiet_since_ns = now;
		worker->quiet_changes = changes;
	}
	uint64_t limit = run->deadlock_ns * (worker->has_read_clock ? CLOCK_PATIENCE : 1);
	bool all_spin = atomic_load(&run->spinning_workers) + atomic_load(&run->finished_workers) >= run->worker_count;
	if (changes != worker->quiet_changes || worker->has_used_host_memory || !all_spin) {
		worker->quiet_since_ns = now;
		worker->quiet_changes = changes;
	} else if (now - worker->quiet_since_ns > limit) {
		ptx_fault_deadlock(run, worker->resident, "every live thread polls memory that nobody changes");
	}
	worker->has_used_host_memory = worker->has_read_clock = false;
	if (now - worker->quiet_since_ns > BACK_OFF_NS)
		usleep(BACK_OFF_US);
	else
		sched_yield();
}

// Lets each started block run until it ends or waits, or until its threads only poll memory. Returns TURN_SPINS if all
// blocks only poll or wait.
static enum turn_result run_blocks(struct ptx_worker *worker)
{
	bool spins = true, stuck = true;

	for (struct ptx_block **at = &worker->resident; *at;) {
		struct ptx_cluster *cluster = (*at)->cluster;
		enum block_result result = run_block(worker, *at);
		if (result == BLOCK_STOPPED)
			return TURN_STOPPED;
		spins &= result == BLOCK_SPINS || result == BLOCK_WAITS;
		stuck &= result == BLOCK_WAITS;
		if (result == BLOCK_DONE && cluster) {
			ptx_cluster_finish(worker, cluster);
			return TURN_RAN; // start again, because the list of blocks has changed
		}
		if (result == BLOCK_DONE)
			ptx_block_finish(worker, at);
		else
			at = &(*at)->next;
	}
	if (!stuck)
		return spins ? TURN_SPINS : TURN_RAN;
	ptx_fault_deadlock(worker->run, worker->resident, "every live thread of a cluster waits");
	return TURN_STOPPED;
}

static void run_worker(struct ptx_worker *worker)
{
	struct ptx_run *run = worker->run;
	bool more = false;

	while (!atomic_load_explicit(&run->stop, memory_order_relaxed)) {
		uint32_t resident = worker->resident_count;
		int r = start_blocks(worker, more);
		if (r) {
			fail(run, r);
			return;
		}
		if (!worker->resident)
			return;
		if (more && worker->resident_count == resident) {
			back_off(worker);
		} else if (worker->is_spinning) {
			worker->is_spinning = false;
			atomic_fetch_sub(&run->spinning_workers, 1);
		}
		enum turn_result turn = run_blocks(worker);
		if (turn == TURN_STOPPED)
			return;
		more = turn == TURN_SPINS;
	}
}

static void finish_worker(struct ptx_worker *worker)
{
	if (worker->is_spinning)
		atomic_fetch_sub(&worker->run->spinning_workers, 1);
	atomic_fetch_add(&worker->run->finished_workers, 1);
	ptx_blocks_destroy(worker);
}

void ptx_worker_main(struct ptx_worker *worker)
{
	// The program may have changed its threads' rounding and flushing modes (-ffast-math). Kernels must not use
	// these.
	const unsigned saved = _mm_getcsr();

	_mm_setcsr(_MM_MASK_MASK);
	worker->free_frames = calloc(worker->run->module->function_count, sizeof *worker->free_frames);
	if (worker->free_frames)
		run_worker(worker);
	else
		fail(worker->run, -ENOMEM);
	finish_worker(worker);
	_mm_setcsr(saved);
}

// Determines which blocks are started together: those of a cluster, if the kernel uses it.
static int prepare_clusters(struct ptx_run *run)
{
	const struct ptx_launch *launch = run->launch;
	uint64_t blocks = 1;

	for (int axis = 0; axis < 3; axis++) {
		bool is_used = run->function->info.uses_cluster && launch->cluster[axis];
		run->cluster[axis] = is_used ? launch->cluster[axis] : 1;
		blocks *= run->cluster[axis];
		if (blocks > PTX_CLUSTER_BLOCKS || launch->grid[axis] % run->cluster[axis])
			return -EINVAL;
	}
	run->cluster_blocks = (uint32_t)blocks;
	run->unit_count = run->block_count / blocks;
	return 0;
}

static int prepare_run(struct ptx_run *run, const struct ptx_launch *launch)
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
	if (prepare_clusters(run))
		return -EINVAL;
	run->shared_size = PTX_SHARED_FIRST + function->dynamic_shared_at + launch->dynamic_shared;
	stack = stack > 16 << 20 ? 16 << 20 : stack;
	run->local_bytes = (function->local_bytes + 15) & ~15u;
	if (function->callee_count || function->calls_indirectly || function->uses_alloca)
		run->local_bytes += function->static_stack + (uint32_t)stack;
	// An odd number of cache lines, so that the lanes use different cache sets.
	run->local_stride = ((run->local_bytes + 63ull) / 64 | 1) * 64;
	run->worker_count = launch->threads ? launch->threads : 1;
	if (run->worker_count > run->unit_count)
		run->worker_count = (uint32_t)run->unit_count;
	uint64_t per_sm = PTX_THREADS_PER_SM / threads;
	per_sm = per_sm < BLOCKS_PER_SM ? per_sm : BLOCKS_PER_SM;
	run->resident_limit = (uint32_t)((launch->sm_count ? launch->sm_count : 1) * per_sm / run->worker_count);
	run->deadlock_ns = (launch->deadlock_ms ? launch->deadlock_ms : 10000) * 1000000ull;
	run->grid_id = atomic_fetch_add(&grids, 1) + 1;
	return 0;
}

// Runs the first worker on the calling thread. After HELP_AFTER_NS, calls helpers for the other workers. Until then,
// these workers count as finished. A cooperative launch calls the helpers at once.
static int run_workers(struct ptx_run *run)
{
	uint32_t count = run->worker_count;

	run->workers = calloc(count, sizeof *run->workers);
	if (!run->workers)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		run->workers[i] = (struct ptx_worker){.run = run, .index = i, .next_cooperative = i};
	run->begun = 1;
	pthread_mutex_init(&run->print_lock, NULL);
	pthread_cond_init(&run->helped, NULL);
	run->start_ns = now_ns();
	atomic_store(&run->finished_workers, count - 1);
	run->has_called_helpers = count == 1;
	// A cooperative launch without enough helpers must fail, because some blocks would never start.
	if (run->launch->cooperative && count > 1 && !call_helpers(run))
		fail(run, -EAGAIN);
	ptx_worker_main(&run->workers[0]);
	ptx_helpers_dismiss(run, run->launch->cooperative);
	pthread_cond_destroy(&run->helped);
	pthread_mutex_destroy(&run->print_lock);
	return 0;
}

int ptx_run(const struct ptx_launch *launch, struct ptx_fault *ret_fault)
{
	size_t bytes = launch->function->info.parameter_bytes;
	struct ptx_run *run = calloc(1, sizeof *run);
	uint8_t *parameters = aligned_alloc(64, (bytes + 64) & ~(size_t)63);
	int r = -ENOMEM;

	if (!run || !parameters)
		goto out;
	r = prepare_run(run, launch);
	if (r)
		goto out;
	if (bytes)
		memcpy(parameters, launch->parameters, bytes);
	run->parameters = parameters;
	r = run_workers(run);
	if (r)
		goto out;
	r = atomic_load(&run->error);
	if (atomic_load(&run->has_fault)) {
		*ret_fault = run->fault;
		r = 1;
	}
	free(run->workers);
out:
	free(parameters);
	free(run);
	return r;
}
