// The simulated driver from inside: devices, contexts, streams, operations, memory.
// Any thread may call anything here unless a comment says otherwise.
//
// Lock order (outermost first): sim_memory_lock, context->lock, event->lock, the region's
// mutex. No lock is held while an operation runs or while anybody waits for one.
#pragma once

#pragma GCC visibility push(default)
#include "abi/cuda_abi.h"
#pragma GCC visibility pop

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "config.h"
#include "ptx/ptx.h"
#include "region.h"
#include "region_time.h"

struct sim_array;
struct sim_context;
struct sim_event;
struct sim_host;
struct sim_pool;
struct sim_range;
struct sim_stream;

#define SIM_MIB ((size_t)1 << 20)
#define SIM_GRANULE (2 * SIM_MIB) // the unit of mapping and of permissions
#define SIM_GRANULE_SHIFT 21

static inline size_t sim_round_up(size_t value, size_t unit) // 0 when it overflows
{
	return value > SIZE_MAX - unit ? 0 : (value + unit - 1) / unit * unit;
}

// ---- the process (process.c) --------------------------------------------------------

struct sim_device {
	int ordinal;	// what the program sees (CUDA_VISIBLE_DEVICES applied)
	int physical;	// index in the region
	CUuuid uuid;
	char pci[16];	// "0000:01:00.0"
	// One permission per granule of the window: 1 read, 2 write.
	uint8_t *permission;
	struct ptx_space space;
	_Atomic int lost; // a CUresult: every call on the device answers it
	_Atomic bool joined; // a client of MPS has had a context on it
	_Atomic uint64_t failure_seen; // of the device's clients of MPS: region_time_failure()
	// Before `lock`: the primary context is made and ended by one thread at a time. Its handle never changes, and a
	// thread that retains it must not revive what another one is still ending.
	pthread_mutex_t primary_lock;
	pthread_mutex_t lock; // primary context, default pool, green contexts
	struct sim_context *primary;
	unsigned primary_retains, primary_flags; // no retains: `primary` is only a handle
	struct sim_pool *default_pool, *current_pool;
};

struct sim_process {
	struct sim_config config;
	struct region *region; // what is shared with the node's other processes
	struct sim_device devices[SIM_DEVICES];
	int device_count;
	unsigned sms; // multiprocessors of a device that this process may use
	_Atomic int fault; // a CUresult: what ended a context ended all of them, on every device, for good
	// Device addresses: [window, window + window_size), PROT_NONE. The bytes of an address
	// are at address + window_offset.
	CUdeviceptr window;
	size_t window_size;
	intptr_t window_offset;
};
extern struct sim_process sim_process;

// The sticky error that every context answers, and the attempt to make one; or success.
static inline CUresult sim_failure(void)
{
	return (CUresult)atomic_load_explicit(&sim_process.fault, memory_order_acquire);
}

// Why a call may not go straight through. Tested once per driver call.
enum sim_gate {
	SIM_GATE_UNINITIALIZED = 1, // before cuInit, and in a forked child for ever
	SIM_GATE_FAULTS = 2,	    // VIRGATE_SIM_FAULT names entries (fault.c)
	SIM_GATE_LOCKED = 4,	    // another process has locked this one (checkpoint.c)
	SIM_GATE_MPS = 8,	    // a fault of another client of MPS may end this one (mps.c)
	SIM_GATE_COSTS = 16,	    // VIRGATE_SIM_COST names calls (cost.c)
	SIM_GATE_CALLBACK = 0x100,  // counts the host functions that run: they may not call the driver
};
extern _Atomic unsigned sim_gate;
void sim_gate_set(unsigned bits);
void sim_gate_clear(unsigned bits);

extern _Thread_local bool sim_in_callback;
CUresult sim_enter_slow(enum vg_entry entry);
static inline CUresult sim_enter(enum vg_entry entry)
{
	if (__builtin_expect(atomic_load_explicit(&sim_gate, memory_order_acquire) == 0, 1))
		return CUDA_SUCCESS;
	return sim_enter_slow(entry);
}
#define SIM_GREEN_BYTES ((size_t)4 << 20) // of each green context, until the primary context goes (H200)
#define SIM_TRY(expression)                                                                        \
	do {                                                                                       \
		CUresult try_ = (expression);                                                      \
		if (try_ != CUDA_SUCCESS)                                                          \
			return try_;                                                               \
	} while (0)
