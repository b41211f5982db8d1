// Declares contexts (context.c, primary.c, context_state.c, context_event.c). Any thread.
#pragma once

#include "sim.h"

enum { SIM_CONTEXT_MAGIC = 0x43545832, SIM_STACK_DEFAULT = 1024 };
// Device memory that a green context costs. As on an H200, it is freed with the primary context, not with the green
// context.
#define SIM_GREEN_BYTES ((size_t)4 << 20)

// Values of sim_context.cancel. Both stop the running work of a context.
enum {
	SIM_CANCEL_WORK = 1,  // the process has failed; other queued work still waits for the work before it
	SIM_CANCEL_WAITS = 2, // the context ends; queued work does not wait for anything any more
};

struct sim_context {
	_Atomic uint32_t magic; // 0 once the context is destroyed; the memory is reused only for contexts
	uint32_t was_context;	// keeps the magic number after the end, so that a destroyed context is recognised
	unsigned long long id;
	struct sim_device *device;
	atomic_int cancel; // 0, or one of the SIM_CANCEL_ values above
	unsigned flags, api_version;
	bool primary;
	struct sim_green *green; // the green context that this context was made from (cuCtxFromGreenCtx); or NULL
	// The context whose memory and modules this one uses. For a green context, it is the primary context; otherwise
	// it is this context itself.
	struct sim_context *parent;
	unsigned sms; // multiprocessors that the context's kernels may use
	size_t limits[CU_LIMIT_MAX];
	CUfunc_cache cache_config;
	unsigned attached;		       // cuCtxAttach
	struct sim_physical *overhead, *stack; // device memory that the driver allocated for itself
	struct sim_physical **green_memory;    // memory that green contexts of this context took; kept after they end
	size_t green_count;
	size_t local; // bytes of local memory for each thread: the most that any kernel has needed

	pthread_mutex_t lock;	    // protects streams and their queues
	struct sim_stream *streams; // all streams of the context, with the legacy stream
	struct sim_stream *legacy;
	_Atomic(struct sim_stream *) recorder; // stream in which cuCtxRecordEvent records; NULL before the first call
	struct sim_context_wait *waits;	       // of context_event.c
	int captures;			       // number of capturing blocking streams; under `lock`
	unsigned room_waiters;		       // number of threads that wait for room in a queue, under `lock`
	pthread_cond_t no_room_waiters;	       // signalled when `room_waiters` becomes 0

	struct sim_block *blocks; // granules for small allocations (block.c)
	uint32_t peers;		  // a bit for each device ordinal to which peer access is enabled
	void *_Atomic exec;	  // points to a struct sim_exec; may be set while other threads read it
	struct sim_context *next; // list of all contexts, under the lock of context.c
	// list of contexts made from green contexts (cuCtxFromGreenCtx), also those that have ended
	_Atomic(struct sim_context *) views;
	struct sim_context *next_view;
};

static inline CUcontext sim_context_handle(struct sim_context *context)
{
	return (CUcontext)context;
}
// Finds the context of a handle. CUDA_ERROR_INVALID_CONTEXT: NULL or not a context. CUDA_ERROR_CONTEXT_IS_DESTROYED:
// the context was destroyed.
CUresult sim_context_get(CUcontext handle, struct sim_context **ret_context);
// Returns the calling thread's current context. Fails with the sticky error if there is one.
CUresult sim_context_current(struct sim_context **ret_context);
// Returns the calling thread's current context, and ignores a sticky error.
CUresult sim_context_current_any(struct sim_context **ret_context);
// Returns the calling thread's current context. It may be a primary context that is not retained.
CUresult sim_context_top(struct sim_context **ret_context);
bool sim_context_flags_are_valid(unsigned flags);
// Returns whether the handle is of a primary context that is not retained. `result` must be what sim_context_get()
// returned for the handle.
bool sim_context_is_inactive(CUcontext handle, CUresult result);
// Calls `each` for every live context. `each` must not call sim_contexts_each().
void sim_contexts_each(void (*each)(struct sim_context *context, void *data), void *data);
bool sim_has_pending_work(void); // whether any stream of any context has work

// Sets the sticky error, which all later calls return, unless one is set already. Stops the work on every device.
// Returns the sticky error.
CUresult sim_context_fail(const struct sim_context *context, CUresult error);
// Sets the sticky error because another client of MPS on the device has failed.
void sim_context_fail_with_others(const struct sim_device *device, CUresult error);

// Creates a context. If `parent` is not NULL, the context is for a green context and uses the parent's memory.
// Otherwise the context costs device memory. If `revive` is not NULL, creates this ended context again, under the same
// handle.
CUresult sim_context_new(struct sim_device *device, unsigned flags, struct sim_context *parent,
			 struct sim_context *revive, struct sim_context **ret_context);
// Ends the context's work and frees everything that the context owns. The struct stays.
void sim_context_end(struct sim_context *context);
CUresult sim_primary_retain(struct sim_device *device, struct sim_context **ret_context);
CUresult sim_primary_release(struct sim_device *device);

// Allocates device memory for the driver's own use. Call it with the memory lock held. May return
// CUDA_ERROR_OUT_OF_MEMORY.
CUresult sim_driver_memory_create(struct sim_device *device, size_t size, struct sim_physical **ret_physical);
// Allocates the device memory that a green context costs. The memory is freed with `context`, not with the green
// context.
CUresult sim_context_alloc_green(struct sim_context *context);
// Makes sure that each thread of a kernel can have `bytes` of local memory. May return CUDA_ERROR_OUT_OF_MEMORY.
CUresult sim_context_reserve_local(struct sim_context *context, size_t bytes);

// Waits until all streams of the context are idle, including those of its green contexts. Returns the sticky error, if
// there is one.
CUresult sim_context_synchronize(struct sim_context *context);
// Records an event after the work of all streams of the context. If `green` is not NULL, only the streams of that green
// context count.
CUresult sim_context_record(struct sim_context *context, const struct sim_green *green, struct sim_event *event);
// Makes all streams of the context wait for an event. If `green` is not NULL, only the streams of that green context
// wait.
CUresult sim_context_wait(struct sim_context *context, const struct sim_green *green, struct sim_event *event);
// Makes a new stream wait for the events for which cuCtxWaitEvent made the whole context wait.
void sim_context_order_stream(struct sim_stream *stream);
void sim_context_forget_waits(struct sim_context *context);
// Waits while any thread waits for room in a queue of the context. The real driver delays some calls in this situation.
void sim_context_wait_for_room(struct sim_context *context);
