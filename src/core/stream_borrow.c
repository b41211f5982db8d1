// Creates objects of streams that the objects do not destroy: default streams, and streams of the program.
#include "core/error.h"
#include "core/stream.h"

#include <stdlib.h>
#include <string.h>

// Reads the properties of the stream from the driver.
static enum vg_status read_properties(struct vg_stream *stream)
{
	CORE_ENTER(scope, stream->context->handle);
	CUresult r = core_driver->cuStreamGetFlags(stream->handle, &stream->flags);
	if (r)
		return core_driver_failed(r, "cuStreamGetFlags", "%s", "");
	r = core_driver->cuStreamGetPriority(stream->handle, &stream->priority);
	return r ? core_driver_failed(r, "cuStreamGetPriority", "%s", "") : VG_OK;
}

static enum vg_status wrap_borrowed(struct vg_context *context, CUstream handle, struct vg_stream **ret_stream)
{
	struct vg_stream *stream;

	CORE_TRY(core_stream_wrap(context, handle, true, &stream));
	enum vg_status status = read_properties(stream);
	if (status)
		core_object_release(&stream->object);
	else
		*ret_stream = stream;
	return status;
}

enum vg_status vg_stream_default(struct vg_context *context, enum vg_default_stream which,
				 struct vg_stream **ret_stream)
{
	VG_ENTRY();
	CORE_USABLE(context, "context");
	CORE_NEEDED(ret_stream);
	if ((unsigned)which > VG_DEFAULT_STREAM_PER_THREAD)
		return vg_fail(VG_INVALID, 0, "default stream %d: there are %d (legacy) and %d (per thread)", which,
			       VG_DEFAULT_STREAM_LEGACY, VG_DEFAULT_STREAM_PER_THREAD);
	if (context->green)
		return vg_fail(VG_INVALID, 0,
			       "a green context's default stream is there only while it is current: make one with "
			       "vg_stream_create()");
	if (which == VG_DEFAULT_STREAM_CHOSEN) {
		const char *chosen = getenv("VIRGATE_PER_THREAD_DEFAULT_STREAM");
		which = chosen && *chosen && strcmp(chosen, "0") != 0 ? VG_DEFAULT_STREAM_PER_THREAD
								      : VG_DEFAULT_STREAM_LEGACY;
	}
	return wrap_borrowed(context, which == VG_DEFAULT_STREAM_LEGACY ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD,
			     ret_stream);
}

// Creates the object of the context to which the stream belongs.
static enum vg_status borrow_context(CUstream handle, struct vg_context **ret_context)
{
	CUcontext identity = NULL;
	CUgreenCtx green = NULL; // the driver sets either `context` or `green`

	CUresult r = core_driver->cuStreamGetCtx_v2(handle, &identity, &green);
	if (r)
		return core_driver_failed(r, "cuStreamGetCtx", "%s", "");
	r = green ? core_driver->cuCtxFromGreenCtx(&identity, green) : CUDA_SUCCESS;
	if (r)
		return core_driver_failed(r, "cuCtxFromGreenCtx", "%s", "");
	return core_context_borrow(identity, green, ret_context);
}

enum vg_status vg_stream_borrow(struct CUstream_st *handle, void *owner, void (*release)(void *owner),
				struct vg_stream **ret_stream)
{
	VG_ENTRY();
	struct vg_context *context;
	struct vg_stream *stream;

	CORE_NEEDED(ret_stream);
	if (handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
		return vg_fail(
			VG_INVALID, 0,
			"%p is a default stream, another one in each context: get a context's with vg_stream_default()",
			(void *)handle);
	CORE_TRY(core_open());
	CORE_TRY(borrow_context(handle, &context));
	enum vg_status status = wrap_borrowed(context, handle, &stream);
	core_object_release(&context->object); // the stream has its own reference
	if (status)
		return status;
	stream->owner = owner;
	stream->release = release;
	*ret_stream = stream;
	return VG_OK;
}