// First line of every driver entry.
#define SIM_ENTER(abi) SIM_TRY(sim_enter(VG_ENTRY_##abi))
// The stream of a _ptsz/_ptds entry.
#define SIM_PTSZ(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)

// Implemented by simexec's files; hooks.c has weak definitions that do nothing.
CUresult sim_fault_enter(enum vg_entry entry);	   // SIM_GATE_FAULTS is set
CUresult sim_checkpoint_enter(enum vg_entry entry); // SIM_GATE_LOCKED is set: waits, or lets through
CUresult
sim_fault_start(void); // end of cuInit, before the gate opens: reads VIRGATE_SIM_FAULT; cuInit answers its result
void sim_service_start(void);	   // likewise: the service thread
uint64_t sim_fault_memory(void);   // bytes a device shows at most; UINT64_MAX
void sim_fault_delay(struct sim_device *device); // slow device: before each operation
void sim_exec_context_finish(struct sim_context *context); // modules, heaps, kernels of a dying context
CUresult sim_exec_context_limit(struct sim_context *context, CUlimit limit, size_t value); // heap, printf
// Frees memory that a graph's launch allocated, by its address (cuMemFree, cuMemFreeAsync).
// CUDA_ERROR_INVALID_VALUE: no such memory lives.
CUresult sim_graph_memory_give(CUdeviceptr address);
bool sim_graph_memory_live(CUdeviceptr address); // a launch has allocated it, and nobody freed it since
// The host has waited for work of the context (stream, event, context, synchronous copy): printf's output appears.
void sim_exec_synchronized(struct sim_context *context);

uint64_t sim_clock_ns(void); // CLOCK_MONOTONIC
uint64_t sim_device_clock_ns(void); // the devices' time, which is the same in all processes
void sim_uuid_text(const CUuuid *uuid, char ret_text[48]); // "GPU-…"
CUresult sim_device_get(CUdevice device, struct sim_device **ret_device);

// One sentence on stderr, prefixed "virgate sim: ".
__attribute__((format(printf, 1, 2))) void sim_say(const char *format, ...);
// What the region answered is that the node's directory is full: says so, once in the process.
bool sim_no_space(int status, size_t bytes);
// One sentence in the driver's log of errors (log.c). Not under the memory lock: callbacks run.
__attribute__((format(printf, 1, 2))) void sim_log(const char *format, ...);
const char *sim_error_name(CUresult error);

// ---- contexts (context.c) -----------------------------------------------------------

enum { SIM_CONTEXT_MAGIC = 0x43545832, SIM_STREAM_MAGIC = 0x53545232, SIM_EVENT_MAGIC = 0x45564e32 };

// What sim_context.cancel says. Work stops at either.
enum {
	SIM_CANCEL_WORK = 1,  // the process has failed: what is ordered behind stopped work still waits for its end
	SIM_CANCEL_WAITS = 2, // the context is going: nothing waits any more
};

struct sim_context {
	_Atomic uint32_t magic; // 0 once destroyed; the memory stays a context's for ever
	uint32_t was_context; // tells a destroyed context from garbage
	unsigned long long id;
	struct sim_device *device;
	atomic_int cancel; // 0, or one of the above: running operations stop
	unsigned flags, api_version;
	bool primary;
	struct sim_green *green;     // made by cuCtxFromGreenCtx
	struct sim_context *parent;  // whose memory and modules it shares: the primary of a green context, else itself
	unsigned sms;		     // what kernels may use
	size_t limits[CU_LIMIT_MAX];
	CUfunc_cache cache_config;
	CUsharedconfig shared_config;
	unsigned attached; // cuCtxAttach
	struct sim_physical *overhead, *stack; // device memory taken without asking
	struct sim_physical **green_kept; // likewise, of green contexts that it holds or held
	size_t green_count;
	size_t local; // bytes a thread that kernels made it hold

	pthread_mutex_t lock; // streams, their queues
	struct sim_stream *streams; // all of the context's, the legacy one too
	struct sim_stream *legacy;
	_Atomic(struct sim_stream *) recorder; // cuCtxRecordEvent's; NULL before the first
	struct sim_context_wait *waits; // context_event.c's
	int captures; // blocking streams that capture (kept by capture.c, under lock)
	unsigned crowd; // threads that wait for room in a queue, under lock
	pthread_cond_t uncrowded; // no thread does any more

