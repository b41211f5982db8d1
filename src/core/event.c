#include "core/event.h"

#include "core/error.h"

#include <stdlib.h>

static enum vg_status close_event(struct core_object *object)
{
	struct vg_event *event = (struct vg_event *)object;

	CUresult r = core_driver->cuEventDestroy_v2(event->handle); // works with any current context
	return r ? core_driver_failed(r, "cuEventDestroy", "%s", "") : VG_OK;
}

static void free_event(struct core_object *object)
{
	struct vg_event *event = (struct vg_event *)object;

	core_object_release(&event->context->object);
	free(event);
}

static const struct core_class event_class = {"event", close_event, free_event};

enum vg_status core_event_wrap(struct vg_context *context, CUevent handle, unsigned flags, struct vg_event **ret_event)
{
	struct vg_event *event = calloc(1, sizeof *event);

	if (!event)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for an event");
	core_object_init(&event->object, &event_class);
	core_object_retain(&context->object);
	event->context = context;
	event->handle = handle;
	event->flags = flags;
	*ret_event = event;
	return VG_OK;
}

static enum vg_status create_event(struct vg_context *context, const struct vg_event_options *o,
				   struct vg_event **ret_event)
{
	unsigned flags = (o->timing ? 0 : CU_EVENT_DISABLE_TIMING) | (o->blocking_sync ? CU_EVENT_BLOCKING_SYNC : 0) |
			 (o->ipc ? CU_EVENT_INTERPROCESS : 0);
	CUevent handle;

	if (o->ipc && o->timing)
		return vg_fail(VG_INVALID, 0, "an event for other processes has no timing: set .ipc or .timing");
	CORE_ENTER(scope, context->handle);
	CUresult r = core_driver->cuEventCreate(&handle, flags);
	if (r)
		return core_driver_failed(r, "cuEventCreate", "%s", "");
	enum vg_status status = core_event_wrap(context, handle, flags, ret_event);
	if (status)
		core_driver->cuEventDestroy_v2(handle);
	return status;
}

enum vg_status vg_event_create(struct vg_context *context, const struct vg_event_options *options,
			       struct vg_event **ret_event)
{
	VG_ENTRY();
	struct vg_event_options o;

	CORE_USABLE(context, "context");
	CORE_NEEDED(ret_event);
	CORE_OPTIONS(o, options);
	if (o.ipc)
		return vg_fail(
			VG_INVALID, 0,
			"an event for other processes must be bound to a stream: make it with vg_stream_record()");
	return create_event(context, &o, ret_event);
}

static enum vg_status record_event(struct vg_event *event, struct vg_stream *stream)
{
	CORE_ENTER(scope, stream->context->handle);
	CUresult r = core_driver->cuEventRecord(event->handle, stream->handle);
	if (__builtin_expect(r != CUDA_SUCCESS, 0))
		return core_driver_failed(r, "cuEventRecord", "%s", "");
	atomic_store_explicit(&event->recorded, true, memory_order_relaxed);
	return VG_OK;
}

enum vg_status vg_stream_record(struct vg_stream *stream, const struct vg_event_options *options,
				struct vg_event **ret_event)
{
	VG_ENTRY();
	struct vg_event_options o;
	struct vg_event *event;

	CORE_USABLE(stream, "stream");
	CORE_NEEDED(ret_event);
	CORE_OPTIONS(o, options);
	CORE_TRY(create_event(stream->context, &o, &event));
	enum vg_status status = record_event(event, stream);
	if (status)
		core_object_release(&event->object);
	else
		*ret_event = event;
	return status;
}

void vg_event_destroy(struct vg_event *event)
{
	core_object_release(event ? &event->object : NULL);
}

enum vg_status vg_event_close(struct vg_event *event)
{
	VG_ENTRY();
	CORE_NEEDED(event);
	return core_object_close(&event->object);
}

static enum vg_status refuse_record(const struct vg_event *event, const struct vg_context *context)
{
	if (event->flags & CU_EVENT_INTERPROCESS)
		return vg_fail(
			VG_INVALID, 0,
			"an event for other processes is not recorded again: make a new one with vg_stream_record()");
	return vg_fail(VG_INVALID, 0,
		       "the event is of a context on device %d, the work of another one on device %d: both must be of "
		       "one context",
		       event->context->device->ordinal, context->device->ordinal);
}

static inline enum vg_status check_record(const struct vg_event *event, const struct vg_context *context)
{
	if (__builtin_expect(!(event->flags & CU_EVENT_INTERPROCESS) && event->context->handle == context->handle, 1))
		return VG_OK;
	return refuse_record(event, context);
}

enum vg_status vg_event_record(struct vg_event *event, struct vg_stream *stream)
{
	VG_ENTRY();
	CORE_USABLE(event, "event");
	CORE_USABLE(stream, "stream");
	CORE_TRY(check_record(event, stream->context));
	return record_event(event, stream);
}

