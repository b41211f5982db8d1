// Declares the execution of kernels: warps, blocks, launches. A launch is a ptx_run. Several host threads may run it,
// and each has a ptx_worker that only this thread uses.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "sim/ptx/op.h"

enum {
	// After this many backward branches, a group of lanes lets other groups run. A branch of a loop that only polls
	// counts more.
	PTX_BUDGET = 1 << 15,
	// after this many backward branches, a warp whose lanes are in one group lets other warps run
	PTX_SLICE = 1 << 10
};
enum { PTX_BARRIERS = 16, PTX_CLUSTER_BARRIER /* number of the cluster's barrier; a block has 0 to 15 */ };
enum { PTX_CLUSTER_BLOCKS = 16, PTX_CLUSTER_SHIFT = 24 /* of a shared address, bits from here on select the block */ };
enum { PTX_THREADS_PER_SM = 2048 };

// Ranges of generic addresses for the other state spaces, called windows. They are above all addresses of the host.
#define PTX_WINDOW_FIRST 0x0000800000000000ull
#define PTX_SHARED_WINDOW 0x0000800000000000ull
#define PTX_LOCAL_WINDOW 0x0000800100000000ull
#define PTX_PARAM_WINDOW 0x0000800200000000ull
#define PTX_FUNCTION_WINDOW 0x0000800300000000ull
#define PTX_WINDOW_END 0x0000800400000000ull

// The registers of one call, for the lanes that are inside it.
struct ptx_frame {
	struct ptx_frame *parent; // frame of the caller; in a list of free frames, the next one
	const struct ptx_function *function;
	const struct ptx_op *return_to;
	const struct ptx_call *call; // the call that the frame is for; it says where the results go
	uint32_t lanes;		     // lanes that are inside the call
	uint32_t depth;
	uint32_t local_base, local_top; // range of the thread's local memory that the call uses
	_Alignas(64) uint8_t registers[];
};

enum ptx_group_state { PTX_GROUP_READY, PTX_GROUP_SYNC, PTX_GROUP_BARRIER };

// Lanes of a warp that have the same next operation in the same frame. They run together.
struct ptx_group {
	uint32_t mask;
	enum ptx_group_state state;
	const struct ptx_op *pc; // the next operation; if the group waits, the operation that waits
	struct ptx_frame *frame;
	bool yielded, spinning;
	bool released;	    // the lanes that the group waited for at pc have arrived
	bool polled;	    // the group has read memory without changing it
	uint32_t budget;    // backward branches that are left before the group yields
	uint32_t wait_mask; // in the state PTX_GROUP_SYNC: the lanes for which the group waits
	uint32_t barrier;   // in the state PTX_GROUP_BARRIER: number of the barrier
};

struct ptx_warp {
	uint8_t *registers; // registers of the current frame
	const uint8_t *constants;
	uint32_t mask, active;
	struct ptx_frame *frame, *base_frame;
	const struct ptx_op *limit; // the current group stops here to let another one run; all bits set: nowhere
	uint32_t live;		    // lanes that have not exited
	uint32_t index;		    // number of the warp in the block
	uint32_t group_count, current;
	struct ptx_group groups[PTX_LANES];
	struct ptx_block *block;
	struct ptx_worker *worker;
	uint8_t *local;			// local memory of lane 0
	uint32_t arrived[PTX_BARRIERS]; // lanes that have arrived at each barrier
	uint32_t cluster_arrived;	// lanes that have arrived at the cluster's barrier
	uint32_t tid[3][PTX_LANES];
};

struct ptx_barrier {
	uint32_t expected; // this many threads must arrive; 0: all threads of the block
	uint32_t lanes;	   // number of threads that have arrived
	uint32_t count;	   // for bar.red: how many threads have arrived with a true predicate
};

// Blocks of a cluster, which one worker starts together.
struct ptx_cluster {
	struct ptx_block *blocks[PTX_CLUSTER_BLOCKS]; // by rank
	uint32_t live;				      // threads
	uint32_t missing;			      // live threads that have not arrived at the cluster's barrier
};

struct ptx_block {
	struct ptx_block *next;
	// points to `own_cluster` of the block with rank 0; NULL: the kernel uses no clusters
	struct ptx_cluster *cluster;
	struct ptx_cluster own_cluster;
	uint32_t rank;
	uint32_t id[3];
	uint64_t linear;
	uint32_t warp_count, thread_count, live;
	uint32_t barriers_in_use; // a bit for each barrier at which threads have arrived
	struct ptx_warp *warps;
	uint8_t *shared;
	uint8_t *local;
	struct ptx_barrier barriers[PTX_BARRIERS];
};

struct ptx_worker {
	struct ptx_run *run;
	uint64_t changes;	   // number of stores and atomics that changed memory
	bool has_run;		   // a group has run since this was cleared
	bool has_read_clock;	   // the kernel has read a clock, so a polling loop of it may have a timeout
	bool has_used_host_memory; // the kernel has used memory that the program's threads may change
	uint64_t counted_changes;  // how many of `changes` were added to run->changes
	bool is_spinning;
	// The latest value of run->changes is quiet_changes. This worker first saw it at quiet_since_ns.
	uint64_t quiet_since_ns, quiet_changes;
	unsigned index;
	struct ptx_frame **free_frames; // lists of free frames, by the index of the function
	struct ptx_block *resident, *idle;
	uint32_t resident_count;
	uint64_t next_cooperative;
};