	struct sim_block *blocks; // granules that small allocations share (block.c)
	uint32_t peers; // bit per device ordinal: peer access enabled
	void *_Atomic exec; // simexec's: loaded modules, device heap; made while other threads look for it
	struct sim_context *next; // of all contexts, under sim_contexts_lock
	_Atomic(struct sim_context *) views; // made from its green contexts; ended ones stay
	struct sim_context *next_view;
};

// A green context of this one takes device memory, for as long as this one lives. CUDA_ERROR_OUT_OF_MEMORY.
CUresult sim_context_take_green(struct sim_context *context);
static inline CUcontext sim_context_handle(struct sim_context *context) { return (CUcontext)context; }
// NULL, or a context that has been destroyed: CUDA_ERROR_INVALID_CONTEXT / CONTEXT_IS_DESTROYED.
CUresult sim_context_get(CUcontext handle, struct sim_context **ret_context);
// The calling thread's current context; the sticky error, if there is one.
CUresult sim_context_current(struct sim_context **ret_context);
// Likewise, whatever the sticky error.
CUresult sim_context_current_any(struct sim_context **ret_context);
// Sets the sticky error, unless there is one already, and stops what runs on every device. Returns
// the error that stands.
CUresult sim_context_fail(const struct sim_context *context, CUresult error);
// Likewise, because another client of MPS on the device has failed.
void sim_context_fail_with_others(const struct sim_device *device, CUresult error);
// Waits until all streams of the context are idle, also those of its green contexts (context_event.c). The sticky
// error, or success.
CUresult sim_context_synchronize(struct sim_context *context);
// A kernel is about to run whose threads need so much local memory. CUDA_ERROR_OUT_OF_MEMORY.
CUresult sim_context_local(struct sim_context *context, size_t bytes);
// Calls `each` for every live context; not reentrant.
void sim_contexts_each(void (*each)(struct sim_context *context, void *data), void *data);

// ---- marks: a point in time that can be waited for (mark.c) ---------------------------

struct sim_mark {
	_Atomic int references;
	_Atomic uint32_t done; // futex
	_Atomic uint64_t time_ns; // the devices' time when it was reached
	struct region_event *event; // of an interprocess event, or NULL
	uint32_t event_value;	    // the count of records it stands for
	bool foreign;		    // recorded by another process
};
struct sim_mark *sim_mark_new(void);
struct sim_mark *sim_mark_ref(struct sim_mark *mark); // NULL passes
void sim_mark_unref(struct sim_mark *mark);
void sim_mark_finish(struct sim_mark *mark);
void sim_mark_finish_at(struct sim_mark *mark, uint64_t time_ns);
bool sim_mark_is_done(const struct sim_mark *mark);
// `cancel` (a context's; may be NULL) ends the wait early at SIM_CANCEL_WAITS; one for another process's work at
// SIM_CANCEL_WORK, too.
void sim_mark_wait(const struct sim_mark *mark, const atomic_int *cancel);

// ---- operations and streams (op.c, stream.c) ------------------------------------------

struct sim_op;
struct sim_time_cursor;

// What an asynchronous operation is. Each class embeds struct sim_op first in its own
// struct, so that an operation can be cloned (graph nodes are operations kept as templates).
struct sim_op_class {
	const char *name;
	size_t size;
	// Runs it to the end on the calling thread: the stream's worker, or a graph's.
	// A result other than success becomes the context's sticky error.
	CUresult (*run)(struct sim_op *op);
	// After a plain copy of the struct: duplicates or references what it owns. May be NULL.
	CUresult (*clone)(struct sim_op *op);
	// Frees what it owns. May be NULL.
	void (*finish)(struct sim_op *op);
	// Its pieces of work on a device that shares its time (op_time.h): fills at most `capacity` and returns their
	// number. NULL: none, unless it waits for something.
	unsigned (*pieces)(const struct sim_op *op, struct region_piece *ret_pieces, unsigned capacity);
	bool runs_pieces; // `run` waits for the pieces itself
};

