// Pools between processes: a descriptor that tells where a pool's chunks are, and pointers
// as places in the pool.
#include <fcntl.h>
#include <unistd.h>

#include "pool.h"

struct pointer_data { // in CUmemPoolPtrExportData
	uint64_t uid, offset, size;
};

CUresult CUDAAPI cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool, CUmemAllocationHandleType handleType,
						  unsigned long long flags)
{
	struct sim_pool *shared;
	int descriptor = -1;

	SIM_ENTER(cuMemPoolExportToShareableHandle);
	SIM_TRY(sim_pool_get(pool, &shared));
	if (!handle_out || flags != 0 || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    !(shared->properties.handleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) || shared->imported)
		return CUDA_ERROR_INVALID_VALUE;
	struct region_export what = {.kind = REGION_EXPORT_POOL, .id = shared->uid,
				     .payload = {(uint64_t)shared->device->physical, shared->range->size}};
	if (region_export(sim_process.region, &what, &descriptor) != 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	sim_memory_lock();
	if (shared->exported < 0)
		shared->exported = fcntl(descriptor, F_DUPFD_CLOEXEC, 512);
	for (size_t i = 0; i < shared->chunk_count; i++) {
		uint64_t id = shared->chunks[i] ? shared->chunks[i]->physical->id : 0;
		if (shared->chunks[i])
			shared->chunks[i]->physical->shared = true;
		(void)!pwrite(descriptor, &id, sizeof id, (off_t)(sizeof what + i * sizeof id));
	}
	sim_memory_unlock();
	*(int *)handle_out = descriptor;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle, CUmemAllocationHandleType handleType,
						    unsigned long long flags)
{
	struct region_export what;
	struct sim_device *device = NULL;
	struct sim_pool *made;

	SIM_ENTER(cuMemPoolImportFromShareableHandle);
	if (!pool_out || flags != 0 || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	if (region_import(sim_process.region, (int)(intptr_t)handle, &what) != 0 || what.kind != REGION_EXPORT_POOL)
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < sim_process.device_count; i++)
		if (sim_process.devices[i].physical == (int)what.payload[0])
			device = &sim_process.devices[i];
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal}};
	sim_memory_lock();
	CUresult result = sim_pool_new(device, &properties, what.payload[1], &made);
	if (result == CUDA_SUCCESS) {
		made->imported = true;
		made->uid = what.id;
		made->exported = fcntl((int)(intptr_t)handle, F_DUPFD_CLOEXEC, 512);
	}
	sim_memory_unlock();
	SIM_TRY(result);
	*pool_out = (CUmemoryPool)made;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
	struct sim_pool *pool = NULL;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	SIM_ENTER(cuMemPoolExportPointer);
	if (!shareData_out)
		return CUDA_ERROR_INVALID_VALUE;
	sim_memory_lock();
	struct sim_segment *segment = sim_pool_segment(ptr, &pool);
	if (segment && (pool->properties.handleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) {
		struct pointer_data data = {pool->uid, ptr - pool->range->base, segment->asked};
		memset(shareData_out, 0, sizeof *shareData_out);
		memcpy(shareData_out, &data, sizeof data);
		result = CUDA_SUCCESS;
	}
	sim_memory_unlock();
	return result;
}

// The exporter's chunk, held by us too.
static CUresult adopt_chunk(struct sim_pool *pool, size_t chunk)
{
	uint64_t id = 0;
	size_t size;
	int device;

	if (pool->chunks[chunk])
		return CUDA_SUCCESS;
	if (pread(pool->exported, &id, sizeof id, (off_t)(sizeof(struct region_export) + chunk * sizeof id)) != sizeof id ||
	    region_hold(sim_process.region, id, &device, &size) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_physical *physical = sim_physical_adopt(pool->device, id, size, -1);
	if (!physical) {
		region_drop(sim_process.region, id);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	physical->shared = true;
	CUresult result = sim_pool_chunk(pool, chunk, physical);
	sim_physical_unref(physical);
	return result;
}

CUresult CUDAAPI cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData *shareData)
{
	struct sim_pool *from;
	struct pointer_data data;
	CUresult result = CUDA_SUCCESS;

	SIM_ENTER(cuMemPoolImportPointer);
	SIM_TRY(sim_pool_get(pool, &from));
	if (!ptr_out || !shareData || !from->imported)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&data, shareData, sizeof data);
	if (data.uid != from->uid || data.size == 0 || data.offset >= from->range->size ||
	    data.size > from->range->size - data.offset || data.offset % 512)
		return CUDA_ERROR_INVALID_VALUE;
	sim_memory_lock();
	for (size_t i = data.offset / SIM_CHUNK; i <= (data.offset + data.size - 1) / SIM_CHUNK && result == CUDA_SUCCESS; i++)
		result = adopt_chunk(from, i);
	if (result == CUDA_SUCCESS)
		result = sim_pool_claim(from, data.offset, data.size);
	sim_memory_unlock();
	SIM_TRY(result);
	*ptr_out = from->range->base + data.offset;
	return CUDA_SUCCESS;
}
