// Implements calls on all streams of a context: wait for them, record an event after their work, make them wait for an
// event. The streams of a context include those of its green contexts, and those of contexts that cuCtxFromGreenCtx
// created. A call on a green context concerns only the streams of that green context.
#include <stdlib.h>

#include "capture.h"
#include "entry.h"
#include "event.h"
#include "exec.h"
#include "green.h"
#include "mark.h"
#include "pool.h"
#include "process.h"
#include "stream.h"

// An event for which the context waits. Streams that are created before the event completes must also wait for it.
// Guarded by the lock of the context.
struct sim_context_wait {
	struct sim_mark *mark;
	const struct sim_green *green; // NULL: all streams wait
	struct sim_context_wait *next;
};

// Iterates over `context` and the contexts that were made from its green contexts. Returns the context that follows
// `at` in this order. If `at` is NULL, returns `context` itself.
static struct sim_context *get_next_context(struct sim_context *context, const struct sim_context *at)
{
	if (!at)
		return context;
	return at == context ? atomic_load_explicit(&context->views, memory_order_acquire) : at->next_view;
}

struct marks {
	struct sim_mark **items;
	size_t count;
};

// Adds a reference to the mark (mark.h) that is done when the stream's latest operation has ended. Call it with the
// lock of the stream's context held.
static void add_last_mark(struct marks *marks, struct sim_stream *stream)
{
	struct sim_mark **grown = realloc(marks->items, (marks->count + 1) * sizeof *grown);

	if (!grown)
		abort();
	marks->items = grown;
	if (!stream->last->mark)
		stream->last->mark = sim_mark_new();
	marks->items[marks->count++] = sim_mark_ref(stream->last->mark);
}

// Returns marks, one for each stream with queued or running work. When a mark is done, so is the stream's work.
static struct marks find_pending_marks(struct sim_context *context, const struct sim_green *green)
{
	struct marks marks = {0};

	for (struct sim_context *one = context; one; one = get_next_context(context, one)) {
		pthread_mutex_lock(&one->lock);
		for (struct sim_stream *stream = one->streams; stream; stream = stream->next)
			if (stream->last && sim_stream_is_of(stream, context, green))
				add_last_mark(&marks, stream);
		pthread_mutex_unlock(&one->lock);
	}
	return marks;
}

CUresult sim_context_synchronize(struct sim_context *context)
{
	struct marks marks = find_pending_marks(context->parent, context->green);

	for (size_t i = 0; i < marks.count; i++) {
		sim_mark_wait(marks.items[i], NULL);
		sim_mark_unref(marks.items[i]);
	}
	free(marks.items);
	sim_pool_apply_thresholds(context);
	sim_exec_flush_output(context);
	return sim_failure();
}

// Returns the stream in which events of the context are recorded. The program cannot use this stream, so no other work
// waits for a record.
static struct sim_stream *get_recorder(struct sim_context *context)
{
	struct sim_stream *recorder = atomic_load(&context->recorder);

	if (recorder)
		return recorder;
	struct sim_stream *created = sim_stream_new(context, CU_STREAM_NON_BLOCKING, 0);
	if (atomic_compare_exchange_strong(&context->recorder, &recorder, created))
		return created;
	sim_stream_close(created); // another thread created the recorder first
	return recorder;
}

CUresult sim_context_record(struct sim_context *context, const struct sim_green *green, struct sim_event *event)
{
	if (event->context->parent != context)
		return CUDA_ERROR_INVALID_HANDLE;
	SIM_TRY(sim_failure());
	SIM_TRY(sim_capture_check_context(context, green));
	struct sim_event_op *op = sim_event_op_new(&sim_event_record_class, context, event);
	op->mark = sim_event_arm(event);
	op->op.mark = sim_mark_ref(op->mark);
	pthread_mutex_lock(&event->lock);
	event->capture = NULL;
	pthread_mutex_unlock(&event->lock);
	struct marks marks = find_pending_marks(context, green);
	for (size_t i = 0; i < marks.count; i++) {
		sim_op_wait_for(&op->op, marks.items[i]);
		sim_mark_unref(marks.items[i]);
	}
	free(marks.items);
	return sim_submit(green ? green->internal : get_recorder(context), &op->op);
}

// ---- waiting for an event --------------------------------------------------------------------

static CUresult order_behind(struct sim_stream *stream, struct sim_mark *mark)
{
	struct sim_op *op = sim_op_new(&sim_event_wait_class, stream->context);

	op->instant = op->always = true;
	sim_op_wait_for(op, mark);
	return sim_submit(stream, op);
}