struct sim_op {
	const struct sim_op_class *class;
	struct sim_op *next;	     // in the stream's queue
	struct sim_stream *stream;   // NULL until submitted
	struct sim_context *context; // whose memory it acts on
	struct sim_mark *mark;	     // finished when the operation is
	struct sim_mark **waits;     // marks that must be done before it runs
	unsigned wait_count, wait_capacity;
	bool instant; // takes no time: may run on the submitting thread when the stream is idle
	bool always;  // runs even when the context has failed (host clean-up)
	bool finished; // its class's finish has been called
	// On a device that shares its time:
	bool performed;		  // what it does to memory is done
	unsigned pieces;	  // of work, in the stream's channel
	struct sim_op_time *time; // once it is submitted
};

// Times of an operation on a device that shares its time.
struct sim_op_time {
	uint64_t first;	       // sequence of its first piece of work in the stream's channel
	uint64_t submitted_ns;
	uint64_t ready_ns;     // when the last operation that it waited for ended; 0: it waited for nothing
	uint64_t ended_ns;     // 0: not yet
};

// `pieces` of what the host does for a stream, or a stream waits for.
unsigned sim_time_host_piece(const struct sim_op *op, struct region_piece *ret_pieces, unsigned capacity);

struct sim_op *sim_op_new(const struct sim_op_class *class, struct sim_context *context); // zeroed
struct sim_op *sim_op_clone(const struct sim_op *op); // without marks and stream
void sim_op_free(struct sim_op *op); // NULL passes
// Takes its own reference to `mark`; NULL and done marks are skipped. Before submission only.
void sim_op_wait_for(struct sim_op *op, struct sim_mark *mark);
// The device's space as this context sees it, for kernels and copies.
const struct ptx_space *sim_op_space(const struct sim_op *op);

struct sim_stream {
	_Atomic uint32_t magic;
	_Atomic int references;
	struct sim_context *context;
	unsigned flags;
	int priority;
	unsigned long long id;
	bool legacy, per_thread;
	struct sim_green *green;
	struct sim_stream *next; // in the context
	// Under context->lock:
	struct sim_op *head, *tail;   // queued
	struct sim_op *running;
	struct sim_op *last;	      // last submitted, while it is queued or running
	_Atomic unsigned pending;     // queued and running
	bool worker, sleeping, closing;
	pthread_cond_t wake;
	unsigned crowd; // threads that wait for room in the queue
	pthread_cond_t room;
	// On a device that shares its time, likewise:
	uint32_t channel; // while has_channel
	bool has_channel;
	unsigned pieces; // in the channel, of operations that have not ended
	uint64_t ended_ns; // when its last operation ended
	// Capture: owned by capture.c. Non-NULL while the stream captures.
	_Atomic(void *) capture;
	CUstreamAttrValue attributes[16];
};

static inline CUstream sim_stream_handle(struct sim_stream *stream) { return (CUstream)stream; }
// Whether the stream is one of the context, or of its green contexts. `green` not NULL: of that green context.
static inline bool sim_stream_is_of(const struct sim_stream *stream, const struct sim_context *context,
				    const struct sim_green *green)
{
	return stream->context->parent == context &&
	       (!green || stream->green == green || stream->context->green == green);
}
// Resolves NULL and CU_STREAM_LEGACY, CU_STREAM_PER_THREAD and handles against the current
// context; the context's sticky error comes first. A handle's own context wins.
CUresult sim_stream_get(CUstream handle, struct sim_stream **ret_stream);
// Likewise, whatever the sticky error.
CUresult sim_stream_get_any(CUstream handle, struct sim_stream **ret_stream);

// Appends to the stream's queue, with what the default streams imply; while the stream
// captures it becomes a graph node instead (sim_capture_op). Takes the operation, also on
// failure.
CUresult sim_submit(struct sim_stream *stream, struct sim_op *op);
// Submits, waits for it, and returns its context's sticky error if there is one now.
CUresult sim_submit_wait(struct sim_stream *stream, struct sim_op *op);
// A reference to the mark of the last operation submitted; NULL when the stream is idle.
struct sim_mark *sim_stream_last(struct sim_stream *stream);
CUresult sim_stream_wait_idle(struct sim_stream *stream);
// Runs one operation now: waits for its marks, then runs, then finishes its mark. Does not
// free it. For graphs; the cursor is NULL unless the device shares its time.
CUresult sim_op_execute(struct sim_op *op, struct sim_time_cursor *cursor);

