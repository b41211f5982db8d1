// Implements events: recording them, waiting for them, and queries.
#include <stdlib.h>

#include "capture.h"
#include "entry.h"
#include "event.h"
#include "exec.h"
#include "mark.h"
#include "op_time.h"
#include "pool.h"
#include "process.h"

static pthread_mutex_t free_lock = PTHREAD_MUTEX_INITIALIZER;
// List of freed structs, which are reused only for events. So a stale handle never points to other data. The magic
// number of a freed struct is 0, so its handle is recognised as invalid.
static struct sim_event *free_list;

static struct sim_event *get_free_event(void)
{
	pthread_mutex_lock(&free_lock);
	struct sim_event *event = free_list;
	if (event)
		free_list = event->next_free;
	pthread_mutex_unlock(&free_lock);
	if (!event) {
		event = calloc(1, sizeof *event);
		if (!event)
			abort();
		pthread_mutex_init(&event->lock, NULL);
	}
	return event;
}

struct sim_event *sim_event_new(struct sim_context *context, unsigned flags)
{
	struct sim_event *event = get_free_event();

	event->flags = flags;
	event->context = context;
	event->mark = NULL;
	event->capture = NULL;
	event->shared = NULL;
	atomic_store(&event->references, 1);
	atomic_store(&event->magic, SIM_EVENT_MAGIC);
	return event;
}

static void unref_event(struct sim_event *event)
{
	if (!event || atomic_fetch_sub(&event->references, 1) != 1)
		return;
	sim_mark_unref(event->mark);
	event->mark = NULL;
	if (event->shared)
		region_event_unref(sim_process.region, event->shared_index);
	pthread_mutex_lock(&free_lock);
	event->next_free = free_list;
	free_list = event;
	pthread_mutex_unlock(&free_lock);
}

CUresult sim_event_get(CUevent handle, struct sim_event **ret_event)
{
	struct sim_event *event = (struct sim_event *)handle;

	if ((uintptr_t)handle < 4096 || (uintptr_t)handle % sizeof(void *) ||
	    atomic_load(&event->magic) != SIM_EVENT_MAGIC)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret_event = event;
	return CUDA_SUCCESS;
}

struct sim_mark *sim_event_arm(struct sim_event *event)
{
	struct sim_mark *mark = sim_mark_new();

	pthread_mutex_lock(&event->lock);
	if (event->shared) {
		mark->event = event->shared;
		atomic_store(&event->shared->recorder, (uint32_t)sim_process.region->slot);
		mark->event_value = atomic_fetch_add(&event->shared->recorded, 1) + 1;
	}
	struct sim_mark *old = event->mark;
	event->mark = sim_mark_ref(mark);
	pthread_mutex_unlock(&event->lock);
	sim_mark_unref(old);
	return mark;
}

struct sim_mark *sim_event_last_mark(struct sim_event *event)
{
	pthread_mutex_lock(&event->lock);
	struct sim_mark *mark = sim_mark_ref(event->mark);
	uint32_t recorded = event->shared ? atomic_load(&event->shared->recorded) : 0;
	// If the numbers differ, another process has recorded the event since this process recorded it.
	if (recorded && (!mark || mark->event_value != recorded)) {
		sim_mark_unref(mark);
		mark = sim_mark_new();
		mark->event = event->shared;
		mark->event_value = recorded;
		mark->foreign = true;
	}
	pthread_mutex_unlock(&event->lock);
	return mark;
}

// ---- operations ----------------------------------------------------------------------------

static CUresult run_record(struct sim_op *op_)
{
	struct sim_event_op *op = (struct sim_event_op *)op_;

	if (!op->mark)
		op->mark = sim_event_arm(op->event);
	// The stream finishes the mark (mark.h) op_->mark when the operation ends. If the event has another mark,
	// finish it here.
	if (op->mark != op_->mark)
		sim_mark_finish_at(op->mark,
				   op_->time && op_->time->ended_ns ? op_->time->ended_ns : sim_device_clock_ns());
	return CUDA_SUCCESS;
}

static CUresult run_wait(struct sim_op *op_)
{
	struct sim_event_op *op = (struct sim_event_op *)op_;

	// An operation that was submitted to a stream has its mark (mark.h) in op_->waits, and has waited for it
	// already. The operation of a graph node has no stream, so it looks up the event's mark now.
	struct sim_mark *mark = op->mark ? sim_mark_ref(op->mark) : op_->stream ? NULL : sim_event_last_mark(op->event);
	if (mark)
		sim_mark_wait(mark, &op_->context->cancel);
	sim_mark_unref(mark);
	return CUDA_SUCCESS;
}

