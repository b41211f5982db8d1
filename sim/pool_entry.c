// Implements the driver's functions for pools: stream-ordered allocation, attributes, access.
#include "capture.h"
#include "entry.h"
#include "graph_memory.h"
#include "mark.h"
#include "pool.h"
#include "process.h"
#include "stream.h"

// ---- stream-ordered allocation ----------------------------------------------------------

struct free_op {
	struct sim_op op;
	// memory to free when the operation runs; 0: none, because memory of pools is freed during the call
	CUdeviceptr address;
	bool graph; // the memory is a graph's; otherwise cuMemAlloc allocated it
};

static CUresult run_free(struct sim_op *op_)
{
	struct free_op *op = (struct free_op *)op_;

	if (op->graph)
		(void)sim_graph_memory_free(op->address);
	else if (op->address)
		(void)sim_memory_free(op->address);
	return CUDA_SUCCESS;
}

static const struct sim_op_class free_class = {.name = "free", .size = sizeof(struct free_op), .run = run_free};

static CUresult allocate_async(CUdeviceptr *dptr, size_t bytesize, struct sim_pool *pool, struct sim_stream *stream)
{
	struct sim_mark *wait = NULL;

	if (bytesize == 0) {
		*dptr = 0;
		return CUDA_SUCCESS;
	}
	if (atomic_load(&stream->capture))
		return sim_capture_alloc(stream, bytesize, pool ? &pool->properties : NULL, dptr);
	SIM_TRY(sim_capture_check_unsafe());
	sim_memory_lock();
	if (!pool)
		pool = sim_pool_default(stream->context->device) ? stream->context->device->current_pool : NULL;
	CUresult result = !pool		  ? CUDA_ERROR_OUT_OF_MEMORY
			  : pool->imports ? CUDA_ERROR_INVALID_VALUE
					  : sim_pool_alloc(pool, bytesize, stream->id, dptr, &wait);
	sim_memory_unlock();
	if (result == CUDA_SUCCESS && wait) {
		struct sim_op *op = sim_op_new(&free_class, stream->context);
		sim_op_wait_for(op, wait);
		sim_mark_unref(wait);
		result = sim_submit(stream, op);
	}
	return result;
}

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	struct sim_stream *stream;

	SIM_ENTER(cuMemAllocAsync);
	SIM_TRY(sim_stream_get(hStream, &stream));
	if (!dptr)
		return CUDA_ERROR_INVALID_VALUE;
	return allocate_async(dptr, bytesize, NULL, stream);
}

CUresult CUDAAPI cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	SIM_ENTER(cuMemAllocAsync_ptsz);
	return cuMemAllocAsync(dptr, bytesize, SIM_PTSZ(hStream));
}

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
	struct sim_stream *stream;
	struct sim_pool *from;

	SIM_ENTER(cuMemAllocFromPoolAsync);
	SIM_TRY(sim_stream_get(hStream, &stream));
	if (!dptr)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_pool_get(pool, &from));
	return allocate_async(dptr, bytesize, from, stream);
}

CUresult CUDAAPI cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
	SIM_ENTER(cuMemAllocFromPoolAsync_ptsz);
	return cuMemAllocFromPoolAsync(dptr, bytesize, pool, SIM_PTSZ(hStream));
}

CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
	struct sim_stream *stream;
	struct sim_pointer pointer = {.range = NULL};
	struct sim_pool *pool;

	SIM_ENTER(cuMemFreeAsync);
	SIM_TRY(sim_stream_get(hStream, &stream));
	if (dptr == 0)
		return CUDA_SUCCESS;
	if (atomic_load(&stream->capture))
		return sim_capture_free(stream, dptr);
	SIM_TRY(sim_capture_check_unsafe());
	bool linear = sim_pointer_find(dptr, &pointer) && pointer.base == dptr && pointer.range &&
		      (pointer.range->kind == SIM_RANGE_DEVICE || pointer.range->kind == SIM_RANGE_BLOCK);
	bool graph = pointer.range && pointer.range->kind == SIM_RANGE_GRAPH && pointer.base == dptr;
	struct free_op *op = (struct free_op *)sim_op_new(&free_class, stream->context);
	op->address = linear || graph ? dptr : 0;
	op->graph = graph;
	op->op.instant = op->op.always = true;
	op->op.mark = sim_mark_new();
	if (!linear && !graph) {
		sim_memory_lock();
		struct sim_segment *segment = sim_pool_find_segment(dptr, &pool);
		if (segment)
			sim_pool_free_segment(pool, segment, op->op.mark, stream->id);
		sim_memory_unlock();
		if (!segment) {
			sim_op_free(&op->op);
			return CUDA_ERROR_INVALID_VALUE;
		}
	}
	return sim_submit(stream, &op->op);
}

