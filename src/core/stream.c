#include "core/stream.h"

#include "core/error.h"

#include <stdlib.h>

static enum vg_status close_stream(struct core_object *object, const char *function)
{
	struct vg_stream *stream = (struct vg_stream *)object;

	if (stream->borrowed)
		return VG_OK;
	CORE_ENTER(scope, stream->context->handle);
	CUresult r = core_driver->cuStreamDestroy_v2(stream->handle);
	return r ? core_driver_failed(r, function, "cuStreamDestroy", "%s", "") : VG_OK;
}

static void free_stream(struct core_object *object)
{
	struct vg_stream *stream = (struct vg_stream *)object;

	core_object_release(&stream->context->object);
	free(stream);
}

static const struct core_class stream_class = {"stream", close_stream, free_stream};

static enum vg_status check_priority(int priority, const char *function)
{
	int least, greatest;

	CUresult r = core_driver->cuCtxGetStreamPriorityRange(&least, &greatest);
	if (r)
		return core_driver_failed(r, function, "cuCtxGetStreamPriorityRange", "%s", "");
	if (priority > least || priority < greatest)
		return vg_fail(VG_INVALID, 0, function, "stream priority %d: the device has %d (greatest) to %d (least)", priority,
			       greatest, least);
	return VG_OK;
}

enum vg_status vg_stream_create(struct vg_context *context, const struct vg_stream_options *options,
				struct vg_stream **ret_stream)
{
	struct vg_stream_options o;

	CORE_USABLE(context, "context");
	CORE_NEEDED(ret_stream);
	CORE_OPTIONS(o, options);
	CORE_ENTER(scope, context->handle);
	enum vg_status status = check_priority(o.priority, __func__);
	if (status)
		return status;
	struct vg_stream *stream = calloc(1, sizeof *stream);
	if (!stream)
		return vg_fail(VG_NO_MEMORY, 0, __func__, "no memory for a stream");
	CUresult r = core_driver->cuStreamCreateWithPriority(
		&stream->handle, o.blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING, o.priority);
	if (r) {
		free(stream);
		return core_driver_failed(r, __func__, "cuStreamCreateWithPriority", "%s", "");
	}
	core_object_init(&stream->object, &stream_class);
	core_object_retain(&context->object);
	stream->context = context;
	*ret_stream = stream;
	return VG_OK;
}

void vg_stream_destroy(struct vg_stream *stream)
{
	core_object_release(stream ? &stream->object : NULL);
}

enum vg_status vg_stream_sync(struct vg_stream *stream)
{
	CORE_USABLE(stream, "stream");
	CORE_ENTER(scope, stream->context->handle);
	CORE_CALL(cuStreamSynchronize, stream->handle);
	return VG_OK;
}

struct CUstream_st *vg_stream_handle(const struct vg_stream *stream)
{
	return stream && !stream->object.closed ? stream->handle : NULL;
}

struct vg_context *vg_stream_context(const struct vg_stream *stream)
{
	return stream ? stream->context : NULL;
}
