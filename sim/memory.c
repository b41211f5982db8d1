// Implements cuMemAlloc and related functions, which allocate addresses and memory together.
#include "capture.h"
#include "context.h"
#include "entry.h"
#include "fault.h"
#include "graph_memory.h"
#include "host.h"
#include "log.h"
#include "pool.h"
#include "process.h"

struct opening {
	struct sim_range *range;
	struct sim_context *context;
};

static void open_to_peer(struct sim_context *context, void *data)
{
	struct opening *opening = data;

	if (context->peers >> opening->context->device->ordinal & 1)
		for (struct sim_mapping *m = opening->range->mappings; m; m = m->next)
			sim_mapping_set_access(m, context->device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

void sim_range_open(struct sim_range *range, struct sim_context *context)
{
	struct opening opening = {range, context};

	for (struct sim_mapping *m = range->mappings; m; m = m->next)
		sim_mapping_set_access(m, context->device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	if (sim_process.device_count > 1)
		sim_contexts_each(open_to_peer, &opening);
}

CUresult sim_range_alloc(struct sim_context *context, size_t size, enum sim_range_kind kind,
			 struct sim_range **ret_range)
{
	size_t rounded = sim_round_up(size, SIM_GRANULE);
	struct sim_physical *physical;
	struct sim_range *range;

	if (rounded == 0 || rounded > sim_process.config.memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult result = sim_physical_create(context->device, rounded, &physical);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && kind != SIM_RANGE_POOL) {
		SIM_TRY(sim_pool_trim_all(context->device));
		result = sim_physical_create(context->device, rounded, &physical);
	}
	SIM_TRY(result);
	result = sim_range_reserve(rounded, SIM_GRANULE, 0, kind, &range);
	if (result == CUDA_SUCCESS) {
		range->asked = size;
		range->context = context;
		range->device = context->device;
		result = sim_range_map(range, range->base, physical);
		if (result != CUDA_SUCCESS)
			sim_range_free(range);
	}
	sim_physical_unref(physical); // the mapping has a reference, too
	SIM_TRY(result);
	sim_range_open(range, context);
	*ret_range = range;
	return CUDA_SUCCESS;
}

CUresult sim_memory_alloc(struct sim_context *context, size_t size, enum sim_range_kind kind, CUdeviceptr *ret_address)
{
	struct sim_range *range;
	CUresult result;

	context = context->parent; // green contexts use the memory of their primary context
	sim_memory_lock();
	if (kind == SIM_RANGE_DEVICE && size <= SIM_GRANULE) {
		result = sim_block_alloc(context, size, ret_address);
	} else {
		result = sim_range_alloc(context, size, kind, &range);
		if (result == CUDA_SUCCESS)
			*ret_address = range->base;
	}
	sim_memory_unlock();
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		sim_log("device %d: %zu bytes are not free", context->device->ordinal, size);
	return result;
}

CUresult sim_memory_free(CUdeviceptr address)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	sim_memory_lock();
	struct sim_range *range = sim_range_find(address);
	if (range && range->kind == SIM_RANGE_BLOCK) {
		result = sim_block_free(range, address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	} else if (range && range->base == address &&
		   (range->kind == SIM_RANGE_DEVICE || range->kind == SIM_RANGE_MODULE ||
		    range->kind == SIM_RANGE_GRAPH)) {
		sim_range_free(range);
		result = CUDA_SUCCESS;
	}
	sim_memory_unlock();
	return result;
}

static void finish_range(struct sim_range *range, void *context)
{
	if (range->context != context)
		return;
	switch (range->kind) {
	case SIM_RANGE_BLOCK:
		sim_block_finish(range);
		sim_range_free(range);
		break;
	case SIM_RANGE_IPC:
		sim_ipc_finish(range);
		sim_range_free(range);
		break;
	case SIM_RANGE_DEVICE:
	case SIM_RANGE_MODULE:
		sim_range_free(range);
		break;
	default: // pools and reservations belong to the process
		break;
	}
}

void sim_memory_context_finish(struct sim_context *context)
{
	sim_memory_lock();
	sim_ranges_each(finish_range, context);
	sim_memory_unlock();
	sim_host_context_finish(context);
}

void *sim_memory_translate(const struct sim_device *device, CUdeviceptr address, size_t length, enum sim_access access)
{
	uint64_t offset = address - sim_process.window, size = sim_process.window_size;
	uint8_t need = access == SIM_WRITE ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;

	if (offset >= size)
		return device->space.other(device->space.context, address, length, access == SIM_WRITE);
	if (length > size - offset)
		return NULL;
	size_t last = (offset + (length ? length - 1 : 0)) >> SIM_GRANULE_SHIFT;
	for (size_t i = offset >> SIM_GRANULE_SHIFT; i <= last; i++)
		if ((__atomic_load_n(&device->permission[i], __ATOMIC_ACQUIRE) & need) != need)
			return NULL;
	return (void *)(address + (uintptr_t)sim_process.window_offset);
}

bool sim_pointer_find(CUdeviceptr address, struct sim_pointer *ret_pointer)
{
	struct sim_pointer pointer = {.type = CU_MEMORYTYPE_DEVICE, .mapped = true};
	bool found = true;

	if (address - sim_process.window >= sim_process.window_size)
		return sim_host_find(address, ret_pointer);
	sim_memory_lock();
	struct sim_range *range = sim_range_find(address);
	struct sim_mapping *mapping = sim_mapping_find(address);
	if (!range) {
		sim_memory_unlock();
		return false;
	}
	pointer.range = range;
	pointer.context = range->context;
	pointer.device = range->device;
	pointer.base = range->base;
	pointer.size = range->asked;
	pointer.buffer_id = range->buffer_id;
	if (range->kind == SIM_RANGE_BLOCK) {
		found = sim_block_find(range, address, &pointer);
	} else if (range->kind == SIM_RANGE_POOL) {
		found = sim_pool_find_pointer(range, address, &pointer);
	} else if (range->kind == SIM_RANGE_RESERVED) {
		pointer.mapped = mapping != NULL;
		if (mapping) {
			pointer.base = mapping->base;
			pointer.size = mapping->size;
			pointer.device = mapping->physical->device;
			pointer.buffer_id = mapping->physical->buffer_id;
			pointer.host_access = mapping->host;
			if (!pointer.device)
				pointer.type = CU_MEMORYTYPE_HOST;
		}
	} else {
		found = address - range->base < range->asked;
		// A range without a device is memory of a graph that is in host memory.
		if (!range->device) {
			pointer.type = CU_MEMORYTYPE_HOST;
			pointer.host_access = true;
		}
	}
	sim_memory_unlock();
	if (found)
		*ret_pointer = pointer;
	return found;
}

// ---- driver functions ----------------------------------------------------------------------

CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	struct sim_context *context;

	SIM_ENTER(cuMemAlloc_v2);
	SIM_TRY(sim_context_current(&context));
	if (!dptr || bytesize == 0)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_capture_check_unsafe());
	*dptr = 0; // on failure the driver writes 0
	sim_context_wait_for_room(context);
	return sim_memory_alloc(context, bytesize, SIM_RANGE_DEVICE, dptr);
}

CUresult CUDAAPI cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
				    unsigned int ElementSizeBytes)
{
	struct sim_context *context;
	size_t pitch, size;

	SIM_ENTER(cuMemAllocPitch_v2);
	SIM_TRY(sim_context_current(&context));
	if (!dptr || !pPitch || !WidthInBytes || !Height ||
	    (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16))
		return CUDA_ERROR_INVALID_VALUE;
	pitch = sim_round_up(WidthInBytes, 512);
	if (pitch == 0 || __builtin_mul_overflow(pitch, Height, &size))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_capture_check_unsafe());
	SIM_TRY(sim_memory_alloc(context, size, SIM_RANGE_DEVICE, dptr));
	*pPitch = pitch;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemFree_v2(CUdeviceptr dptr)
{
	struct sim_context *context;
	struct sim_pointer pointer;

	SIM_ENTER(cuMemFree_v2);
	SIM_TRY(sim_capture_check_unsafe());
	if (dptr == 0)
		return CUDA_SUCCESS; // cuMemFree(0) succeeds even without a context
	SIM_TRY(sim_context_current(&context));
	if (!sim_pointer_find(dptr, &pointer) || pointer.base != dptr)
		return CUDA_ERROR_INVALID_VALUE;
	// Waits for work that may still use the memory.
	(void)sim_context_synchronize(pointer.context ? pointer.context : context);
	if (pointer.host)
		return pointer.managed ? sim_host_free(dptr, SIM_HOST_MANAGED) : CUDA_ERROR_INVALID_VALUE;
	if (pointer.range->kind == SIM_RANGE_POOL)
		return sim_pool_free_pointer(dptr) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	if (pointer.range->kind == SIM_RANGE_GRAPH)
		return sim_graph_memory_free(dptr);
	if (pointer.range->kind != SIM_RANGE_DEVICE && pointer.range->kind != SIM_RANGE_BLOCK)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_memory_free(dptr);
}

