// Exports and imports pools. An exported descriptor tells importers where the pool's chunks of memory are. An exported
// pointer is an offset in the pool.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "entry.h"
#include "log.h"
#include "pool.h"
#include "process.h"

struct pointer_data { // in CUmemPoolPtrExportData
	uint64_t uid, offset, size, id;
};

// A record at the end of the file that contains a pool in host memory. The record follows the pool's last chunk.
struct host_pool {
	char magic[16];
	uint64_t uid, size;
	int64_t node;
};
static const char host_magic[16] = "virgate sim pool";

static CUresult export_host(struct sim_pool *pool, int *ret_descriptor)
{
	struct host_pool record = {.uid = pool->uid, .size = pool->range->size, .node = pool->properties.location.id};

	memcpy(record.magic, host_magic, sizeof record.magic);
	sim_memory_lock();
	CUresult result = sim_pool_create_descriptor(pool);
	sim_memory_unlock();
	SIM_TRY(result);
	int descriptor = fcntl(pool->memory, F_DUPFD_CLOEXEC, 3);
	if (descriptor < 0 || pwrite(descriptor, &record, sizeof record, (off_t)record.size) != sizeof record) {
		if (descriptor >= 0)
			close(descriptor);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	*ret_descriptor = descriptor;
	return CUDA_SUCCESS;
}

// Imports a pool. If this process has imported the pool before, returns the same struct.
static CUresult import_pool(struct sim_device *device, const CUmemPoolProps *properties, size_t size, uint64_t uid,
			    int descriptor, CUmemoryPool *ret_pool)
{
	CUresult result = CUDA_SUCCESS;

	sim_memory_lock();
	struct sim_pool *pool = sim_pool_find_imported(uid);
	if (!pool)
		result = sim_pool_new(device, properties, size, &pool);
	if (result == CUDA_SUCCESS && pool->imports++ == 0) {
		pool->uid = uid;
		*(device ? &pool->exported : &pool->memory) = fcntl(descriptor, F_DUPFD_CLOEXEC, 512);
	}
	sim_memory_unlock();
	SIM_TRY(result);
	*ret_pool = (CUmemoryPool)pool;
	return CUDA_SUCCESS;
}

static CUresult import_host(int descriptor, CUmemoryPool *ret_pool)
{
	struct host_pool record;
	struct stat facts;

	if (fstat(descriptor, &facts) != 0 || (size_t)facts.st_size < sizeof record ||
	    pread(descriptor, &record, sizeof record, facts.st_size - (off_t)sizeof record) != sizeof record ||
	    memcmp(record.magic, host_magic, sizeof host_magic) != 0 ||
	    record.size != (size_t)facts.st_size - sizeof record || record.size == 0 || record.size % SIM_CHUNK)
		return CUDA_ERROR_UNKNOWN;
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				     .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = (int)record.node}};
	return import_pool(NULL, &properties, record.size, record.uid, descriptor, ret_pool);
}

CUresult CUDAAPI cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
						  CUmemAllocationHandleType handleType, unsigned long long flags)
{
	struct sim_pool *shared;
	int descriptor = -1;

	SIM_ENTER(cuMemPoolExportToShareableHandle);
	SIM_TRY(sim_pool_get(pool, &shared));
	if (!handle_out || flags != 0 || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    !(shared->properties.handleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) || shared->imports)
		return CUDA_ERROR_INVALID_VALUE;
	if (!shared->device)
		return export_host(shared, handle_out);
	struct region_export what = {.kind = REGION_EXPORT_POOL,
				     .id = shared->uid,
				     .payload = {(uint64_t)shared->device->physical, shared->range->size}};
	size_t tail = shared->chunk_count * sizeof what.id;
	int status = region_export(sim_process.region, &what, tail, &descriptor);
	if (status != 0)
		return sim_report_no_space(status, tail) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_OPERATING_SYSTEM;
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

CUresult CUDAAPI cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
						    CUmemAllocationHandleType handleType, unsigned long long flags)
{
	struct region_export what;
	struct sim_device *device = NULL;

	SIM_ENTER(cuMemPoolImportFromShareableHandle);
	if (!pool_out || flags != 0 || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	if (region_import(sim_process.region, (int)(intptr_t)handle, &what) != 0)
		return import_host((int)(intptr_t)handle, pool_out);
	if (what.kind != REGION_EXPORT_POOL)
		return CUDA_ERROR_NOT_SUPPORTED;
	for (int i = 0; i < sim_process.device_count; i++)
		if (sim_process.devices[i].physical == (int)what.payload[0])
			device = &sim_process.devices[i];
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal}};
	return import_pool(device, &properties, what.payload[1], what.id, (int)(intptr_t)handle, pool_out);
}

CUresult CUDAAPI cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
	struct sim_pool *pool = NULL;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	SIM_ENTER(cuMemPoolExportPointer);
	if (!shareData_out)
		return CUDA_ERROR_INVALID_VALUE;
	sim_memory_lock();
	struct sim_segment *segment = sim_pool_find_segment(ptr, &pool);
	if (segment && !pool->imports && (pool->properties.handleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) {
		struct pointer_data data = {pool->uid, ptr - pool->range->base, segment->asked, segment->id};
		memset(shareData_out, 0, sizeof *shareData_out);
		memcpy(shareData_out, &data, sizeof data);
		result = CUDA_SUCCESS;
	}
	sim_memory_unlock();
	return result;
}

// Maps a chunk of the exporting process, and takes a reference to its memory.
static CUresult adopt_chunk(struct sim_pool *pool, size_t chunk)
{
	struct sim_physical *physical;
	uint64_t id = 0;
	size_t size;
	int device;

	if (pool->chunks[chunk])
		return CUDA_SUCCESS;
	if (!pool->device) {
		SIM_TRY(sim_pool_chunk_memory(pool, chunk, &physical));
		CUresult result = sim_pool_map_chunk(pool, chunk, physical);
		sim_physical_unref(physical);
		return result;
	}
	if (pread(pool->exported, &id, sizeof id, (off_t)(sizeof(struct region_export) + chunk * sizeof id)) !=
		    sizeof id ||
	    region_ref(sim_process.region, id, &device, &size) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	physical = sim_physical_adopt(pool->device, id, size, -1);
	if (!physical) {
		region_unref(sim_process.region, id);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	physical->shared = true;
	physical->foreign = CUDA_ERROR_NOT_SUPPORTED;
	CUresult result = sim_pool_map_chunk(pool, chunk, physical);
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
	if (!ptr_out || !shareData || !from->imports)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&data, shareData, sizeof data);
	if (data.uid != from->uid || data.size == 0 || data.offset >= from->range->size ||
	    data.size > from->range->size - data.offset || data.offset % 512)
		return CUDA_ERROR_INVALID_VALUE;
	sim_memory_lock();
	for (size_t i = data.offset / SIM_CHUNK;
	     i <= (data.offset + data.size - 1) / SIM_CHUNK && result == CUDA_SUCCESS; i++)
		result = adopt_chunk(from, i);
	if (result == CUDA_SUCCESS)
		result = sim_pool_mark_used(from, data.offset, data.size);
	sim_memory_unlock();
	SIM_TRY(result);
	*ptr_out = from->range->base + data.offset;
	return CUDA_SUCCESS;
}
