// The running interpreter: decoded operations, warps, blocks, host threads.
// A ptx_worker and all it owns belong to one host thread; struct ptx_run is shared.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "sim/ptx/alu.h"
#include "sim/ptx/ptx.h"
#include "sim/ptx/source.h"

enum {
	PTX_TURN = 1 << 15, // a group's budget; a polling branch costs more
	PTX_SHARE = 1 << 10 // after this much of it, a warp with one group lets the block's other warps run
};
enum {
	PTX_LANES = 32,
	PTX_BARRIERS = 16,
	PTX_BARRIER_OF_CLUSTER, // a group's barrier; it has no place among the block's
	PTX_OPERANDS = 6
};
enum { PTX_CLUSTER_BLOCKS = 16, PTX_CLUSTER_SHIFT = 24 /* of addresses, see op_cluster.c */ };

// Generic addresses beyond what user space can map stand for the windows.
#define PTX_WINDOW_FIRST 0x0000800000000000ull
#define PTX_SHARED_WINDOW 0x0000800000000000ull
#define PTX_LOCAL_WINDOW 0x0000800100000000ull
#define PTX_PARAM_WINDOW 0x0000800200000000ull
#define PTX_FUNCTION_WINDOW 0x0000800300000000ull
#define PTX_WINDOW_END 0x0000800400000000ull

struct ptx_warp;
struct ptx_op;

// Runs for the lanes of warp->mask. Returns the next operation, or NULL after having left
// the warp's groups as the scheduler shall find them (or having set a fault).
typedef const struct ptx_op *ptx_op_fn(struct ptx_warp *warp, const struct ptx_op *op);

// A reference to a lane array: a byte offset in the frame, or with bit 0 set in the
// module's literals.
typedef uint32_t ptx_ref;
#define PTX_NO_REF ((ptx_ref)0) // offset 0 is the carry: never an operand

struct ptx_op {
	ptx_op_fn *run;
	union {
		ptx_alu_fn *alu;
		const struct ptx_op *target;
		const void *data;
		uint64_t value;
	};
	union {
		ptx_ref refs[PTX_OPERANDS];
		struct {
			ptx_ref d, e, a, b, c, f;
		};
	};
	uint32_t immediate;
	uint32_t guard; // offset of the predicate; 0: none; bit 0: negated
	uint32_t line;
};

struct ptx_access;
// What a load or store moves, beside its address (op->a) and offset (op->immediate).
typedef void ptx_move_fn(uint8_t *lanes, const struct ptx_access *access, unsigned offset, uint32_t mask);

struct ptx_access {
	uint8_t *base; // linear: lane i is at base + i * stride; NULL: each at host[i]
	ptrdiff_t stride;
	uint8_t *host[PTX_LANES];
};

typedef bool ptx_resolve_fn(struct ptx_warp *warp, const struct ptx_op *op, struct ptx_access *access);

struct ptx_memory_op {
	ptx_resolve_fn *resolve;
	ptx_move_fn *move;
	uint8_t bytes, count; // of an element, of elements
	uint8_t address_bits; // of the register
	bool write, is_poll;
	bool is_shared_state; // a store that other threads can see
	int64_t offset;
	uint64_t place;	 // of a parameter: offset in the frame or in the kernel's parameters
	uint32_t slot;	 // of a frame parameter: its stride
	ptx_ref refs[8]; // registers; PTX_NO_REF: sink
};

struct ptx_frame {
	struct ptx_frame *parent; // or the next in the free list
	const struct ptx_function *function;
	const struct ptx_op *return_to;
	const struct ptx_call *call; // how it was called: where results go
	uint32_t lanes;		     // that are inside
	uint32_t depth;
	uint32_t local_base, local_top; // offsets in the thread's local memory
	_Alignas(64) uint8_t registers[];
};

enum ptx_group_state { PTX_GROUP_READY, PTX_GROUP_SYNC, PTX_GROUP_BARRIER };

// Lanes at the same place of the same frame.
struct ptx_group {
	uint32_t mask;
	enum ptx_group_state state;
	const struct ptx_op *pc; // waiting: the operation that waits
	struct ptx_frame *frame;
	bool yielded, spinning;
	bool released;	    // may pass the warp barrier at pc
	bool polled;	    // looked at memory without changing it
	uint32_t budget;    // backward branches before it yields
	uint32_t wait_mask; // PTX_GROUP_SYNC: the lanes meant
	uint32_t barrier;   // PTX_GROUP_BARRIER: its number
};

