// Green contexts: a share of a device's SMs, and streams on it. They use the primary
// context's memory and modules.
#include <stdlib.h>

#include "context.h"
#include "stream.h"

enum { GREEN_MAGIC = 0x47524e32, DESCRIPTOR_MAGIC = 0x44455332, RESOURCE_MAGIC = 0x52455332 };

struct resource { // in CUdevResource's private bytes
	uint32_t magic, device;
	uint8_t mask[SIM_SMS / 8];
};
_Static_assert(sizeof(struct resource) <= sizeof(((CUdevResource *)0)->_internal_padding), "fits");

struct descriptor {
	uint32_t magic, device;
	uint8_t mask[SIM_SMS / 8];
};

static atomic_ullong green_ids = 1;

static unsigned count_of(const uint8_t *mask)
{
	unsigned count = 0;
	for (int i = 0; i < SIM_SMS / 8; i++)
		count += (unsigned)__builtin_popcount(mask[i]);
	return count;
}

// SMs come in groups of 8 (of a cluster's size), or, each for itself, of 2.
static unsigned step(unsigned flags)
{
	if (sim_process.config.cc_major < 9)
		return sim_process.config.cc_major < 8 ? 2 : 4;
	return flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING ? 2 : 8;
}

static void fill(CUdevResource *to, int device, const uint8_t *mask, unsigned flags)
{
	struct resource hidden = {.magic = RESOURCE_MAGIC, .device = (uint32_t)device};

	memset(to, 0, sizeof *to);
	memcpy(hidden.mask, mask, sizeof hidden.mask);
	memcpy(to->_internal_padding, &hidden, sizeof hidden);
	to->type = CU_DEV_RESOURCE_TYPE_SM;
	to->sm.smCount = count_of(mask);
	to->sm.minSmPartitionSize = step(flags);
	to->sm.smCoscheduledAlignment = step(flags);
}

static CUresult unpack(const CUdevResource *from, struct resource *ret_hidden)
{
	memcpy(ret_hidden, from->_internal_padding, sizeof *ret_hidden);
	return from->type == CU_DEV_RESOURCE_TYPE_SM && ret_hidden->magic == RESOURCE_MAGIC ? CUDA_SUCCESS
											      : CUDA_ERROR_INVALID_RESOURCE_TYPE;
}

static void all_sms(uint8_t *ret_mask)
{
	memset(ret_mask, 0, SIM_SMS / 8);
	for (unsigned i = 0; i < sim_process.config.sms; i++)
		ret_mask[i / 8] |= (uint8_t)(1 << i % 8);
}

static CUresult give(CUdevResource *resource, CUdevResourceType type, int device, const uint8_t *mask)
{
	if (!resource)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	fill(resource, device, mask, 0);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetDevResource(CUdevice device_, CUdevResource *resource, CUdevResourceType type)
{
	struct sim_device *device;
	uint8_t mask[SIM_SMS / 8];

	SIM_ENTER(cuDeviceGetDevResource);
	SIM_TRY(sim_device_get(device_, &device));
	all_sms(mask);
	return give(resource, type, device->ordinal, mask);
}

// Moves the first `count` SMs of `from` to `to`.
static void take(uint8_t *from, uint8_t *to, unsigned count)
{
	memset(to, 0, SIM_SMS / 8);
	for (unsigned i = 0; i < SIM_SMS && count; i++) {
		uint8_t bit = (uint8_t)(1 << i % 8);
		if (!(from[i / 8] & bit))
			continue;
		from[i / 8] &= (uint8_t)~bit;
		to[i / 8] |= bit;
		count--;
	}
}

CUresult CUDAAPI cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *nbGroups, const CUdevResource *input,
					     CUdevResource *remaining, unsigned int useFlags, unsigned int minCount)
{
	const unsigned known = CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING | CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE;
	struct resource hidden;

	SIM_ENTER(cuDevSmResourceSplitByCount);
	if (!nbGroups || !input || (useFlags & ~known))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(unpack(input, &hidden));
	unsigned unit = step(useFlags), have = count_of(hidden.mask);
	unsigned size = minCount == 0 ? unit : (minCount + unit - 1) / unit * unit;
	if (size > have || minCount > have)
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	if (!result) {
		*nbGroups = have / size;
		return CUDA_SUCCESS;
	}
	if (*nbGroups > have / size)
		*nbGroups = have / size;
	for (unsigned i = 0; i < *nbGroups; i++) {
		uint8_t mask[SIM_SMS / 8];
		take(hidden.mask, mask, size);
		fill(&result[i], (int)hidden.device, mask, useFlags);
	}
	if (remaining) {
		fill(remaining, (int)hidden.device, hidden.mask, useFlags);
		if (count_of(hidden.mask) == 0)
			remaining->type = CU_DEV_RESOURCE_TYPE_INVALID;
	}
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevResourceGenerateDesc(CUdevResourceDesc *phDesc, CUdevResource *resources, unsigned int nbResources)
{
	struct descriptor *descriptor;
	struct resource hidden;

	SIM_ENTER(cuDevResourceGenerateDesc);
	if (!phDesc || !resources || nbResources == 0)
		return CUDA_ERROR_INVALID_VALUE;
	descriptor = calloc(1, sizeof *descriptor);
	if (!descriptor)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < nbResources; i++) {
		CUresult result = unpack(&resources[i], &hidden);
		if (result == CUDA_SUCCESS && i > 0 && hidden.device != descriptor->device)
			result = CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
		for (int b = 0; b < SIM_SMS / 8 && result == CUDA_SUCCESS; b++) {
			if (descriptor->mask[b] & hidden.mask[b]) // the same SM twice
				result = CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
			descriptor->mask[b] |= hidden.mask[b];
		}
		if (result != CUDA_SUCCESS) {
			free(descriptor);
			return result;
		}
		descriptor->device = hidden.device;
	}
	descriptor->magic = DESCRIPTOR_MAGIC;
	*phDesc = (CUdevResourceDesc)descriptor; // the API has no call that frees it
	return CUDA_SUCCESS;
}