// Remembers that the context waits for an event. Streams that are created before the event completes must wait for it,
// too.
static void add_wait(struct sim_context *context, const struct sim_green *green, struct sim_mark *mark)
{
	struct sim_context_wait *wait = calloc(1, sizeof *wait);

	if (!wait)
		abort();
	wait->mark = sim_mark_ref(mark);
	wait->green = green;
	pthread_mutex_lock(&context->lock);
	for (struct sim_context_wait **at = &context->waits; *at;) {
		struct sim_context_wait *old = *at;
		if (!sim_mark_is_done(old->mark)) {
			at = &old->next;
			continue;
		}
		*at = old->next;
		sim_mark_unref(old->mark);
		free(old);
	}
	wait->next = context->waits;
	context->waits = wait;
	pthread_mutex_unlock(&context->lock);
}

void sim_context_forget_waits(struct sim_context *context)
{
	pthread_mutex_lock(&context->lock);
	struct sim_context_wait *wait = context->waits;
	context->waits = NULL;
	pthread_mutex_unlock(&context->lock);
	for (struct sim_context_wait *next; wait; wait = next) {
		next = wait->next;
		sim_mark_unref(wait->mark);
		free(wait);
	}
}

void sim_context_order_stream(struct sim_stream *stream)
{
	struct sim_context *context = stream->context->parent;
	struct sim_op *op = NULL;

	pthread_mutex_lock(&context->lock);
	for (struct sim_context_wait *wait = context->waits; wait; wait = wait->next) {
		if (sim_mark_is_done(wait->mark) || !sim_stream_is_of(stream, context, wait->green))
			continue;
		if (!op)
			op = sim_op_new(&sim_event_wait_class, stream->context);
		sim_op_wait_for(op, wait->mark);
	}
	pthread_mutex_unlock(&context->lock);
	if (!op)
		return;
	op->instant = op->always = true;
	(void)sim_submit(stream, op);
}

// Returns a reference to the stream that follows `stream` in the list one->streams. If `stream` is NULL, starts at the
// head of the list. Skips closed streams, and those that do not belong to `context`, or not to `green`.
static struct sim_stream *get_next_stream(struct sim_context *one, const struct sim_context *context,
					  const struct sim_green *green, const struct sim_stream *stream)
{
	pthread_mutex_lock(&one->lock);
	struct sim_stream *next = stream ? stream->next : one->streams;
	while (next && (next->closing || !sim_stream_is_of(next, context, green)))
		next = next->next;
	if (next)
		sim_stream_ref(next);
	pthread_mutex_unlock(&one->lock);
	return next;
}

CUresult sim_context_wait(struct sim_context *context, const struct sim_green *green, struct sim_event *event)
{
	CUresult result = CUDA_SUCCESS;

	SIM_TRY(sim_failure());
	if (event->capture)
		return sim_capture_reject_event(event);
	SIM_TRY(sim_capture_check_context(context, green));
	struct sim_mark *mark = sim_event_last_mark(event);
	if (!mark || sim_mark_is_done(mark)) {
		sim_mark_unref(mark);
		return CUDA_SUCCESS;
	}
	add_wait(context, green, mark);
	for (struct sim_context *one = context; one; one = get_next_context(context, one)) {
		struct sim_stream *stream = get_next_stream(one, context, green, NULL);
		while (stream) {
			CUresult failure = order_behind(stream, mark);
			result = result == CUDA_SUCCESS ? failure : result;
			struct sim_stream *next = get_next_stream(one, context, green, stream);
			sim_stream_unref(stream);
			stream = next;
		}
	}
	sim_mark_unref(mark);
	return result;
}

// ---- driver functions ------------------------------------------------------------------------

CUresult CUDAAPI cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent)
{
	struct sim_context *context;
	struct sim_event *event;

	SIM_ENTER(cuCtxRecordEvent);
	SIM_TRY(sim_context_get(hCtx, &context));
	SIM_TRY(sim_event_get(hEvent, &event));
	return sim_context_record(context->parent, context->green, event);
}

CUresult CUDAAPI cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent)
{
	struct sim_context *context;
	struct sim_event *event;

	SIM_ENTER(cuCtxWaitEvent);
	SIM_TRY(sim_context_get(hCtx, &context));
	SIM_TRY(sim_event_get(hEvent, &event));
	return sim_context_wait(context->parent, context->green, event);
}