// Implemented by capture.c; weak definitions: nothing captures.
CUresult sim_capture_op(struct sim_stream *stream, struct sim_op *op); // takes op
// A call that is unsafe while some thread captures (cuMemAlloc, cuEventQuery, …):
// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED and the capture is invalidated, or success.
CUresult sim_capture_unsafe(void);
// The stream (or, for the legacy stream, its context: IMPLICIT) captures and the call
// (synchronize, query, …) is not allowed on it.
CUresult sim_capture_forbidden(struct sim_stream *stream);
// A stream of the context (`green` not NULL: of that green context) captures, and the call is about all of them: the
// captures are invalidated.
CUresult sim_capture_context_forbidden(const struct sim_context *context, const struct sim_green *green);
// CUDA_ERROR_CAPTURED_EVENT: the call asks about an event recorded in a capture, which it spoils.
CUresult sim_capture_event_forbidden(struct sim_event *event);
// Stream-ordered allocations of a capturing stream, as nodes. `props` NULL: of the stream's device.
CUresult sim_capture_alloc(struct sim_stream *stream, size_t size, const CUmemPoolProps *props,
			   CUdeviceptr *ret_address);
CUresult sim_capture_free(struct sim_stream *stream, CUdeviceptr address);
// A capturing stream is destroyed: its capture is invalid.
void sim_capture_abandon(struct sim_stream *stream);
// An event recorded in a capture: cuStreamWaitEvent joins `stream` to it. Called when event->capture is set.
CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event, unsigned flags);

// ---- events (event.c) -----------------------------------------------------------------

struct sim_event {
	_Atomic uint32_t magic;
	unsigned flags;
	struct sim_context *context;
	pthread_mutex_t lock;
	struct sim_mark *mark; // of the last record; NULL before the first
	void *capture; // capture.c's: recorded in a capture
	struct region_event *shared; // interprocess: in the region
	uint32_t shared_index;
	_Atomic int references; // the handle, operations
	struct sim_event *next_free;
};
struct sim_event *sim_event_new(struct sim_context *context, unsigned flags);
void sim_event_unref(struct sim_event *event);
CUresult sim_event_get(CUevent handle, struct sim_event **ret_event);
// A fresh mark becomes the event's last record. A reference for the caller.
struct sim_mark *sim_event_arm(struct sim_event *event);
// A reference to the last record's mark; NULL: never recorded.
struct sim_mark *sim_event_mark(struct sim_event *event);

// Event operations. As graph nodes: clone, then arm at the graph's launch.
struct sim_event_op {
	struct sim_op op;
	struct sim_event *event;
	struct sim_mark *mark; // record: armed at submission or by run; wait: what to wait for
	unsigned flags;
};
extern const struct sim_op_class sim_event_record_class, sim_event_wait_class;
struct sim_event_op *sim_event_op_new(const struct sim_op_class *class, struct sim_context *context,
				      struct sim_event *event);

// ---- operations that graphs and streams share ------------------------------------------

struct sim_copy_tiles { // the side of a copy that is in a sparse array
	const struct sim_array *array; // NULL: it is elsewhere
	size_t x, y, z;		       // bytes, rows, slices
};

struct sim_copy_op { // copy.c
	struct sim_op op;
	CUDA_MEMCPY3D copy;
	struct sim_copy_tiles from_tiles, to_tiles;
	struct sim_device *source, *target; // where device operands are; NULL: host memory
	uintptr_t from, to; // of the first byte
	size_t from_pitch, from_slice, to_pitch, to_slice;
	void *staged; // pageable host memory, copied when the call was made
};
extern const struct sim_op_class sim_copy_class;
// Checks a copy as the driver does at the call.
CUresult sim_copy_op_new(struct sim_context *context, const CUDA_MEMCPY3D *copy, struct sim_op **ret_op);

struct sim_set_op { // set.c
	struct sim_op op;
	CUDA_MEMSET_NODE_PARAMS set;
	struct sim_device *device; // that may write there
};
extern const struct sim_op_class sim_set_class;
CUresult sim_set_op_new(struct sim_context *context, const CUDA_MEMSET_NODE_PARAMS *set, struct sim_op **ret_op);

struct sim_host_op { // stream_host.c
	struct sim_op op;
	CUhostFn function;
	CUstreamCallback callback; // cuStreamAddCallback
	void *data;
};
extern const struct sim_op_class sim_host_class;
struct sim_op *sim_host_op_new(struct sim_context *context, CUhostFn function, void *data);

