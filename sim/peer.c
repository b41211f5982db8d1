// Implements peer access: kernels of a context may access allocations of another device.
#include "context.h"
#include "entry.h"
#include "memory.h"
#include "process.h"

struct change {
	const struct sim_context *peer;
	struct sim_device *device;
	CUmemAccess_flags access;
};

static void change_range(struct sim_range *range, void *data)
{
	struct change *change = data;

	if (range->context != change->peer || range->kind == SIM_RANGE_RESERVED || range->kind == SIM_RANGE_POOL)
		return;
	for (struct sim_mapping *mapping = range->mappings; mapping; mapping = mapping->next)
		sim_mapping_set_access(mapping, change->device, change->access);
}

static CUresult get_contexts(CUcontext handle, struct sim_context **ret_context, struct sim_context **ret_peer)
{
	SIM_TRY(sim_context_current(ret_context));
	SIM_TRY(sim_context_get(handle, ret_peer));
	*ret_context = (*ret_context)->parent;
	*ret_peer = (*ret_peer)->parent;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
	struct sim_context *context, *peer;

	SIM_ENTER(cuCtxEnablePeerAccess);
	if (Flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(get_contexts(peerContext, &context, &peer));
	if (context == peer)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (context->device == peer->device || !sim_process.config.peers)
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	struct change change = {peer, context->device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	sim_memory_lock();
	bool already = context->peers >> peer->device->ordinal & 1;
	context->peers |= 1u << peer->device->ordinal;
	if (!already)
		sim_ranges_each(change_range, &change);
	sim_memory_unlock();
	return already ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peerContext)
{
	struct sim_context *context, *peer;

	SIM_ENTER(cuCtxDisablePeerAccess);
	SIM_TRY(get_contexts(peerContext, &context, &peer));
	struct change change = {peer, context->device, CU_MEM_ACCESS_FLAGS_PROT_NONE};
	sim_memory_lock();
	bool enabled = context->peers >> peer->device->ordinal & 1;
	context->peers &= ~(1u << peer->device->ordinal);
	if (enabled)
		sim_ranges_each(change_range, &change);
	sim_memory_unlock();
	return enabled ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}