enum vg_status vg_context_record(struct vg_context *context, struct vg_event *event)
{
	VG_ENTRY();
	CORE_USABLE(context, "context");
	CORE_USABLE(event, "event");
	CORE_TRY(check_record(event, context));
	if (!context->green) {
		CORE_CALL(cuCtxRecordEvent, context->identity, event->handle);
	} else {
		vg_mutex_lock(&context->green_lock);
		CUresult r = core_driver->cuGreenCtxRecordEvent(context->green, event->handle);
		vg_mutex_unlock(&context->green_lock);
		if (r)
			return core_driver_failed(r, "cuGreenCtxRecordEvent", "%s", "");
	}
	atomic_store_explicit(&event->recorded, true, memory_order_relaxed);
	return VG_OK;
}

enum vg_status vg_context_wait_event(struct vg_context *context, struct vg_event *event)
{
	VG_ENTRY();
	CORE_USABLE(context, "context");
	CORE_USABLE(event, "event");
	if (!context->green) {
		CORE_CALL(cuCtxWaitEvent, context->identity, event->handle);
		return VG_OK;
	}
	vg_mutex_lock(&context->green_lock);
	CUresult r = core_driver->cuGreenCtxWaitEvent(context->green, event->handle);
	vg_mutex_unlock(&context->green_lock);
	return r ? core_driver_failed(r, "cuGreenCtxWaitEvent", "%s", "") : VG_OK;
}

enum vg_status vg_event_query(struct vg_event *event, int *ret_done)
{
	VG_ENTRY();
	CORE_USABLE(event, "event");
	CORE_NEEDED(ret_done);
	CORE_ENTER(scope, event->context->handle);
	CUresult r = core_driver->cuEventQuery(event->handle);
	if (__builtin_expect(r != CUDA_SUCCESS && r != CUDA_ERROR_NOT_READY, 0))
		return core_driver_failed(r, "cuEventQuery", "%s", "");
	*ret_done = r == CUDA_SUCCESS;
	return VG_OK;
}

enum vg_status vg_event_sync(struct vg_event *event)
{
	VG_ENTRY();
	CORE_USABLE(event, "event");
	CORE_ENTER(scope, event->context->handle);
	CORE_CALL(cuEventSynchronize, event->handle);
	return VG_OK;
}

// Explains the driver's error "invalid handle" or "not ready": says whether `start` or `end` caused it, and why.
static enum vg_status refuse_elapsed(const struct vg_event *start, const struct vg_event *end, CUresult r)
{
	if (r == CUDA_ERROR_NOT_READY) {
		CORE_RELAXED relaxed = core_relax();
		core_log_skip();
		bool start_done = core_driver->cuEventQuery(start->handle) == CUDA_SUCCESS;
		return vg_fail(VG_NOT_READY, 0, "the %s event has not completed: wait with vg_event_sync()",
			       start_done ? "end" : "start");
	}
	if (r == CUDA_ERROR_CAPTURED_EVENT)
		return core_explained(vg_fail(
			VG_STATE, 0, "an event that was recorded into a graph has no time: record it on a stream"));
	if (r == CUDA_ERROR_INVALID_HANDLE && !(start->recorded && end->recorded))
		return core_explained(vg_fail(VG_STATE, 0,
					      "the %s event was never recorded: record both with vg_event_record()",
					      start->recorded ? "end" : "start"));
	return core_driver_failed(r, "cuEventElapsedTime", "%s", "");
}

enum vg_status vg_event_elapsed(struct vg_event *start, struct vg_event *end, float *ret_milliseconds)
{
	VG_ENTRY();
	float milliseconds;

	CORE_USABLE(start, "start");
	CORE_USABLE(end, "end");
	CORE_NEEDED(ret_milliseconds);
	if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
		return vg_fail(VG_INVALID, 0, "the %s event has no timing: make both with .timing = 1",
			       start->flags & CU_EVENT_DISABLE_TIMING ? "start" : "end");
	if (start->context->handle != end->context->handle)
		return vg_fail(VG_INVALID, 0, "the events are of different contexts, on devices %d and %d",
			       start->context->device->ordinal, end->context->device->ordinal);
	CORE_ENTER(scope, start->context->handle);
	CUresult r = core_driver->cuEventElapsedTime_v2(&milliseconds, start->handle, end->handle);
	if (r)
		return refuse_elapsed(start, end, r);
	*ret_milliseconds = milliseconds;
	return VG_OK;
}

int vg_event_has_timing(const struct vg_event *event)
{
	return event && !(event->flags & CU_EVENT_DISABLE_TIMING);
}

int vg_event_is_blocking_sync(const struct vg_event *event)
{
	return event && (event->flags & CU_EVENT_BLOCKING_SYNC);
}

int vg_event_is_ipc(const struct vg_event *event)
{
	return event && (event->flags & CU_EVENT_INTERPROCESS);
}

struct vg_context *vg_event_context(const struct vg_event *event)
{
	return event ? event->context : NULL;
}

struct vg_device *vg_event_device(const struct vg_event *event)
{
	return event ? event->context->device : NULL;
}

struct CUevent_st *vg_event_handle(const struct vg_event *event)
{
	return event && !event->object.closed ? event->handle : NULL;
}
