// Implements the driver's functions for streams. Each also exists for the per-thread default stream.
#include <stdlib.h>

#include "capture.h"
#include "entry.h"
#include "green.h"
#include "process.h"
#include "stream.h"

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
	struct sim_context *context;

	SIM_ENTER(cuStreamCreateWithPriority);
	SIM_TRY(sim_context_current(&context));
	if (!phStream || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_stream *stream = sim_stream_new(context, flags, priority);
	sim_context_order_stream(stream);
	*phStream = sim_stream_handle(stream);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
	SIM_ENTER(cuStreamCreate);
	return cuStreamCreateWithPriority(phStream, Flags, 0);
}

CUresult CUDAAPI cuStreamDestroy_v2(CUstream hStream)
{
	struct sim_stream *stream;

	SIM_ENTER(cuStreamDestroy_v2);
	if ((uintptr_t)hStream <= (uintptr_t)CU_STREAM_PER_THREAD)
		return CUDA_ERROR_INVALID_HANDLE;
	SIM_TRY(sim_stream_get_any(hStream, &stream));
	if (stream->legacy || stream->per_thread)
		return CUDA_ERROR_INVALID_HANDLE;
	if (atomic_load(&stream->capture))
		sim_capture_abandon(stream);
	CUresult error = sim_failure();
	sim_stream_close(stream);
	return error;
}

CUresult CUDAAPI cuStreamDestroy(CUstream hStream)
{
	SIM_ENTER(cuStreamDestroy);
	return cuStreamDestroy_v2(hStream);
}

CUresult CUDAAPI cuStreamQuery(CUstream hStream)
{
	struct sim_stream *stream;

	SIM_ENTER(cuStreamQuery);
	SIM_TRY(sim_stream_get(hStream, &stream));
	SIM_TRY(sim_capture_check_stream(stream));
	SIM_TRY(sim_capture_check_unsafe());
	if (!atomic_load_explicit(&stream->pending, memory_order_acquire))
		return CUDA_SUCCESS;
	sim_stream_wait_for_room(stream); // the real driver's launch holds the stream's lock while it waits for room
	return atomic_load_explicit(&stream->pending, memory_order_acquire) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamQuery_ptsz(CUstream hStream)
{
	SIM_ENTER(cuStreamQuery_ptsz);
	return cuStreamQuery(SIM_PTSZ(hStream));
}

CUresult CUDAAPI cuStreamSynchronize(CUstream hStream)
{
	struct sim_stream *stream;

	SIM_ENTER(cuStreamSynchronize);
	SIM_TRY(sim_stream_get(hStream, &stream));
	SIM_TRY(sim_capture_check_stream(stream));
	SIM_TRY(sim_capture_check_unsafe());
	return sim_stream_wait_idle(stream);
}

CUresult CUDAAPI cuStreamSynchronize_ptsz(CUstream hStream)
{
	SIM_ENTER(cuStreamSynchronize_ptsz);
	return cuStreamSynchronize(SIM_PTSZ(hStream));
}

// Defines a driver function that returns a property of a stream.
#define PROPERTY(name, type, result, value)                          \
	CUresult CUDAAPI name(CUstream hStream, type *result)        \
	{                                                            \
		struct sim_stream *stream;                           \
		SIM_ENTER(name);                                     \
		SIM_TRY(sim_stream_get(hStream, &stream));           \
		if (!result)                                         \
			return CUDA_ERROR_INVALID_VALUE;             \
		*result = value;                                     \
		return CUDA_SUCCESS;                                 \
	}                                                            \
	CUresult CUDAAPI name##_ptsz(CUstream hStream, type *result) \
	{                                                            \
		SIM_ENTER(name##_ptsz);                              \
		return name(SIM_PTSZ(hStream), result);              \
	}

static CUcontext get_stream_context(const struct sim_stream *stream)
{
	return sim_context_handle(stream->green && stream->green->view ? stream->green->view : stream->context);
}

PROPERTY(cuStreamGetPriority, int, priority, stream->priority)
PROPERTY(cuStreamGetFlags, unsigned int, flags, stream->flags)
PROPERTY(cuStreamGetId, unsigned long long, streamId, stream->id)
PROPERTY(cuStreamGetCtx, CUcontext, pctx, get_stream_context(stream))
PROPERTY(cuStreamGetDevice, CUdevice, device, stream->context->device->ordinal)

CUresult CUDAAPI cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
	struct sim_stream *stream;

	SIM_ENTER(cuStreamGetCtx_v2);
	SIM_TRY(sim_stream_get(hStream, &stream));
	if (!pCtx || !pGreenCtx)
		return CUDA_ERROR_INVALID_VALUE;
	*pCtx = sim_context_handle(stream->context); // for a green context's stream: the primary context
	*pGreenCtx = (CUgreenCtx)stream->green;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCtx_v2_ptsz(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
	SIM_ENTER(cuStreamGetCtx_v2_ptsz);
	return cuStreamGetCtx_v2(SIM_PTSZ(hStream), pCtx, pGreenCtx);
}

CUresult CUDAAPI cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value_out)
{
	struct sim_stream *stream;

	SIM_ENTER(cuStreamGetAttribute);
	SIM_TRY(sim_stream_get(hStream, &stream));
	if (!value_out)
		return CUDA_ERROR_INVALID_VALUE;
	switch ((int)attr) {
	case CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY:
	case CU_STREAM_ATTRIBUTE_PRIORITY:
	case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN:
		*value_out = stream->attributes[attr];
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult CUDAAPI cuStreamGetAttribute_ptsz(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value_out)
{
	SIM_ENTER(cuStreamGetAttribute_ptsz);
	return cuStreamGetAttribute(SIM_PTSZ(hStream), attr, value_out);
}

CUresult CUDAAPI cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value)
{
	struct sim_stream *stream;

	SIM_ENTER(cuStreamSetAttribute);
	SIM_TRY(sim_stream_get(hStream, &stream));
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	switch ((int)attr) {
	case CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY:
		if (value->syncPolicy < CU_SYNC_POLICY_AUTO || value->syncPolicy > CU_SYNC_POLICY_BLOCKING_SYNC)
			return CUDA_ERROR_INVALID_VALUE;
		break;
	case CU_STREAM_ATTRIBUTE_PRIORITY:
		stream->priority = value->priority < -5 ? -5 : value->priority > 0 ? 0 : value->priority;
		break;
	case CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN:
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	stream->attributes[attr] = *value;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamSetAttribute_ptsz(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value)
{
	SIM_ENTER(cuStreamSetAttribute_ptsz);
	return cuStreamSetAttribute(SIM_PTSZ(hStream), attr, value);
}

CUresult CUDAAPI cuStreamCopyAttributes(CUstream dst, CUstream src)
{
	struct sim_stream *to, *from;

	SIM_ENTER(cuStreamCopyAttributes);
	SIM_TRY(sim_stream_get(dst, &to));
	SIM_TRY(sim_stream_get(src, &from));
	if (to->context->parent != from->context->parent)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(to->attributes, from->attributes, sizeof to->attributes);
	to->priority = from->priority;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamCopyAttributes_ptsz(CUstream dst, CUstream src)
{
	SIM_ENTER(cuStreamCopyAttributes_ptsz);
	return cuStreamCopyAttributes(SIM_PTSZ(dst), SIM_PTSZ(src));
}