struct ptx_warp {
	uint8_t *registers; // of the current frame
	const uint8_t *constants;
	uint32_t mask, active;
	struct ptx_frame *frame, *base_frame;
	const struct ptx_op *limit; // where another group waits, or all ones
	uint32_t live;		    // lanes that have not exited
	uint32_t index;		    // in the block
	uint32_t group_count, current;
	struct ptx_group groups[PTX_LANES];
	struct ptx_block *block;
	struct ptx_worker *worker;
	uint8_t *local;			// of lane 0
	uint32_t arrived[PTX_BARRIERS]; // lanes, at each barrier
	uint32_t cluster_arrived;	// lanes, at the cluster's
	uint32_t tid[3][PTX_LANES];
};

struct ptx_barrier {
	uint32_t expected; // threads, or 0: all of the block
	uint32_t lanes;	   // threads that arrived
	uint32_t count;	   // bar.red: how many said yes
};

// Blocks that run together, started by one worker. Each has its own if it meets nobody.
struct ptx_cluster {
	struct ptx_block *blocks[PTX_CLUSTER_BLOCKS]; // by rank
	uint32_t live;				      // threads
	uint32_t missing;			      // live ones that have not arrived at the barrier
};

struct ptx_block {
	struct ptx_block *next;
	struct ptx_cluster *cluster; // that of the block with rank 0; NULL: the kernel uses none
	struct ptx_cluster own_cluster;
	uint32_t rank;
	uint32_t id[3];
	uint64_t linear;
	uint32_t warp_count, thread_count, live;
	uint32_t barriers_in_use; // a bit for each where somebody arrived
	struct ptx_warp *warps;
	uint8_t *shared;
	uint8_t *local;
	struct ptx_barrier barriers[PTX_BARRIERS];
};

struct ptx_worker {
	struct ptx_run *run;
	uint64_t changes; // stores and atomics that changed memory
	bool ran;	  // something ran since it was cleared
	bool timed;	  // read a clock: the wait may have an end of its own
	bool host_polled; // used memory that the host can write
	uint64_t seen;	  // changes already told to the run
	bool is_spinning;
	uint64_t quiet_since_ns, quiet_changes;
	unsigned index;
	struct ptx_frame **free_frames; // by function index
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
	uint32_t shared_size; // of a block, with the reserved first KiB and the dynamic part
	uint32_t local_bytes; // per thread
	size_t local_stride;
	uint64_t block_count;
	uint32_t cluster[3], cluster_blocks; // blocks that are started together; 1: each for itself
	uint64_t unit_count;		     // clusters to start, or blocks
	uint32_t threads_per_block, warps_per_block;
	uint32_t resident_limit;
	uint32_t worker_count;
	struct ptx_worker *workers;
	bool called_helpers;
	// helper.c's, with its lock:
	struct ptx_run *next_open;
	uint32_t started, places, helping; // workers that have begun; that may still; threads that run one now
	pthread_cond_t helped;
	pthread_mutex_t print_lock;
	uint64_t start_ns, deadlock_ns;
	uint64_t grid_id;
	_Atomic uint64_t next_unit, changes;
	_Atomic uint32_t spinning_workers, finished_workers;
	_Atomic int stop;  // something ended the launch
	_Atomic int error; // negative errno
	_Atomic bool fault_taken;
	struct ptx_fault fault;
};

#define PTX_FOR_LANES(lane, mask)                                                                                      \
	for (uint32_t lane, left_ = (mask); left_ && (lane = (uint32_t)__builtin_ctz(left_), true); left_ &= left_ - 1)

static inline void *ptx_operand(const struct ptx_warp *warp, ptx_ref ref)
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

// In assembly: ThreadSanitizer does not know fences, and gcc says so. x86-64 keeps loads in
// order among themselves, and stores.
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

// launch.c: runs blocks until there are no more.
void ptx_worker_main(struct ptx_worker *worker);
// helper.c: lets up to `count` other threads run workers of the launch. Returns how many; fewer if threads are lacking.
uint32_t ptx_helpers_call(struct ptx_run *run, uint32_t count);
// Waits for those that help. `all_needed`: also for those that have not begun.
void ptx_helpers_dismiss(struct ptx_run *run, bool all_needed);
// A lane's address from a register of 32 or 64 bits, as a generic one.
static inline uint64_t ptx_lane_address(const struct ptx_warp *warp, ptx_ref ref, unsigned bits, unsigned lane,
					int64_t offset, bool shared)
{
	uint64_t address = bits == 64 ? ptx_operand64(warp, ref)[lane] : ptx_operand32(warp, ref)[lane];

	address += (uint64_t)offset;
	return shared ? PTX_SHARED_WINDOW + (uint32_t)address : address;
}

// fault.c. Ends the launch; the first fault wins. Returns NULL, for handlers.
__attribute__((format(printf, 6, 7))) const struct ptx_op *ptx_fault(struct ptx_warp *warp, const struct ptx_op *op,
								     unsigned lane, enum ptx_fault_kind kind,
								     uint64_t address, const char *format, ...);