struct sim_memop_op { // memop.c
	struct sim_op op;
	unsigned count, flags;
	CUstreamBatchMemOpParams *params; // owned
};
extern const struct sim_op_class sim_memop_class;
CUresult sim_memop_op_new(struct sim_context *context, unsigned count, const CUstreamBatchMemOpParams *params,
			  unsigned flags, struct sim_op **ret_op);

// ---- memory (address.c, memory.c, physical.c) -------------------------------------------

// Physical device memory: whole granules, shared with other processes by id.
struct sim_physical {
	_Atomic int references; // handles and mappings in this process
	struct sim_device *device; // NULL: in host memory (descriptor `memory`)
	uint64_t id;	 // in the region: identifies it to all processes
	size_t size;
	int memory;	 // descriptor of host-located memory, -1
	off_t memory_offset; // in it
	bool borrowed; // the descriptor is a pool's
	CUresult foreign; // of another process, imported: what a restore answers, for it cannot bring it back; or 0
	bool shared;	 // exported or imported: another struct of this process may hold the same
	bool driver;	 // the driver took it for itself: contexts, stacks
	CUmemAllocationProp properties; // of cuMemCreate
	CUmemGenericAllocationHandle handle; // vmm.c's; 0: none yet
	unsigned handles; // how often the program holds it
	unsigned long long buffer_id;
	struct sim_physical *next, *previous; // of all in the process, under the memory lock
	int shadow; // evicted by a checkpoint: private descriptor with the contents, or -1
};

enum sim_range_kind {
	SIM_RANGE_DEVICE,   // cuMemAlloc of more than a granule, arrays
	SIM_RANGE_BLOCK,    // a granule shared by small allocations
	SIM_RANGE_RESERVED, // cuMemAddressReserve
	SIM_RANGE_POOL,	    // a chunk of a memory pool
	SIM_RANGE_IPC,	    // opened from another process
	SIM_RANGE_GRAPH,    // memory nodes of graphs (simexec)
	SIM_RANGE_MODULE,   // module images, heaps (simexec)
};

struct sim_mapping { // physical memory at an address
	CUdeviceptr base;
	size_t size;
	struct sim_physical *physical;
	unsigned char access[SIM_DEVICES]; // CUmemAccess_flags by device ordinal
	struct sim_range *range;
	bool host; // the host may use the address too (memory located there)
	struct sim_mapping *next; // in the range, by address
};

struct sim_range { // reserved device addresses
	CUdeviceptr base;
	size_t size, asked; // whole granules; what the caller asked for
	enum sim_range_kind kind;
	struct sim_context *context;
	struct sim_device *device;
	struct sim_mapping *mappings;
	unsigned long long buffer_id;
	bool sync_memops;
	void *owner; // by kind: struct sim_block, struct sim_chunk of a pool, …
};

void sim_memory_lock(void);
void sim_memory_unlock(void);
// The following need the memory lock.
// Reserves whole granules of addresses. `hint` 0: anywhere.
CUresult sim_range_reserve(size_t size, size_t alignment, CUdeviceptr hint, enum sim_range_kind kind,
			   struct sim_range **ret_range);
void sim_range_free(struct sim_range *range); // unmaps what is mapped
struct sim_range *sim_range_find(CUdeviceptr address); // NULL: none of ours
struct sim_mapping *sim_mapping_find(CUdeviceptr address);
CUresult sim_range_map(struct sim_range *range, CUdeviceptr base, struct sim_physical *physical);
void sim_mapping_remove(struct sim_mapping *mapping);
void sim_mapping_access(struct sim_mapping *mapping, struct sim_device *device, CUmemAccess_flags access);
// Zeroed memory of `device`; CUDA_ERROR_OUT_OF_MEMORY. Size in whole granules.
CUresult sim_physical_create(struct sim_device *device, size_t size, struct sim_physical **ret_physical);
void sim_physical_unref(struct sim_physical *physical); // frees it with the last; NULL passes

