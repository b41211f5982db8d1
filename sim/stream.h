// Declares streams and their queues (stream.c, op.c). Any thread.
#pragma once

#include "context.h"
#include "op.h"

enum { SIM_STREAM_MAGIC = 0x53545232 };

struct sim_stream {
	_Atomic uint32_t magic;
	_Atomic int references;
	struct sim_context *context;
	unsigned flags;
	int priority;
	unsigned long long id;
	bool legacy, per_thread;
	struct sim_green *green;
	struct sim_stream *next; // next stream of the context
	// Under context->lock:
	struct sim_op *head, *tail; // queued
	struct sim_op *running;
	struct sim_op *last;	  // the latest operation, while it is queued or running
	_Atomic unsigned pending; // number of operations queued and running
	bool worker, sleeping, closing;
	pthread_cond_t wake;
	unsigned room_waiters; // number of threads that wait for room in the queue
	pthread_cond_t room;
	// On a device that shares its time, the following members are also guarded by context->lock.
	uint32_t channel; // valid while has_channel is set
	bool has_channel;
	unsigned pieces;   // number of pieces of work in the channel that belong to operations that have not ended
	uint64_t ended_ns; // when the latest operation ended
	// The struct sim_captured of a stream that is being captured (capture_state.h); otherwise NULL.
	_Atomic(void *) capture;
	CUstreamAttrValue attributes[16];
};

static inline CUstream sim_stream_handle(struct sim_stream *stream)
{
	return (CUstream)stream;
}
// Returns the green context of the stream, or NULL.
static inline const struct sim_green *sim_stream_green(const struct sim_stream *stream)
{
	return stream->green ? stream->green : stream->context->green;
}

// Returns whether the stream belongs to the context or to one of its green contexts. If `green` is not NULL, returns
// whether it belongs to that green context.
static inline bool sim_stream_is_of(const struct sim_stream *stream, const struct sim_context *context,
				    const struct sim_green *green)
{
	return stream->context->parent == context && (!green || sim_stream_green(stream) == green);
}
// Finds the stream of a handle. NULL, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD stand for streams of the current
// context. Returns the sticky error if there is one.
CUresult sim_stream_get(CUstream handle, struct sim_stream **ret_stream);
// Finds the stream of a handle, even if there is a sticky error.
CUresult sim_stream_get_any(CUstream handle, struct sim_stream **ret_stream);

// Creates a stream and adds it to its context.
struct sim_stream *sim_stream_new(struct sim_context *context, unsigned flags, int priority);
void sim_stream_ref(struct sim_stream *stream);
void sim_stream_unref(struct sim_stream *stream);
// Destroys the handle; queued operations still run.
void sim_stream_close(struct sim_stream *stream);
// Removes a closed stream that is idle from its context, and drops the handle's reference. Call it with context->lock
// held.
void sim_stream_retire(struct sim_stream *stream);

// Appends an operation to the stream's queue. The operation waits for other work as CUDA's rules for the default stream
// require. If the stream is being captured, the operation becomes a node of the graph instead. The caller does not own
// the operation any more, also on failure.
CUresult sim_submit(struct sim_stream *stream, struct sim_op *op);
// Submits the operation and waits for its end. Then returns the sticky error, if there is one.
CUresult sim_submit_wait(struct sim_stream *stream, struct sim_op *op);
CUresult sim_stream_wait_idle(struct sim_stream *stream);
// Waits while any thread waits for room in the stream's queue.
void sim_stream_wait_for_room(struct sim_stream *stream);

struct sim_host_op { // stream_host.c
	struct sim_op op;
	CUhostFn function;
	CUstreamCallback callback; // of cuStreamAddCallback
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