static CUresult clone_event_op(struct sim_op *op_)
{
	struct sim_event_op *op = (struct sim_event_op *)op_;

	op->mark = NULL;
	if (op->event)
		atomic_fetch_add(&op->event->references, 1);
	return CUDA_SUCCESS;
}

static void finish_event_op(struct sim_op *op_)
{
	struct sim_event_op *op = (struct sim_event_op *)op_;

	// A failure may have prevented the event from being recorded. Then finish its mark (mark.h) here, so that no
	// thread waits for it. For an operation of a stream, the stream finishes the mark.
	if (op->mark && !op_->stream && op_->class == &sim_event_record_class && !sim_mark_is_done(op->mark))
		sim_mark_finish(op->mark);
	sim_mark_unref(op->mark);
	unref_event(op->event);
}

const struct sim_op_class sim_event_record_class = {.name = "event record",
						    .size = sizeof(struct sim_event_op),
						    .run = run_record,
						    .clone = clone_event_op,
						    .finish = finish_event_op};
const struct sim_op_class sim_event_wait_class = {.name = "event wait",
						  .size = sizeof(struct sim_event_op),
						  .run = run_wait,
						  .clone = clone_event_op,
						  .finish = finish_event_op,
						  .pieces = sim_time_host_piece};

struct sim_event_op *sim_event_op_new(const struct sim_op_class *class, struct sim_context *context,
				      struct sim_event *event)
{
	struct sim_event_op *op = (struct sim_event_op *)sim_op_new(class, context);

	op->event = event;
	op->op.instant = op->op.always = true;
	atomic_fetch_add(&event->references, 1);
	return op;
}

// ---- driver functions ----------------------------------------------------------------------