// The following take the memory lock themselves.
// Address range and memory in one, accessible by the context's device (and its peers).
CUresult sim_memory_alloc(struct sim_context *context, size_t size, enum sim_range_kind kind, CUdeviceptr *ret_address);
// Without waiting for anything. CUDA_ERROR_INVALID_VALUE: not the start of an allocation.
CUresult sim_memory_free(CUdeviceptr address);
// Where `length` bytes of device, pinned or managed memory are for the host; NULL when
// `device` may not access all of them. Takes no lock; valid while the memory stays mapped.
void *sim_memory_host(const struct sim_device *device, CUdeviceptr address, size_t length, bool write);
// What an address is, as cuMemcpy's checks and the pointer attributes see it.
struct sim_pointer {
	CUmemorytype type;
	CUdeviceptr base;
	size_t size;
	struct sim_device *device;
	struct sim_context *context;
	bool managed, mapped; // mapped: memory is behind it
	bool host_access;     // the host may use the address
	struct sim_range *range; // device memory
	struct sim_host *host;	 // pinned and managed memory
	unsigned long long buffer_id;
};
bool sim_pointer_find(CUdeviceptr address, struct sim_pointer *ret_pointer); // false: unknown to the driver

// ---- pinned and managed memory (host.c) -------------------------------------------------

enum sim_host_kind {
	SIM_HOST_ALLOCATED,
	SIM_HOST_REGISTERED,
	SIM_HOST_MANAGED,
	SIM_HOST_POOL
}; // the last: of a managed pool
struct sim_host {
	uintptr_t base;
	size_t size; // as asked
	enum sim_host_kind kind;
	unsigned flags;
	struct sim_context *context;
	unsigned long long buffer_id;
	bool read_mostly;
	CUmemLocation preferred, prefetched;
	uint32_t accessed_by; // bit per device, 31: the host
};
CUresult sim_managed_alloc(struct sim_context *context, size_t size, unsigned flags, CUdeviceptr *ret_address);

// ---- pools: graphs reserve from here too (pool.c) ----------------------------------------
CUresult sim_pool_trim_all(struct sim_device *device); // gives back what is unused; true memory pressure
void sim_pool_synchronized(struct sim_context *context); // after a synchronisation: release thresholds

// ---- arrays (array.c) ---------------------------------------------------------------------
enum { SIM_ARRAY_MAGIC = 0x41525932, SIM_LEVEL_ALIGNMENT = 512 /* of a mipmap level */ };
struct sim_array {
	uint32_t magic;
	struct sim_context *context;
	CUDA_ARRAY3D_DESCRIPTOR descriptor;
	CUdeviceptr base; // 0: deferred mapping, or sparse
	size_t element, pitch, slice, size; // bytes; rows of a slice are `pitch` apart
	size_t width, height, depth; // elements, rows and slices, none 0
	struct sim_mipmap *mipmap; // it is a level of this
	struct sim_range *mapping; // array_map.c's, of an array or a first level with deferred mapping; NULL: no memory
	struct sim_sparse *sparse; // its tiles, all levels of a mipmapped array the same; NULL: it is not sparse
	const struct ptx_tiles *tiles; // of the level
	struct sim_array *next_free;
};
CUresult sim_array_get(CUarray handle, struct sim_array **ret_array);
void sim_array_unmap(struct sim_array *const *levels, unsigned count);
CUresult sim_mipmap_levels(CUmipmappedArray handle, unsigned *ret_count, struct sim_array *const **ret_levels);

// ---- OpenGL (graphics.c): cudaGL.h includes OpenGL's own headers ----------------------------
#pragma GCC visibility push(default)
CUresult CUDAAPI cuGraphicsGLRegisterBuffer(CUgraphicsResource *pCudaResource, unsigned int buffer, unsigned int Flags);
CUresult CUDAAPI cuGraphicsGLRegisterImage(CUgraphicsResource *pCudaResource, unsigned int image, unsigned int target,
					   unsigned int Flags);
#pragma GCC visibility pop

// ---- SM partitions (green.c) ----------------------------------------------------------------
struct sim_workqueue { // CUdevWorkqueueConfigResource
	CUdevice device;
	unsigned limit;
	int scope;
};

struct sim_green {
	uint32_t magic;
	struct sim_context *context; // the primary context it hangs on
	struct sim_context *view;    // cuCtxFromGreenCtx
	struct sim_device *device;
	unsigned sms;
	unsigned long long id;
	uint8_t mask[SIM_SMS / 8]; // SMs
	struct sim_workqueue workqueue;
	struct sim_stream *internal; // where its events are recorded
	struct sim_green *next;
};