CUresult CUDAAPI cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream)
{
	SIM_ENTER(cuMemFreeAsync_ptsz);
	return cuMemFreeAsync(dptr, SIM_PTSZ(hStream));
}

// ---- pools -----------------------------------------------------------------------------------

CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool)
{
	struct sim_pool *destroyed;

	SIM_ENTER(cuMemPoolDestroy);
	SIM_TRY(sim_capture_check_unsafe());
	SIM_TRY(sim_pool_get(pool, &destroyed));
	sim_memory_lock();
	bool mine = !destroyed->location && !(destroyed->device && destroyed == destroyed->device->default_pool);
	// An imported pool must be destroyed once for each import. That fails while an imported pointer into the pool
	// exists.
	if (destroyed->imports)
		mine = destroyed->used == 0;
	if (mine && destroyed->imports > 1)
		destroyed->imports--;
	else if (mine)
		sim_pool_retire(destroyed);
	sim_memory_unlock();
	return mine ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_pool_get_of_device(CUmemoryPool *pool_out, CUdevice dev, enum sim_pool_role role)
{
	struct sim_device *device;

	if (!pool_out)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_device_get(dev, &device));
	sim_memory_lock();
	struct sim_pool *pool = sim_pool_default(device);
	if (pool && role == SIM_POOL_CURRENT)
		pool = device->current_pool;
	sim_memory_unlock();
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*pool_out = (CUmemoryPool)pool;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
	SIM_ENTER(cuDeviceGetDefaultMemPool);
	return sim_pool_get_of_device(pool_out, dev, SIM_POOL_DEFAULT);
}

CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	SIM_ENTER(cuDeviceGetMemPool);
	return sim_pool_get_of_device(pool, dev, SIM_POOL_CURRENT);
}

CUresult sim_pool_set_device(CUdevice dev, CUmemoryPool pool)
{
	struct sim_device *device;
	struct sim_pool *chosen;

	SIM_TRY(sim_device_get(dev, &device));
	SIM_TRY(sim_pool_get(pool, &chosen));
	if (chosen->device != device || chosen->imports) // the pool is of another device, or in host memory
		return CUDA_ERROR_INVALID_VALUE;
	sim_memory_lock();
	(void)sim_pool_default(device);
	device->current_pool = chosen;
	sim_memory_unlock();
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	SIM_ENTER(cuDeviceSetMemPool);
	SIM_TRY(sim_capture_check_unsafe());
	return sim_pool_set_device(dev, pool);
}

CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
	struct sim_pool *trimmed;

	SIM_ENTER(cuMemPoolTrimTo);
	SIM_TRY(sim_capture_check_unsafe());
	SIM_TRY(sim_pool_get(pool, &trimmed));
	if (trimmed->imports)
		return CUDA_ERROR_INVALID_VALUE;
	sim_memory_lock();
	sim_pool_trim(trimmed, minBytesToKeep);
	sim_memory_unlock();
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	struct sim_pool *queried;
	CUresult result = CUDA_SUCCESS;

	SIM_ENTER(cuMemPoolGetAttribute);
	SIM_TRY(sim_capture_check_unsafe());
	SIM_TRY(sim_pool_get(pool, &queried));
	if (!value || queried->imports)
		return CUDA_ERROR_INVALID_VALUE;
	sim_memory_lock();
	switch ((int)attr) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
		*(int *)value = queried->reuse_events;
		break;
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
		*(int *)value = queried->reuse_opportunistic;
		break;
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		*(int *)value = queried->reuse_internal;
		break;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		*(cuuint64_t *)value = queried->threshold;
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		*(cuuint64_t *)value = queried->reserved;
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		*(cuuint64_t *)value = queried->reserved_high;
		break;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		*(cuuint64_t *)value = queried->used;
		break;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		*(cuuint64_t *)value = queried->used_high;
		break;
	default:
		result = CUDA_ERROR_INVALID_VALUE;
	}
	sim_memory_unlock();
	return result;
}

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	struct sim_pool *changed;
	CUresult result = CUDA_SUCCESS;

	SIM_ENTER(cuMemPoolSetAttribute);
	SIM_TRY(sim_capture_check_unsafe());
	SIM_TRY(sim_pool_get(pool, &changed));
	if (!value || changed->imports)
		return CUDA_ERROR_INVALID_VALUE;
	sim_memory_lock();
	switch ((int)attr) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
		changed->reuse_events = *(int *)value != 0;
		break;
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
		changed->reuse_opportunistic = *(int *)value != 0;
		break;
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		changed->reuse_internal = *(int *)value != 0;
		break;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		changed->threshold = *(cuuint64_t *)value;
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: // the program may only reset this value
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		if (*(cuuint64_t *)value != 0)
			result = CUDA_ERROR_INVALID_VALUE;
		else if ((int)attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
			changed->used_high = changed->used;
		else
			changed->reserved_high = changed->reserved;
		break;
	default:
		result = CUDA_ERROR_INVALID_VALUE;
	}
	sim_memory_unlock();
	return result;
}

CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
	struct sim_pool *changed;

	SIM_ENTER(cuMemPoolSetAccess);
	SIM_TRY(sim_capture_check_unsafe());
	SIM_TRY(sim_pool_get(pool, &changed));
	if (!map || count == 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		struct sim_device *device;
		if (map[i].location.type == CU_MEM_LOCATION_TYPE_HOST && !changed->device &&
		    map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			continue; // the host has access already
		if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
			return CUDA_ERROR_INVALID_VALUE;
		SIM_TRY(sim_device_get(map[i].location.id, &device));
		if (map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			return CUDA_ERROR_INVALID_VALUE;
		if (device == changed->device && map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
			return CUDA_ERROR_INVALID_VALUE; // the pool's own device keeps its access
		if (changed->device && device != changed->device && !sim_process.config.peers &&
		    map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
			return CUDA_ERROR_INVALID_DEVICE;
	}
	sim_memory_lock();
	for (size_t i = 0; i < count; i++) {
		if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
			continue;
		changed->access[map[i].location.id] = (unsigned char)map[i].flags;
		for (size_t c = 0; c < changed->chunk_count; c++)
			if (changed->chunks[c])
				sim_mapping_set_access(changed->chunks[c], &sim_process.devices[map[i].location.id],
						       map[i].flags);
	}
	sim_memory_unlock();
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)
{
	struct sim_pool *queried;
	struct sim_device *device;

	SIM_ENTER(cuMemPoolGetAccess);
	SIM_TRY(sim_capture_check_unsafe());
	SIM_TRY(sim_pool_get(memPool, &queried));
	if (!flags || !location)
		return CUDA_ERROR_INVALID_VALUE;
	bool managed = sim_pool_is_managed(queried); // all devices have access, but the driver lists none
	if (location->type == CU_MEM_LOCATION_TYPE_HOST ||
	    (location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA && sim_has_numa_node(location->id))) {
		*flags =
			queried->device || managed ? CU_MEM_ACCESS_FLAGS_PROT_NONE : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
		return CUDA_SUCCESS;
	}
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_device_get(location->id, &device));
	*flags = managed ? CU_MEM_ACCESS_FLAGS_PROT_NONE : (CUmemAccess_flags)queried->access[device->ordinal];
	return CUDA_SUCCESS;
}