CUresult CUDAAPI cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
	const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
	struct sim_context *context;
	uint32_t index, generation;

	SIM_ENTER(cuEventCreate);
	SIM_TRY(sim_context_current(&context));
	if (!phEvent || (Flags & ~known) || ((Flags & CU_EVENT_INTERPROCESS) && !(Flags & CU_EVENT_DISABLE_TIMING)))
		return CUDA_ERROR_INVALID_VALUE;
	sim_context_wait_for_room(context);
	struct sim_event *event = sim_event_new(context, Flags);
	if (Flags & CU_EVENT_INTERPROCESS) {
		if (region_event_create(sim_process.region, &index, &generation) != 0) {
			atomic_store(&event->magic, 0);
			unref_event(event);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		event->shared = &sim_process.region->header->events[index];
		event->shared_index = index;
	}
	*phEvent = (CUevent)event;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventDestroy_v2(CUevent hEvent)
{
	struct sim_event *event;
	uint32_t magic = SIM_EVENT_MAGIC;

	SIM_ENTER(cuEventDestroy_v2);
	SIM_TRY(sim_event_get(hEvent, &event));
	if (!atomic_compare_exchange_strong(&event->magic, &magic, 0))
		return CUDA_ERROR_INVALID_HANDLE;
	sim_context_wait_for_room(event->context);
	CUresult error = sim_failure();
	unref_event(event);
	return error;
}

CUresult CUDAAPI cuEventDestroy(CUevent hEvent)
{
	SIM_ENTER(cuEventDestroy);
	return cuEventDestroy_v2(hEvent);
}

CUresult CUDAAPI cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
	struct sim_stream *stream;
	struct sim_event *event;

	SIM_ENTER(cuEventRecordWithFlags);
	SIM_TRY(sim_event_get(hEvent, &event));
	SIM_TRY(sim_stream_get(hStream, &stream));
	if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (event->context->parent != stream->context->parent)
		return CUDA_ERROR_INVALID_HANDLE;
	struct sim_event_op *op = sim_event_op_new(&sim_event_record_class, stream->context, event);
	op->flags = flags;
	if (!atomic_load(&stream->capture)) {
		op->mark = sim_event_arm(event);
		op->op.mark = sim_mark_ref(op->mark);
		pthread_mutex_lock(&event->lock);
		event->capture = NULL;
		pthread_mutex_unlock(&event->lock);
	} else if (!(flags & CU_EVENT_RECORD_EXTERNAL) && event->shared) {
		sim_op_free(&op->op);
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return sim_submit(stream, &op->op);
}

CUresult CUDAAPI cuEventRecordWithFlags_ptsz(CUevent hEvent, CUstream hStream, unsigned int flags)
{
	SIM_ENTER(cuEventRecordWithFlags_ptsz);
	return cuEventRecordWithFlags(hEvent, SIM_PTSZ(hStream), flags);
}

CUresult CUDAAPI cuEventRecord(CUevent hEvent, CUstream hStream)
{
	SIM_ENTER(cuEventRecord);
	return cuEventRecordWithFlags(hEvent, hStream, CU_EVENT_RECORD_DEFAULT);
}

CUresult CUDAAPI cuEventRecord_ptsz(CUevent hEvent, CUstream hStream)
{
	SIM_ENTER(cuEventRecord_ptsz);
	return cuEventRecordWithFlags(hEvent, SIM_PTSZ(hStream), CU_EVENT_RECORD_DEFAULT);
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
	struct sim_stream *stream;
	struct sim_event *event;

	SIM_ENTER(cuStreamWaitEvent);
	SIM_TRY(sim_event_get(hEvent, &event));
	SIM_TRY(sim_stream_get(hStream, &stream));
	if (Flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (event->capture)
		return sim_capture_wait(stream, event, Flags);
	bool capturing = atomic_load(&stream->capture) != NULL;
	if (capturing && !(Flags & CU_EVENT_WAIT_EXTERNAL))
		return sim_capture_wait(stream, event, Flags); // fails: the event was not recorded in this capture
	struct sim_event_op *op = sim_event_op_new(&sim_event_wait_class, stream->context, event);
	op->flags = Flags;
	if (!capturing) {
		struct sim_mark *mark = sim_event_last_mark(event);
		sim_op_wait_for(&op->op, mark);
		sim_mark_unref(mark);
		if (op->op.wait_count == 0) { // already done
			sim_op_free(&op->op);
			return CUDA_SUCCESS;
		}
	}
	return sim_submit(stream, &op->op);
}

CUresult CUDAAPI cuStreamWaitEvent_ptsz(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
	SIM_ENTER(cuStreamWaitEvent_ptsz);
	return cuStreamWaitEvent(SIM_PTSZ(hStream), hEvent, Flags);
}

CUresult CUDAAPI cuEventQuery(CUevent hEvent)
{
	struct sim_event *event;

	SIM_ENTER(cuEventQuery);
	SIM_TRY(sim_event_get(hEvent, &event));
	SIM_TRY(sim_failure());
	if (event->capture)
		return sim_capture_reject_event(event);
	SIM_TRY(sim_capture_check_unsafe());
	struct sim_mark *mark = sim_event_last_mark(event);
	bool done = !mark || sim_mark_is_done(mark);
	sim_mark_unref(mark);
	return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult CUDAAPI cuEventSynchronize(CUevent hEvent)
{
	struct sim_event *event;

	SIM_ENTER(cuEventSynchronize);
	SIM_TRY(sim_event_get(hEvent, &event));
	SIM_TRY(sim_failure());
	if (event->capture)
		return sim_capture_reject_event(event);
	SIM_TRY(sim_capture_check_unsafe());
	struct sim_mark *mark = sim_event_last_mark(event);
	if (mark)
		sim_mark_wait(mark, &event->context->cancel);
	sim_mark_unref(mark);
	sim_pool_apply_thresholds(event->context);
	sim_exec_flush_output(event->context);
	return sim_failure();
}

CUresult CUDAAPI cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	struct sim_event *start, *end;
	CUresult result = CUDA_SUCCESS;

	SIM_ENTER(cuEventElapsedTime_v2);
	SIM_TRY(sim_event_get(hStart, &start));
	SIM_TRY(sim_event_get(hEnd, &end));
	if (!pMilliseconds)
		return CUDA_ERROR_INVALID_HANDLE; // the real driver returns this, too
	SIM_TRY(sim_failure());
	if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
		return CUDA_ERROR_INVALID_HANDLE;
	if (start->capture || end->capture)
		return CUDA_ERROR_CAPTURED_EVENT;
	struct sim_mark *from = sim_event_last_mark(start), *to = sim_event_last_mark(end);
	if (!from || !to)
		result = CUDA_ERROR_INVALID_HANDLE; // never recorded
	else if (!sim_mark_is_done(from) || !sim_mark_is_done(to))
		result = CUDA_ERROR_NOT_READY;
	else
		*pMilliseconds =
			(float)((double)(int64_t)(atomic_load(&to->time_ns) - atomic_load(&from->time_ns)) / 1e6);
	sim_mark_unref(from);
	sim_mark_unref(to);
	return result;
}

CUresult CUDAAPI cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	SIM_ENTER(cuEventElapsedTime);
	return cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}
