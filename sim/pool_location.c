// Creates pools, and finds the default and the current pool of every location. The pools of a device are in its struct
// sim_device. A list in this file has the pools in host memory, with an entry for each location and type.
#include <stdlib.h>

#include "capture.h"
#include "entry.h"
#include "pool.h"
#include "process.h"

struct sim_pool_location {
	CUmemLocation location;
	CUmemAllocationType type;
	struct sim_pool *default_pool, *current; // guarded by the memory lock
	struct sim_pool_location *next;
};
static struct sim_pool_location *host_locations;

CUresult sim_pool_check_location(const CUmemLocation *location, CUmemAllocationType type, CUmemLocation *ret_location)
{
	bool managed = type == CU_MEM_ALLOCATION_TYPE_MANAGED;
	struct sim_device *device;

	if (!location || (!managed && type != CU_MEM_ALLOCATION_TYPE_PINNED))
		return CUDA_ERROR_INVALID_VALUE;
	*ret_location = (CUmemLocation){.type = location->type};
	switch ((int)location->type) {
	case CU_MEM_LOCATION_TYPE_NONE:
		return managed ? CUDA_SUCCESS
			       : CUDA_ERROR_INVALID_VALUE; // only managed memory may have no preferred location
	case CU_MEM_LOCATION_TYPE_HOST:
		return CUDA_SUCCESS;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		ret_location->id = location->id;
		return sim_has_numa_node(location->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case CU_MEM_LOCATION_TYPE_DEVICE:
		ret_location->id = location->id;
		return sim_device_get(location->id, &device);
	default: // also CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, because a thread's node may change
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static bool is_on_device(const CUmemLocation *location, CUmemAllocationType type)
{
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED;
}

static CUresult check_handle_types(const CUmemPoolProps *properties)
{
	if (properties->handleTypes == CU_MEM_HANDLE_TYPE_NONE)
		return CUDA_SUCCESS;
	// Memory that belongs to no NUMA node, or that migrates, cannot be exported.
	if (properties->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED ||
	    properties->location.type == CU_MEM_LOCATION_TYPE_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	return properties->handleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? CUDA_SUCCESS
										   : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	struct sim_device *device = NULL;
	CUmemPoolProps properties;
	struct sim_pool *created;

	SIM_ENTER(cuMemPoolCreate);
	SIM_TRY(sim_capture_check_unsafe());
	if (!pool || !poolProps)
		return CUDA_ERROR_INVALID_VALUE;
	properties = *poolProps;
	SIM_TRY(sim_pool_check_location(&poolProps->location, poolProps->allocType, &properties.location));
	SIM_TRY(check_handle_types(poolProps));
	if (is_on_device(&properties.location, properties.allocType))
		SIM_TRY(sim_device_get(properties.location.id, &device));
	size_t size = poolProps->maxSize && poolProps->maxSize < sim_process.config.memory ? poolProps->maxSize
											   : sim_process.config.memory;
	sim_memory_lock();
	if (device)
		(void)sim_pool_default(device);
	CUresult result = sim_pool_new(device, &properties, size, &created);
	sim_memory_unlock();
	SIM_TRY(result);
	*pool = (CUmemoryPool)created;
	return CUDA_SUCCESS;
}

// Returns the entry of a location in host memory. If it is missing, creates it with its default pool. Call it with the
// memory lock held.
static CUresult find_host_location(const CUmemLocation *location, CUmemAllocationType type,
				   struct sim_pool_location **ret_entry)
{
	const CUmemPoolProps properties = {.allocType = type, .location = *location};
	struct sim_pool_location *entry;

	for (entry = host_locations; entry; entry = entry->next)
		if (entry->type == type && entry->location.type == location->type && entry->location.id == location->id)
			break;
	if (!entry) {
		entry = calloc(1, sizeof *entry);
		if (!entry ||
		    sim_pool_new(NULL, &properties, sim_process.config.memory, &entry->default_pool) != CUDA_SUCCESS) {
			free(entry);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		entry->location = *location;
		entry->type = type;
		entry->current = entry->default_pool;
		entry->default_pool->location = entry;
		entry->next = host_locations;
		host_locations = entry;
	}
	*ret_entry = entry;
	return CUDA_SUCCESS;
}

void sim_pool_leave_locations(struct sim_pool *pool)
{
	for (struct sim_pool_location *entry = host_locations; entry; entry = entry->next)
		if (entry->current == pool)
			entry->current = entry->default_pool;
}

static CUresult get_pool(CUmemoryPool *pool, const CUmemLocation *wanted, CUmemAllocationType type,
			 enum sim_pool_role role)
{
	struct sim_pool_location *entry;
	CUmemLocation location;

	SIM_TRY(sim_pool_check_location(wanted, type, &location));
	if (is_on_device(&location, type))
		return sim_pool_get_of_device(pool, location.id, role);
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	sim_memory_lock();
	CUresult result = find_host_location(&location, type, &entry);
	if (result == CUDA_SUCCESS)
		*pool = (CUmemoryPool)(role == SIM_POOL_CURRENT ? entry->current : entry->default_pool);
	sim_memory_unlock();
	return result;
}

CUresult CUDAAPI cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type)
{
	SIM_ENTER(cuMemGetDefaultMemPool);
	return get_pool(pool_out, location, type, SIM_POOL_DEFAULT);
}

CUresult CUDAAPI cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
	SIM_ENTER(cuMemGetMemPool);
	return get_pool(pool, location, type, SIM_POOL_CURRENT);
}

CUresult CUDAAPI cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	struct sim_pool_location *entry;
	struct sim_pool *chosen;
	CUmemLocation where;

	SIM_ENTER(cuMemSetMemPool);
	SIM_TRY(sim_pool_check_location(location, type, &where));
	if (is_on_device(&where, type))
		return sim_pool_set_device(where.id, pool);
	SIM_TRY(sim_pool_get(pool, &chosen));
	if (chosen->imports || chosen->properties.allocType != type || chosen->properties.location.type != where.type ||
	    chosen->properties.location.id != where.id)
		return CUDA_ERROR_INVALID_VALUE;
	sim_memory_lock();
	CUresult result = find_host_location(&where, type, &entry);
	if (result == CUDA_SUCCESS)
		entry->current = chosen;
	sim_memory_unlock();
	return result;
}