static CUresult green_get(CUgreenCtx handle, struct sim_green **ret_green)
{
	struct sim_green *green = (struct sim_green *)handle;

	if ((uintptr_t)handle < 4096 || (uintptr_t)handle % sizeof(void *) || green->magic != GREEN_MAGIC)
		return CUDA_ERROR_INVALID_CONTEXT;
	*ret_green = green;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags)
{
	const struct descriptor *descriptor = (const struct descriptor *)desc;
	struct sim_device *device;
	struct sim_context *context;

	SIM_ENTER(cuGreenCtxCreate);
	if (!phCtx || !(flags & CU_GREEN_CTX_DEFAULT_STREAM) || (flags & ~(unsigned)CU_GREEN_CTX_DEFAULT_STREAM) || !desc ||
	    descriptor->magic != DESCRIPTOR_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_device_get(dev, &device));
	if (descriptor->device != (uint32_t)device->ordinal)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_primary_retain(device, &context));
	struct sim_green *green = calloc(1, sizeof *green);
	if (!green) {
		sim_primary_release(device, false);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	green->device = device;
	green->context = context;
	memcpy(green->mask, descriptor->mask, sizeof green->mask);
	green->sms = count_of(green->mask);
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
	SIM_TRY(green_get(hCtx, &green));
	green->magic = 0; // the struct stays: its handle is told from garbage
	if (green->view)
		sim_context_end(green->view);
	sim_stream_close(green->internal);
	return sim_primary_release(green->device, false);
}

CUresult CUDAAPI cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource *resource, CUdevResourceType type)
{
	struct sim_green *green;

	SIM_ENTER(cuGreenCtxGetDevResource);
	SIM_TRY(green_get(hCtx, &green));
	return give(resource, type, green->device->ordinal, green->mask);
}

CUresult CUDAAPI cuCtxGetDevResource(CUcontext hCtx, CUdevResource *resource, CUdevResourceType type)
{
	struct sim_context *context;
	uint8_t mask[SIM_SMS / 8];

	SIM_ENTER(cuCtxGetDevResource);
	SIM_TRY(sim_context_get(hCtx, &context));
	all_sms(mask);
	return give(resource, type, context->device->ordinal, context->green ? context->green->mask : mask);
}

CUresult CUDAAPI cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long *greenCtxId)
{
	struct sim_green *green;

	SIM_ENTER(cuGreenCtxGetId);
	SIM_TRY(green_get(greenCtx, &green));
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
	SIM_TRY(green_get(hCtx, &green));
	if (!pContext)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&green->device->lock);
	if (!green->view) {
		result = sim_context_new(green->device, 0, green->context, NULL, &green->view);
		if (result == CUDA_SUCCESS) {
			green->view->green = green;
			green->view->sms = green->sms;
			green->view->legacy->green = green;
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
	SIM_TRY(green_get(greenCtx, &green));
	if (!phStream || flags != CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_stream *stream = sim_stream_new(green->context, flags, priority);
	stream->green = green;
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
	SIM_TRY(green_get(hCtx, &green));
	SIM_TRY(sim_event_get(hEvent, &event));
	if (event->context->parent != green->context)
		return CUDA_ERROR_INVALID_HANDLE;
	return sim_context_record(green->context, green, green->internal, event);
}

CUresult CUDAAPI cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent)
{
	struct sim_green *green;
	struct sim_event *event;

	SIM_ENTER(cuGreenCtxWaitEvent);
	SIM_TRY(green_get(hCtx, &green));
	SIM_TRY(sim_event_get(hEvent, &event));
	return sim_context_wait(green->context, green, event);
}
