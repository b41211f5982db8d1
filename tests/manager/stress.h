// Runs one thread of the stress test, which makes random calls and checks that each result is allowed.
#pragma once
#include "work_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

enum { VGPUS = 64, AT_EACH = 8, THREADS = VGPUS * AT_EACH, BLOCKS = 4 };

struct stress {
	struct vg_manager *manager;
	uint64_t limit, seed;
	atomic_bool stop, done;
	_Atomic uint64_t closed;
	pthread_mutex_t failing;
	char failure[500];
	struct worker {
		struct stress *stress;
		int id;
		unsigned stream;
		uint64_t random;
		// The thread's own handle of a virtual GPU. If the handle is NULL, the thread's next call finds or
		// creates a virtual GPU.
		struct vg_virtual_gpu *vgpu;
		struct block {
			vg_address address; // 0: no block
			size_t size;
			unsigned char value; // value of all bytes of the block
		} blocks[BLOCKS];
		struct vg_movable_block *movable;
		const char *volatile at;
		_Atomic uint64_t calls;
		atomic_bool ended;
	} workers[THREADS];
};

static void *stress_work(void *data);
// Makes one random call. `what` selects the kind of call.
static void stress_call(struct worker *worker, unsigned what);
// Frees the worker's blocks, if the virtual GPU still exists.
static void stress_free_blocks(struct worker *worker);

// ---- answers --------------------------------------------------------------------------------------------------

static inline uint64_t next(struct worker *worker)
{
	uint64_t x = worker->random += 0x9e3779b97f4a7c15u; // this is the random number generator splitmix

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

__attribute__((format(printf, 2, 3))) static inline void complain(struct worker *worker, const char *format, ...)
{
	struct stress *stress = worker->stress;
	va_list arguments;

	pthread_mutex_lock(&stress->failing);
	if (!*stress->failure) {
		va_start(arguments, format);
		vsnprintf(stress->failure, sizeof stress->failure, format, arguments);
		va_end(arguments);
	}
	pthread_mutex_unlock(&stress->failing);
	atomic_store(&stress->stop, true);
}

// Drops all handles of the worker after another thread has closed the virtual GPU. Closing has freed the worker's
// blocks.
static inline void forget(struct worker *worker)
{
	memset(worker->blocks, 0, sizeof worker->blocks);
	vg_movable_block_destroy(worker->movable);
	worker->movable = NULL;
	vg_virtual_gpu_destroy(worker->vgpu);
	worker->vgpu = NULL;
}

// Checks the status of a call, which may be VG_OK, VG_CLOSED or one of the listed statuses. Returns true for VG_OK.
#define MAY(worker, call, ...)                                                    \
	({                                                                        \
		const enum vg_status may_[] = {VG_OK, VG_CLOSED, ##__VA_ARGS__};  \
		(worker)->at = #call;                                             \
		enum vg_status said_ = (call);                                    \
		answered(worker, #call, said_, may_, sizeof may_ / sizeof *may_); \
	})

static inline bool answered(struct worker *worker, const char *call, enum vg_status said, const enum vg_status *may,
			    size_t count)
{
	atomic_fetch_add(&worker->calls, 1);
	if (said == VG_OK)
		return true;
	for (size_t i = 1; i < count; i++) {
		if (said != may[i])
			continue;
		if (said == VG_CLOSED)
			forget(worker);
		return false;
	}
	complain(worker, "%s: %s: %s", call, vg_status_text(said), vg_last_error()->text);
	return false;
}

// ---- a virtual GPU, and blocks ------------------------------------------------------------------------------------

static inline bool ensure_vgpu(struct worker *worker)
{
	struct stress *stress = worker->stress;
	const struct vg_virtual_gpu_options options = {.size = sizeof options,
						       .id = worker->id,
						       .memory_limit = stress->limit,
						       .streams = AT_EACH,
						       .compute_share = 1.0 / VGPUS};

	if (worker->vgpu)
		return true;
	if (vg_manager_find(stress->manager, worker->id, &worker->vgpu) == VG_OK)
		return true;
	// VG_EXISTS and VG_LIMIT are allowed: another thread may create the virtual GPU first, and one that is being
	// closed still occupies its id.
	MAY(worker, vg_virtual_gpu_create(stress->manager, &options, &worker->vgpu), VG_EXISTS, VG_LIMIT);
	return worker->vgpu != NULL;
}

static inline struct block *pick_block(struct worker *worker)
{
	struct block *block = &worker->blocks[next(worker) % BLOCKS];

	return block->address ? block : NULL;
}

static inline void call_allocate(struct worker *worker)
{
	static const size_t sizes[] = {64, 4096, 60000, 300 << 10, 3 << 20};
	struct block *block = &worker->blocks[next(worker) % BLOCKS];
	size_t size = sizes[next(worker) % 5];

	if (block->address)
		return;
	if (!MAY(worker, vg_virtual_gpu_allocate(worker->vgpu, size, 0, &block->address), VG_INSUFFICIENT))
		return;
	*block = (struct block){block->address, size, (unsigned char)next(worker)};
	if (!MAY(worker, vg_virtual_gpu_set(worker->vgpu, block->address, block->value, size)))
		return;
}

static inline void call_free(struct worker *worker)
{
	struct block *block = pick_block(worker);

	if (block && MAY(worker, vg_virtual_gpu_free(worker->vgpu, block->address)))
		block->address = 0;
}

// Reads a block. No other thread uses the block, so it must have the bytes that this thread wrote.
static inline void call_read(struct worker *worker)
{
	unsigned char bytes[256];
	const struct block *block = pick_block(worker);

	if (!block)
		return;
	size_t size = block->size < sizeof bytes ? block->size : sizeof bytes;
	size_t from = next(worker) % (block->size - size + 1);
	unsigned char value = block->value;
	if (!MAY(worker, vg_virtual_gpu_read(worker->vgpu, bytes, block->address + from, size)))
		return;
	for (size_t i = 0; i < size; i++)
		if (bytes[i] != value)
			complain(worker, "byte %zu of a block of virtual GPU %d is %#x, not %#x", from + i, worker->id,
				 bytes[i], value);
}

static inline void call_write(struct worker *worker)
{
	unsigned char bytes[256];
	const struct block *block = pick_block(worker);

	if (!block)
		return;
	memset(bytes, block->value, sizeof bytes);
	MAY(worker, vg_virtual_gpu_write(worker->vgpu, block->address, bytes,
					 block->size < sizeof bytes ? block->size : sizeof bytes));
}

static inline void call_copy(struct worker *worker)
{
	struct block *to = pick_block(worker), *from = pick_block(worker);

	if (!to || !from || to == from)
		return;
	if (from->size < to->size)
		return;
	if (next(worker) % 2 ? MAY(worker, vg_virtual_gpu_copy(worker->vgpu, to->address, from->address, to->size))
			     : MAY(worker, vg_virtual_gpu_copy_peer(worker->vgpu, to->address, worker->vgpu,
								    from->address, to->size)))
		to->value = from->value;
}

#include "stress_calls.h"