void ptx_fault_deadlock(struct ptx_run *run, struct ptx_block *blocks, const char *what);

// engine.c
enum ptx_warp_result { PTX_WARP_YIELDED, PTX_WARP_WAITS, PTX_WARP_DONE, PTX_WARP_FAULT };
enum ptx_warp_result ptx_warp_run(struct ptx_warp *warp);
// The lanes of warp->mask take leave of the others of their group, which go on at `other`;
// they stay as the current group at `pc`.
void ptx_warp_split(struct ptx_warp *warp, const struct ptx_op *pc, const struct ptx_op *other);
// Ends the turn of the current group, all of warp->active, at `pc`.
const struct ptx_op *ptx_warp_leave(struct ptx_warp *warp, const struct ptx_op *pc);
void ptx_warp_retire(struct ptx_warp *warp, const struct ptx_op *next); // warp->mask ends, the rest goes on at next
struct ptx_frame *ptx_frame_take(struct ptx_worker *worker, const struct ptx_function *function);
void ptx_frame_release(struct ptx_worker *worker, struct ptx_frame *frame);

void ptx_warp_abandon(struct ptx_warp *warp); // gives its frames back after a fault

// op_warp.c. Lets the lanes of each lane's mask meet at `op`. True: the operation may run for warp->mask, and ends with
// ptx_warp_met(). False: the group waits, and comes again.
bool ptx_warp_meet(struct ptx_warp *warp, const struct ptx_op *op, const uint32_t *masks);
const struct ptx_op *ptx_warp_met(struct ptx_warp *warp, const struct ptx_op *op); // the next operation

// op_barrier.c
void ptx_barriers_check(struct ptx_block *block); // after threads exited

// op_async.c. False: a fault is set.
bool ptx_mbarrier_complete(struct ptx_warp *warp, const struct ptx_op *op, unsigned lane, uint64_t address,
			   uint32_t bytes);

// op_cluster.c
// The same place in the shared memory of the block with `rank`. An address of shared memory, generic or not.
uint64_t ptx_cluster_map(const struct ptx_warp *warp, uint64_t address, uint32_t rank);
void ptx_cluster_leave(struct ptx_warp *warp, uint32_t lanes); // that have exited
// Shared memory of a block of the cluster; NULL: an illegal address.
uint8_t *ptx_cluster_address(const struct ptx_warp *warp, uint64_t address, size_t length);

// memory.c: where a generic or device address is; NULL after having set a fault.
void *ptx_address(struct ptx_warp *warp, const struct ptx_op *op, unsigned lane, uint64_t address, size_t length,
		  bool write);
// The same without a fault: NULL.
void *ptx_address_try(struct ptx_warp *warp, unsigned lane, uint64_t address, size_t length, bool write);
// A generic address from one of a state space.
ptx_resolve_fn *ptx_resolver(enum ptx_space_kind space);
ptx_move_fn *ptx_load_mover(unsigned bytes, unsigned register_bits, bool is_signed);
ptx_move_fn *ptx_store_mover(unsigned bytes, unsigned register_bits);

// builtin.c: vprintf, malloc, free, __assertfail. NULL: no such function.
typedef const struct ptx_op *ptx_builtin_fn(struct ptx_warp *warp, const struct ptx_op *op);
ptx_builtin_fn *ptx_builtin_find(const char *name, uint32_t *ret_arguments);
// heap.c
uint64_t ptx_heap_take(struct ptx_heap *heap, uint64_t size);
bool ptx_heap_give(struct ptx_heap *heap, uint64_t address); // false: not ours
// printf.c
void ptx_print_text(struct ptx_run *run, const char *text, size_t length);
// The number of arguments, or -1, as CUDA's vprintf returns.
int ptx_print(struct ptx_warp *warp, unsigned lane, uint64_t format, uint64_t arguments);

// A decoded call: the argument lists, by the caller's storage.
struct ptx_argument {
	ptx_ref ref;	// registers and literals
	uint32_t place; // or the offset of a .param variable in the caller's frame
	uint32_t size;	// bytes a lane; 0: a predicate
	bool is_literal;
};
struct ptx_call {
	const struct ptx_function *function; // NULL: indirect, the address in `address`
	ptx_builtin_fn *builtin;
	ptx_ref address;
	uint32_t result_count, argument_count;
	const struct ptx_argument *results, *arguments;
};

extern ptx_op_fn ptx_op_alu, ptx_op_exit, ptx_op_return, ptx_op_call, ptx_op_refused, ptx_op_branch, ptx_op_branch_back,
	ptx_op_branch_table, ptx_op_special, ptx_op_load, ptx_op_store, ptx_op_end;