struct ptx_run {
	const struct ptx_launch *launch;
	const struct ptx_function *function;
	const struct ptx_module *module;
	struct ptx_space space;
	const uint8_t *parameters;
	uint32_t shared_size; // shared memory of a block, including the reserved first KiB and the dynamic part
	uint32_t local_bytes; // per thread
	size_t local_stride;
	uint64_t block_count;
	// The blocks that are started together (a unit): their number along each axis of the grid, and in all.
	uint32_t cluster[3], cluster_blocks;
	uint64_t unit_count; // number of units in the grid
	uint32_t threads_per_block, warps_per_block;
	uint32_t resident_limit;
	uint32_t worker_count;
	struct ptx_worker *workers;
	bool has_called_helpers;
	// The following members belong to helper.c, and are guarded by its lock.
	struct ptx_run *next_open;
	uint32_t begun, vacant; // how many workers have begun, and how many more helpers may begin
	uint32_t helping;	// how many helpers run a worker now
	pthread_cond_t helped;
	pthread_mutex_t print_lock;
	uint64_t start_ns, deadlock_ns;
	uint64_t grid_id;
	_Atomic uint64_t next_unit, changes;
	_Atomic uint32_t spinning_workers, finished_workers;
	_Atomic int stop;	// the launch must end, after a fault or an error
	_Atomic int error;	// negative errno
	_Atomic bool has_fault; // the thread that sets this writes `fault`; no other thread does
	struct ptx_fault fault;
};

#define PTX_FOR_LANES(lane, mask) \
	for (uint32_t lane, left_ = (mask); left_ && (lane = (uint32_t)__builtin_ctz(left_), true); left_ &= left_ - 1)

// Always inlined, so that the thread sanitizer does not check it inside a function that the sanitizer must ignore.
__attribute__((always_inline)) static inline void *ptx_operand(const struct ptx_warp *warp, ptx_ref ref)
{
	return (uint8_t *)(ref & 1 ? warp->constants : warp->registers) + (ref & ~1u);
}
static inline uint32_t *ptx_operand32(const struct ptx_warp *warp, ptx_ref ref)
{
	return ptx_operand(warp, ref);
}
static inline uint64_t *ptx_operand64(const struct ptx_warp *warp, ptx_ref ref)
{
	return ptx_operand(warp, ref);
}

// Returns the first lane of the mask. If several lanes fault, this one is reported.
static inline unsigned ptx_first_lane(uint32_t mask)
{
	return (unsigned)__builtin_ctz(mask);
}

// Stores a predicate in a register, for the lanes of warp->mask. `value` has a bit for each lane.
static inline void ptx_set_predicate(const struct ptx_warp *warp, ptx_ref ref, uint32_t value)
{
	uint32_t *predicate = ptx_operand32(warp, ref);

	*predicate = (*predicate & ~warp->mask) | value;
}

// Returns the generic address of a lane's operand.
static inline uint64_t ptx_lane_address(const struct ptx_warp *warp, const struct ptx_address *address, unsigned lane)
{
	uint64_t value =
		address->bits == 64 ? ptx_operand64(warp, address->ref)[lane] : ptx_operand32(warp, address->ref)[lane];

	value += (uint64_t)address->offset;
	return address->is_shared ? PTX_SHARED_WINDOW + (uint32_t)value : value;
}

static inline uint8_t *ptx_access_at(const struct ptx_access *access, unsigned lane)
{
	return access->base ? access->base + (ptrdiff_t)lane * access->stride : access->host[lane];
}

// These fences are assembly: ThreadSanitizer does not support C's fences, and gcc warns about them. A fence of the
// compiler is often enough, because x86-64 keeps loads in order, and stores in order.
static inline void ptx_fence(void)
{
	__asm__ volatile("mfence" ::: "memory");
}
static inline void ptx_compiler_fence(void)
{
	__asm__ volatile("" ::: "memory");
}

static inline struct ptx_group *ptx_group(struct ptx_warp *warp)
{
	return &warp->groups[warp->current];
}

// The following function is in launch.c. It runs blocks until there are no more.
void ptx_worker_main(struct ptx_worker *worker);

// block.c
// Starts unit number `unit` of the grid: a cluster whose blocks use each other, or one block. Returns 0 or -ENOMEM.
int ptx_unit_start(struct ptx_worker *worker, uint64_t unit);
// Removes the finished block at *at from the list of resident blocks.
void ptx_block_finish(struct ptx_worker *worker, struct ptx_block **at);
// Removes all blocks of a finished cluster.
void ptx_cluster_finish(struct ptx_worker *worker, const struct ptx_cluster *cluster);
// Frees the worker's blocks and frames, also after a fault.
void ptx_blocks_destroy(struct ptx_worker *worker);

