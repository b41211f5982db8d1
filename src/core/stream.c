#include "core/stream.h"

#include "base/hot.h"
#include "core/error.h"
#include "core/event.h"

#include <stdlib.h>

static enum vg_status close_stream(struct core_object *object)
{
	struct vg_stream *stream = (struct vg_stream *)object;

	if (stream->borrowed)
		return VG_OK;
	CUresult r = core_driver->cuStreamDestroy_v2(stream->handle); // works with any current context
	return r ? core_driver_failed(r, "cuStreamDestroy", "%s", "") : VG_OK;
}

static void free_stream(struct core_object *object)
{
	struct vg_stream *stream = (struct vg_stream *)object;

	if (stream->release)
		stream->release(stream->owner);
	core_object_release(&stream->context->object);
	free(stream);
}

static const struct core_class stream_class = {"stream", close_stream, free_stream};

static enum vg_status check_priority(int priority)
{
	int least, greatest;

	CUresult r = core_driver->cuCtxGetStreamPriorityRange(&least, &greatest);
	if (r)
		return core_driver_failed(r, "cuCtxGetStreamPriorityRange", "%s", "");
	if (priority > least || priority < greatest)
		return vg_fail(VG_INVALID, 0, "stream priority %d: the device has %d (greatest) to %d (least)",
			       priority, greatest, least);
	return VG_OK;
}

enum vg_status core_stream_wrap(struct vg_context *context, CUstream handle, bool borrowed,
				struct vg_stream **ret_stream)
{
	struct vg_stream *stream = vg_lines(sizeof *stream);

	if (!stream)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a stream");
	core_object_init(&stream->object, &stream_class);
	core_object_retain(&context->object);
	stream->context = context;
	stream->device = context->device;
	stream->handle = handle;
	stream->by_context = !handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD || context->green;
	stream->borrowed = borrowed;
	*ret_stream = stream;
	return VG_OK;
}

static CUresult create_native(struct vg_context *context, unsigned flags, int priority, CUstream *ret_handle)
{
	if (!context->green)
		return core_driver->cuStreamCreateWithPriority(ret_handle, flags, priority);
	vg_mutex_lock(&context->green_lock);
	CUresult r = core_driver->cuGreenCtxStreamCreate(ret_handle, context->green, flags, priority);
	vg_mutex_unlock(&context->green_lock);
	return r;
}

enum vg_status vg_stream_create(struct vg_context *context, const struct vg_stream_options *options,
				struct vg_stream **ret_stream)
{
	VG_ENTRY();
	struct vg_stream *stream = NULL;
	struct vg_stream_options o;
	CUstream handle;

	CORE_USABLE(context, "context");
	CORE_NEEDED(ret_stream);
	CORE_OPTIONS(o, options);
	if (o.blocking && context->green)
		return vg_fail(VG_INVALID, 0, "a green context's streams must be non-blocking: leave .blocking at 0");
	CORE_ENTER(scope, context->handle);
	CORE_TRY(check_priority(o.priority));
	unsigned flags = o.blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
	CUresult r = create_native(context, flags, o.priority, &handle);
	if (r)
		return core_driver_failed(r, context->green ? "cuGreenCtxStreamCreate" : "cuStreamCreateWithPriority",
					  "%s", "");
	enum vg_status status = core_stream_wrap(context, handle, false, &stream);
	if (status) {
		core_driver->cuStreamDestroy_v2(handle);
		return status;
	}
	stream->flags = flags;
	stream->priority = o.priority;
	*ret_stream = stream;
	return VG_OK;
}

void vg_stream_destroy(struct vg_stream *stream)
{
	core_object_release(stream ? &stream->object : NULL);
}

enum vg_status vg_stream_close(struct vg_stream *stream)
{
	VG_ENTRY();
	CORE_NEEDED(stream);
	return core_object_close(&stream->object);
}

enum vg_status vg_stream_sync(struct vg_stream *stream)
{
	VG_ENTRY();
	CORE_USABLE(stream, "stream");
	CORE_ENTER(scope, stream->context->handle);
	CORE_CALL(cuStreamSynchronize, stream->handle);
	return VG_OK;
}

enum vg_status vg_stream_query(struct vg_stream *stream, int *ret_done)
{
	VG_ENTRY();
	CORE_USABLE(stream, "stream");
	CORE_NEEDED(ret_done);
	CORE_ENTER(scope, stream->context->handle);
	CUresult r = core_driver->cuStreamQuery(stream->handle);
	if (__builtin_expect(r != CUDA_SUCCESS && r != CUDA_ERROR_NOT_READY, 0))
		return core_driver_failed(r, "cuStreamQuery", "%s", "");
	*ret_done = r == CUDA_SUCCESS;
	return VG_OK;
}

enum vg_status vg_stream_wait_event(struct vg_stream *stream, struct vg_event *event)
{
	VG_ENTRY();
	CORE_USABLE(stream, "stream");
	CORE_USABLE(event, "event");
	CORE_ENTER(scope, stream->context->handle);
	CORE_CALL(cuStreamWaitEvent, stream->handle, event->handle, CU_EVENT_WAIT_DEFAULT);
	return VG_OK;
}

// Records a new event on `other`, in that stream's context. The caller destroys the event.
static enum vg_status record_mark(struct vg_stream *other, CUevent *ret_event)
{
	CORE_ENTER(scope, other->context->handle);
	CUresult r = core_driver->cuEventCreate(ret_event, CU_EVENT_DISABLE_TIMING);
	if (r)
		return core_driver_failed(r, "cuEventCreate", "%s", "");
	r = core_driver->cuEventRecord(*ret_event, other->handle);
	if (r == CUDA_SUCCESS)
		return VG_OK;
	core_driver->cuEventDestroy_v2(*ret_event);
	return core_driver_failed(r, "cuEventRecord", "%s", "");
}

enum vg_status vg_stream_wait_stream(struct vg_stream *stream, struct vg_stream *other)
{
	VG_ENTRY();
	CUevent event;

	CORE_USABLE(stream, "stream");
	CORE_USABLE(other, "other");
	CORE_TRY(record_mark(other, &event));
	CORE_SCOPE scope = {false};
	CUresult r = core_enter(&scope, stream->context->handle);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuStreamWaitEvent(stream->handle, event, CU_EVENT_WAIT_DEFAULT);
	core_driver->cuEventDestroy_v2(event); // destroying the event does not affect a wait that is queued
	return r ? core_driver_failed(r, "cuStreamWaitEvent", "%s", "") : VG_OK;
}

int vg_stream_is_blocking(const struct vg_stream *stream)
{
	return stream && !(stream->flags & CU_STREAM_NON_BLOCKING);
}

int vg_stream_priority(const struct vg_stream *stream)
{
	return stream ? stream->priority : 0;
}

struct CUstream_st *vg_stream_handle(const struct vg_stream *stream)
{
	return stream && !stream->object.closed ? stream->handle : NULL;
}

struct vg_context *vg_stream_context(const struct vg_stream *stream)
{
	return stream ? stream->context : NULL;
}

struct vg_device *vg_stream_device(const struct vg_stream *stream)
{
	return stream ? stream->context->device : NULL;
}
