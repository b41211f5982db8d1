// Implements green contexts. A green context is a part of a device's multiprocessors, with streams that use it. It uses
// the memory and the modules of the primary context.
#include <stdlib.h>

#include "entry.h"
#include "event.h"
#include "green.h"
#include "process.h"
#include "stream.h"

enum { GREEN_MAGIC = 0x47524e32 };

static atomic_ullong green_ids = 1;

static CUresult get_green(CUgreenCtx handle, struct sim_green **ret_green)
{
	struct sim_green *green = (struct sim_green *)handle;

	if ((uintptr_t)handle < 4096 || (uintptr_t)handle % sizeof(void *) || green->magic != GREEN_MAGIC)
		return CUDA_ERROR_INVALID_CONTEXT;
	*ret_green = green;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags)
{
	const struct sim_green_descriptor *descriptor;
	struct sim_device *device;
	struct sim_context *context;

	SIM_ENTER(cuGreenCtxCreate);
	if (!phCtx || !(flags & CU_GREEN_CTX_DEFAULT_STREAM) || (flags & ~(unsigned)CU_GREEN_CTX_DEFAULT_STREAM))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_green_descriptor_get(desc, &descriptor));
	SIM_TRY(sim_device_get(dev, &device));
	if (descriptor->device != (uint32_t)device->ordinal)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_primary_retain(device, &context));
	struct sim_green *green = calloc(1, sizeof *green);
	CUresult result = green ? sim_context_alloc_green(context) : CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS) {
		free(green);
		sim_primary_release(device);
		return result;
	}
	green->device = device;
	green->context = context;
	memcpy(green->mask, descriptor->mask, sizeof green->mask);
	green->workqueue = descriptor->workqueue;
	green->sms = sim_green_count(green->mask);
	green->id = atomic_fetch_add(&green_ids, 1);
	green->internal = sim_stream_new(context, CU_STREAM_NON_BLOCKING, 0);
	green->internal->green = green;
	green->magic = GREEN_MAGIC;
	*phCtx = (CUgreenCtx)green;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGreenCtxDestroy(CUgreenCtx hCtx)
{
	struct sim_green *green;

	SIM_ENTER(cuGreenCtxDestroy);
	SIM_TRY(get_green(hCtx, &green));
	green->magic = 0; // the struct is not freed, so that a later use of the handle finds an invalid magic number
	if (green->view)
		sim_context_end(green->view);
	sim_stream_close(green->internal);
	return sim_primary_release(green->device);
}

CUresult CUDAAPI cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource *resource, CUdevResourceType type)
{
	struct sim_green *green;

	SIM_ENTER(cuGreenCtxGetDevResource);
	SIM_TRY(get_green(hCtx, &green));
	return sim_green_get_resource(resource, type, green->device, green);
}

CUresult CUDAAPI cuCtxGetDevResource(CUcontext hCtx, CUdevResource *resource, CUdevResourceType type)
{
	struct sim_context *context;

	SIM_ENTER(cuCtxGetDevResource);
	SIM_TRY(sim_context_get(hCtx, &context));
	return sim_green_get_resource(resource, type, context->device, context->green);
}

CUresult CUDAAPI sim_stream_get_resource(CUstream handle, CUdevResource *resource, CUdevResourceType type)
{
	struct sim_stream *stream;

	// entries.def has no row for cuStreamGetDevResource, so the call counts as cuStreamGetGreenCtx for the
	// gate (entry.h).
	SIM_TRY(sim_enter(VG_ENTRY_cuStreamGetGreenCtx));
	SIM_TRY(sim_stream_get(handle, &stream));
	return sim_green_get_resource(resource, type, stream->context->device, stream->green);
}

CUresult CUDAAPI cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long *greenCtxId)
{
	struct sim_green *green;

	SIM_ENTER(cuGreenCtxGetId);
	SIM_TRY(get_green(greenCtx, &green));
	if (!greenCtxId)
		return CUDA_ERROR_INVALID_VALUE;
	*greenCtxId = green->id;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx)
{
	struct sim_green *green;
	CUresult result = CUDA_SUCCESS;

	SIM_ENTER(cuCtxFromGreenCtx);
	SIM_TRY(get_green(hCtx, &green));
	if (!pContext)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&green->device->lock);
	if (!green->view) {
		result = sim_context_new(green->device, 0, green->context, NULL, &green->view);
		if (result == CUDA_SUCCESS) {
			green->view->green = green;
			green->view->sms = green->sms;
			green->view->legacy->green = green;
			green->view->next_view = atomic_load(&green->context->views);
			atomic_store(&green->context->views, green->view);
			sim_context_order_stream(green->view->legacy);
		}
	}
	pthread_mutex_unlock(&green->device->lock);
	SIM_TRY(result);
	*pContext = sim_context_handle(green->view);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags, int priority)
{
	struct sim_green *green;

	SIM_ENTER(cuGreenCtxStreamCreate);
	SIM_TRY(get_green(greenCtx, &green));
	if (!phStream || flags != CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_stream *stream = sim_stream_new(green->context, flags, priority);
	stream->green = green;
	sim_context_order_stream(stream);
	*phStream = sim_stream_handle(stream);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx)
{
	struct sim_stream *stream;

	SIM_ENTER(cuStreamGetGreenCtx);
	SIM_TRY(sim_stream_get(hStream, &stream));
	if (!phCtx)
		return CUDA_ERROR_INVALID_VALUE;
	*phCtx = (CUgreenCtx)stream->green;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGreenCtxRecordEvent(CUgreenCtx hCtx, CUevent hEvent)
{
	struct sim_green *green;
	struct sim_event *event;

	SIM_ENTER(cuGreenCtxRecordEvent);
	SIM_TRY(get_green(hCtx, &green));
	SIM_TRY(sim_event_get(hEvent, &event));
	return sim_context_record(green->context, green, event);
}

CUresult CUDAAPI cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent)
{
	struct sim_green *green;
	struct sim_event *event;

	SIM_ENTER(cuGreenCtxWaitEvent);
	SIM_TRY(get_green(hCtx, &green));
	SIM_TRY(sim_event_get(hEvent, &event));
	return sim_context_wait(green->context, green, event);
}
