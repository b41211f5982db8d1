// Implements IPC handles, by which processes open each other's memory and events.
#include <stdlib.h>
#include <unistd.h>

#include "context.h"
#include "entry.h"
#include "event.h"
#include "memory.h"
#include "process.h"

enum { IPC_MEMORY = 0x49504d31, IPC_EVENT = 0x49504531 };

struct memory_handle { // in CUipcMemHandle
	uint32_t magic;
	int32_t pid;
	uint64_t id, offset, size;
	uint8_t node[16];
};

struct event_handle { // in CUipcEventHandle
	uint32_t magic;
	int32_t pid;
	uint32_t index, generation;
	uint8_t node[16];
};
_Static_assert(sizeof(struct memory_handle) <= sizeof(CUipcMemHandle), "fits a handle");
_Static_assert(sizeof(struct event_handle) <= sizeof(CUipcEventHandle), "fits a handle");

static void get_node_id(uint8_t ret_node[16])
{
	region_uuid(&sim_process.config, 0, ret_node);
}

static bool is_same_node(const uint8_t node[16])
{
	uint8_t mine[16];

	get_node_id(mine);
	return memcmp(node, mine, sizeof mine) == 0;
}

CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	struct memory_handle handle = {.magic = IPC_MEMORY, .pid = getpid()};
	struct sim_context *context;
	struct sim_pointer pointer;

	SIM_ENTER(cuIpcGetMemHandle);
	SIM_TRY(sim_context_current(&context));
	if (!pHandle || !sim_pointer_find(dptr, &pointer) || !pointer.range ||
	    (pointer.range->kind != SIM_RANGE_DEVICE && pointer.range->kind != SIM_RANGE_BLOCK))
		return CUDA_ERROR_INVALID_VALUE;
	handle.id = pointer.range->mappings->physical->id;
	handle.offset = pointer.base - pointer.range->base;
	handle.size = pointer.size;
	get_node_id(handle.node);
	memset(pHandle, 0, sizeof *pHandle);
	memcpy(pHandle, &handle, sizeof handle);
	return CUDA_SUCCESS;
}

static struct opened { // memory of another process that this process has opened `count` times
	uint64_t id;
	struct sim_range *range;
	unsigned count;
	struct opened *next;
} * openings;

static struct opened *find_opening(uint64_t id)
{
	for (struct opened *one = openings; one; one = one->next)
		if (one->id == id)
			return one;
	return NULL;
}

// Opens memory of another process. Call it with the memory lock held.
static CUresult open_memory(struct sim_context *context, const struct memory_handle *handle, struct opened **ret_opened)
{
	struct sim_physical *physical;
	struct opened *one;
	size_t size;
	int device;

	if (region_ref(sim_process.region, handle->id, &device, &size) != 0 || handle->offset >= size)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_device *on = NULL;
	for (int i = 0; i < sim_process.device_count; i++)
		if (sim_process.devices[i].physical == device)
			on = &sim_process.devices[i];
	one = calloc(1, sizeof *one);
	physical = on && one ? sim_physical_adopt(on, handle->id, size, -1) : NULL;
	if (!physical) {
		free(one);
		region_unref(sim_process.region, handle->id);
		return on ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_DEVICE;
	}
	physical->shared = true;
	physical->foreign = CUDA_ERROR_INVALID_VALUE;
	CUresult result = sim_range_reserve(size, SIM_GRANULE, 0, SIM_RANGE_IPC, &one->range);
	if (result == CUDA_SUCCESS) {
		one->range->context = context;
		one->range->device = on;
		result = sim_range_map(one->range, one->range->base, physical);
		if (result != CUDA_SUCCESS)
			sim_range_free(one->range);
	}
	sim_physical_unref(physical);
	if (result != CUDA_SUCCESS) {
		free(one);
		return result;
	}
	sim_mapping_set_access(one->range->mappings, on, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	sim_mapping_set_access(one->range->mappings, context->device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	one->id = handle->id;
	one->range->owner = one;
	one->next = openings;
	openings = one;
	*ret_opened = one;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle_, unsigned int Flags)
{
	struct memory_handle handle;
	struct sim_context *context;
	CUresult result = CUDA_SUCCESS;

	SIM_ENTER(cuIpcOpenMemHandle_v2);
	SIM_TRY(sim_context_current(&context));
	memcpy(&handle, &handle_, sizeof handle);
	if (!pdptr || Flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || handle.magic != IPC_MEMORY ||
	    !is_same_node(handle.node))
		return CUDA_ERROR_INVALID_VALUE;
	if (handle.pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	sim_memory_lock();
	struct opened *one = find_opening(handle.id);
	if (!one)
		result = open_memory(context->parent, &handle, &one);
	if (result == CUDA_SUCCESS) {
		one->count++;
		*pdptr = one->range->base + handle.offset;
	}
	sim_memory_unlock();
	return result;
}

CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	SIM_ENTER(cuIpcOpenMemHandle);
	return cuIpcOpenMemHandle_v2(pdptr, handle, Flags);
}

void sim_ipc_finish(struct sim_range *range)
{
	for (struct opened **at = &openings; *at; at = &(*at)->next)
		if ((*at)->range == range) {
			struct opened *closed = *at;
			*at = closed->next;
			free(closed);
			return;
		}
}

CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	struct sim_context *context;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	SIM_ENTER(cuIpcCloseMemHandle);
	SIM_TRY(sim_context_current(&context));
	(void)sim_context_synchronize(context);
	sim_memory_lock();
	struct sim_range *range = sim_range_find(dptr);
	if (range && range->kind == SIM_RANGE_IPC) {
		struct opened *one = range->owner;
		if (--one->count == 0) {
			sim_ipc_finish(range);
			sim_range_free(range);
		}
		result = CUDA_SUCCESS;
	}
	sim_memory_unlock();
	return result;
}

CUresult CUDAAPI cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event_)
{
	struct event_handle handle = {.magic = IPC_EVENT, .pid = getpid()};
	struct sim_event *event;

	SIM_ENTER(cuIpcGetEventHandle);
	SIM_TRY(sim_event_get(event_, &event));
	if (!pHandle)
		return CUDA_ERROR_INVALID_VALUE;
	if (!event->shared)
		return CUDA_ERROR_INVALID_HANDLE;
	handle.index = event->shared_index;
	handle.generation = event->shared->generation;
	get_node_id(handle.node);
	memset(pHandle, 0, sizeof *pHandle);
	memcpy(pHandle, &handle, sizeof handle);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle_)
{
	struct event_handle handle;
	struct sim_context *context;

	SIM_ENTER(cuIpcOpenEventHandle);
	SIM_TRY(sim_context_current(&context));
	memcpy(&handle, &handle_, sizeof handle);
	if (!phEvent || handle.magic != IPC_EVENT || !is_same_node(handle.node))
		return CUDA_ERROR_INVALID_VALUE;
	if (handle.pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (region_event_ref(sim_process.region, handle.index, handle.generation) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_event *event = sim_event_new(context, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
	event->shared = &sim_process.region->header->events[handle.index];
	event->shared_index = handle.index;
	*phEvent = (CUevent)event;
	return CUDA_SUCCESS;
}
