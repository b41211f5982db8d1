// Contexts (context.c, primary.c, context_state.c, context_event.c). Any thread.
#pragma once

#include "sim.h"

enum { SIM_CONTEXT_MAGIC = 0x43545832, SIM_STACK_DEFAULT = 1024 };
#define SIM_GREEN_BYTES ((size_t)4 << 20) // device memory of a green context until the primary context ends (H200)

// Values of sim_context.cancel. Both stop work that runs.
enum {
	SIM_CANCEL_WORK = 1,  // the process has failed: work behind stopped work still waits for its end
	SIM_CANCEL_WAITS = 2, // the context is ending: nothing waits any more
};

struct sim_context {
	_Atomic uint32_t magic; // 0 once destroyed; the memory is never reused for anything but a context
	uint32_t was_context;	// tells a destroyed context from garbage
	unsigned long long id;
	struct sim_device *device;
	atomic_int cancel; // 0, or one of the values above
	unsigned flags, api_version;
	bool primary;
	struct sim_green *green;    // made by cuCtxFromGreenCtx
	struct sim_context *parent; // has the memory and the modules: a green context's primary context, else itself
	unsigned sms;		    // multiprocessors that its kernels may use
	size_t limits[CU_LIMIT_MAX];
	CUfunc_cache cache_config;
	unsigned attached;		       // cuCtxAttach
	struct sim_physical *overhead, *stack; // device memory that the driver allocated for itself
	struct sim_physical **green_memory;    // the same for its green contexts, also for those that have ended
	size_t green_count;
	size_t local; // bytes of local memory for each thread, as large as its kernels have needed

	pthread_mutex_t lock;	    // streams, their queues
	struct sim_stream *streams; // all of the context's, with the legacy stream
	struct sim_stream *legacy;
	_Atomic(struct sim_stream *) recorder; // of cuCtxRecordEvent; NULL before the first call
	struct sim_context_wait *waits;	       // of context_event.c
	int captures;			       // blocking streams that capture; changed by capture.c, under `lock`
	unsigned room_waiters;		       // threads that wait for room in a queue, under `lock`
	pthread_cond_t no_room_waiters;	       // `room_waiters` has become 0

	struct sim_block *blocks; // granules for small allocations (block.c)
	uint32_t peers;		  // a bit for each device ordinal: peer access is enabled
	void *_Atomic exec;	  // struct sim_exec; created while other threads read the pointer
	struct sim_context *next; // of all contexts, under the lock of context.c
	_Atomic(struct sim_context *) views; // contexts made from its green contexts; ended ones stay
	struct sim_context *next_view;
};

static inline CUcontext sim_context_handle(struct sim_context *context) { return (CUcontext)context; }
// CUDA_ERROR_INVALID_CONTEXT: NULL or not a context. CUDA_ERROR_CONTEXT_IS_DESTROYED: one that was destroyed.
CUresult sim_context_get(CUcontext handle, struct sim_context **ret_context);
// Returns the calling thread's current context. Fails with the sticky error if there is one.
CUresult sim_context_current(struct sim_context **ret_context);
// The same without regard to the sticky error.
CUresult sim_context_current_any(struct sim_context **ret_context);
// Returns the calling thread's current context, also an inactive primary context.
CUresult sim_context_top(struct sim_context **ret_context);
bool sim_context_flags_are_valid(unsigned flags);
// Returns whether `result`, of sim_context_get() for the handle, means a primary context that is not retained now.
bool sim_context_is_inactive(CUcontext handle, CUresult result);
// Calls `each` for every live context. `each` must not call it again.
void sim_contexts_each(void (*each)(struct sim_context *context, void *data), void *data);
bool sim_has_pending_work(void); // a stream of some context is not idle

// Sets the sticky error, unless there is one already, and stops the work on every device. Returns the sticky error.
CUresult sim_context_fail(const struct sim_context *context, CUresult error);
// The same because another client of MPS on the device has failed.
void sim_context_fail_with_others(const struct sim_device *device, CUresult error);

// Creates a context. `parent` NULL: a context of its own, which costs device memory; else a view of the parent, for a
// green context. `revive`: an ended context to create again under the same handle, or NULL.
CUresult sim_context_new(struct sim_device *device, unsigned flags, struct sim_context *parent,
			 struct sim_context *revive, struct sim_context **ret_context);
// Ends its work and frees what it owns. The struct stays.
void sim_context_end(struct sim_context *context);
CUresult sim_primary_retain(struct sim_device *device, struct sim_context **ret_context);
CUresult sim_primary_release(struct sim_device *device);

// Allocates device memory that the driver needs itself. With the memory lock held. CUDA_ERROR_OUT_OF_MEMORY.
CUresult sim_driver_memory_create(struct sim_device *device, size_t size, struct sim_physical **ret_physical);
// Allocates the device memory of a green context; it is freed with `context`. CUDA_ERROR_OUT_OF_MEMORY.
CUresult sim_context_alloc_green(struct sim_context *context);
// Makes sure that a kernel's threads can have so much local memory each. CUDA_ERROR_OUT_OF_MEMORY.
CUresult sim_context_reserve_local(struct sim_context *context, size_t bytes);

// Waits until all streams of the context are idle, also those of its green contexts. Returns the sticky error, or
// success.
CUresult sim_context_synchronize(struct sim_context *context);
// Records an event behind all streams. `green` not NULL: behind the streams of that green context only.
CUresult sim_context_record(struct sim_context *context, const struct sim_green *green, struct sim_event *event);
// Orders all streams behind an event; `green` as above.
CUresult sim_context_wait(struct sim_context *context, const struct sim_green *green, struct sim_event *event);
// Orders a new stream behind the events that its context waits for.
void sim_context_order_stream(struct sim_stream *stream);
void sim_context_forget_waits(struct sim_context *context);
// Waits while another thread waits for room in a queue of the context: the real driver delays some calls then.
void sim_context_wait_for_room(struct sim_context *context);