CUresult CUDAAPI cuMemGetInfo_v2(size_t *free, size_t *total)
{
	struct sim_context *context;

	SIM_ENTER(cuMemGetInfo_v2);
	SIM_TRY(sim_context_current(&context));
	uint64_t most = sim_fault_memory(), all = sim_process.config.memory;
	uint64_t used = region_used(sim_process.region, context->device->physical);
	uint64_t limit = most < all ? most : all;
	if (free)
		*free = used < limit ? limit - used : 0;
	if (total)
		*total = all;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	struct sim_context *context;
	struct sim_pointer pointer;

	SIM_ENTER(cuMemGetAddressRange_v2);
	SIM_TRY(sim_context_current(&context));
	if (!sim_pointer_find(dptr, &pointer) || !pointer.mapped)
		return CUDA_ERROR_NOT_FOUND;
	if (pbase)
		*pbase = pointer.base;
	if (psize)
		*psize = pointer.size;
	return CUDA_SUCCESS;
}

// This version is of CUDA 2. Its sizes have 32 bits.
CUresult CUDAAPI cuMemGetInfo(unsigned int *free, unsigned int *total)
{
	size_t f, t;

	SIM_ENTER(cuMemGetInfo);
	SIM_TRY(cuMemGetInfo_v2(&f, &t));
	if (free)
		*free = f > UINT32_MAX ? UINT32_MAX : (unsigned)f;
	if (total)
		*total = t > UINT32_MAX ? UINT32_MAX : (unsigned)t;
	return CUDA_SUCCESS;
}