// helper.c
// Lets up to `count` other threads run workers of the launch. Returns how many will do so. These are fewer than `count`
// if no more threads can be created.
uint32_t ptx_helpers_call(struct ptx_run *run, uint32_t count);
// Waits for the helpers of the launch. With `all_needed`, also waits for helpers that have not begun yet.
void ptx_helpers_dismiss(struct ptx_run *run, bool all_needed);

// fault.c
// Ends the launch with a fault. Only the first fault of a launch is reported. Returns NULL, which the operation then
// returns.
__attribute__((format(printf, 6, 7))) const struct ptx_op *ptx_fault(struct ptx_warp *warp, const struct ptx_op *op,
								     unsigned lane, enum ptx_fault_kind kind,
								     uint64_t address, const char *format, ...);
void ptx_fault_deadlock(struct ptx_run *run, struct ptx_block *blocks, const char *reason);

// engine.c
enum ptx_warp_result { PTX_WARP_YIELDED, PTX_WARP_WAITS, PTX_WARP_DONE, PTX_WARP_FAULT };
enum ptx_warp_result ptx_warp_run(struct ptx_warp *warp);
// Splits the current group. The lanes of warp->mask stay in it and continue at `pc`. The other lanes become a new group
// that continues at `other`.
void ptx_warp_split(struct ptx_warp *warp, const struct ptx_op *pc, const struct ptx_op *other);
// Makes the current group, all lanes of warp->active, continue at `pc` when it runs again. Returns NULL, which the
// operation then returns to the scheduler.
const struct ptx_op *ptx_warp_leave(struct ptx_warp *warp, const struct ptx_op *pc);
// Ends the threads of the lanes of warp->mask. The rest of the group continues at `next`.
void ptx_warp_retire(struct ptx_warp *warp, const struct ptx_op *next);
// Releases the frames of a warp that has not ended, after a fault.
void ptx_warp_abandon(struct ptx_warp *warp);
// Returns an unused frame, zeroed only when it is new. NULL: out of memory.
struct ptx_frame *ptx_frame_create(struct ptx_worker *worker, const struct ptx_function *function);
void ptx_frame_release(struct ptx_worker *worker, struct ptx_frame *frame);

// op_warp.c
// Makes lanes of a warp wait for each other at `op`. masks[lane] has the lanes for which a lane waits. True: the
// operation may run for warp->mask, and must end with ptx_warp_continue(). False: the group waits, and repeats the
// operation later.
bool ptx_warp_meet(struct ptx_warp *warp, const struct ptx_op *op, const uint32_t *masks);
// Ends a warp operation: returns the next operation, or NULL so that groups can merge.
const struct ptx_op *ptx_warp_continue(struct ptx_warp *warp, const struct ptx_op *op);

// The following function is in op_barrier.c. Call it after threads have exited: it completes barriers at which only
// these threads were missing.
void ptx_barriers_check(struct ptx_block *block);

// The following function is in op_mbarrier.c. It subtracts the bytes of an asynchronous copy from what the mbarrier at
// `address` expects. Returns false after a fault.
bool ptx_mbarrier_complete(struct ptx_warp *warp, const struct ptx_op *op, unsigned lane, uint64_t address,
			   uint32_t bytes);

// op_cluster.c
// Maps an address of shared memory, generic or not, to the same offset in the block with `rank`.
uint64_t ptx_cluster_map(const struct ptx_warp *warp, uint64_t address, uint32_t rank);
// Makes the cluster's barrier ignore lanes that have exited.
void ptx_cluster_leave(struct ptx_warp *warp, uint32_t lanes);
// Translates an address in the shared memory of any block of the cluster to a host address. NULL: the address is
// illegal.
uint8_t *ptx_cluster_address(const struct ptx_warp *warp, uint64_t address, size_t length);

// memory.c
// Translates a generic address to a host address. NULL after a fault.
void *ptx_address(struct ptx_warp *warp, const struct ptx_op *op, unsigned lane, uint64_t address, size_t length,
		  bool write);
// Translates a generic address to a host address. Does not check the alignment and sets no fault. NULL: the address is
// illegal.
void *ptx_address_try(struct ptx_warp *warp, unsigned lane, uint64_t address, size_t length, bool write);
// Copies a terminated string, at most `capacity` bytes of it. Stops at an illegal address. Returns the length of the
// copy.
size_t ptx_copy_string(struct ptx_warp *warp, unsigned lane, uint64_t address, char *text, size_t capacity);

// heap.c
uint64_t ptx_heap_allocate(struct ptx_heap *heap, uint64_t size); // Returns the address; 0: out of memory
bool ptx_heap_free(struct ptx_heap *heap, uint64_t address);	  // Returns false if nothing is allocated there

// printf.c
void ptx_print_text(struct ptx_run *run, const char *text, size_t length);
// Prints what a kernel prints by calling vprintf. Returns the number of arguments, or -1, as CUDA's vprintf does.
int ptx_print(struct ptx_warp *warp, unsigned lane, uint64_t format, uint64_t arguments);
