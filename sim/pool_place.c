// Where pools are: creation, and the default and current pools of every location. Those of a
// device hang on it; those in host memory are listed here, one place a location and type.
#include <stdlib.h>

#include "capture.h"
#include "entry.h"
#include "pool.h"
#include "process.h"

struct sim_pool_place {
	CUmemLocation location;
	CUmemAllocationType type;
	struct sim_pool *standard, *current; // under the memory lock
	struct sim_pool_place *next;
};
static struct sim_pool_place *places;

CUresult sim_pool_check_location(const CUmemLocation *location, CUmemAllocationType type, CUmemLocation *ret_location)
{
	bool managed = type == CU_MEM_ALLOCATION_TYPE_MANAGED;
	struct sim_device *device;

	if (!location || (!managed && type != CU_MEM_ALLOCATION_TYPE_PINNED))
		return CUDA_ERROR_INVALID_VALUE;
	*ret_location = (CUmemLocation){.type = location->type};
	switch ((int)location->type) {
	case CU_MEM_LOCATION_TYPE_NONE:
		return managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; // managed memory may prefer none
	case CU_MEM_LOCATION_TYPE_HOST:
		return CUDA_SUCCESS;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		ret_location->id = location->id;
		return sim_has_numa_node(location->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case CU_MEM_LOCATION_TYPE_DEVICE:
		ret_location->id = location->id;
		return sim_device_get(location->id, &device);
	default: // nor the calling thread's node: it may change
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static bool on_device(const CUmemLocation *location, CUmemAllocationType type)
{
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED;
}

static CUresult check_handle_types(const CUmemPoolProps *properties)
{
	if (properties->handleTypes == CU_MEM_HANDLE_TYPE_NONE)
		return CUDA_SUCCESS;
	// Memory that belongs to no node, or moves, cannot be handed to another process.
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
	struct sim_pool *made;

	SIM_ENTER(cuMemPoolCreate);
	SIM_TRY(sim_capture_check_unsafe());
	if (!pool || !poolProps)
		return CUDA_ERROR_INVALID_VALUE;
	properties = *poolProps;
	SIM_TRY(sim_pool_check_location(&poolProps->location, poolProps->allocType, &properties.location));
	SIM_TRY(check_handle_types(poolProps));
	if (on_device(&properties.location, properties.allocType))
		SIM_TRY(sim_device_get(properties.location.id, &device));
	size_t size = poolProps->maxSize && poolProps->maxSize < sim_process.config.memory ? poolProps->maxSize
											   : sim_process.config.memory;
	sim_memory_lock();
	if (device)
		(void)sim_pool_default(device);
	CUresult result = sim_pool_new(device, &properties, size, &made);
	sim_memory_unlock();
	SIM_TRY(result);
	*pool = (CUmemoryPool)made;
	return CUDA_SUCCESS;
}

// The place of a location in host memory, with its default pool. With the memory lock held.
static CUresult find_place(const CUmemLocation *location, CUmemAllocationType type, struct sim_pool_place **ret_place)
{
	const CUmemPoolProps properties = {.allocType = type, .location = *location};
	struct sim_pool_place *place;

	for (place = places; place; place = place->next)
		if (place->type == type && place->location.type == location->type && place->location.id == location->id)
			break;
	if (!place) {
		place = calloc(1, sizeof *place);
		if (!place ||
		    sim_pool_new(NULL, &properties, sim_process.config.memory, &place->standard) != CUDA_SUCCESS) {
			free(place);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		place->location = *location;
		place->type = type;
		place->current = place->standard;
		place->standard->place = place;
		place->next = places;
		places = place;
	}
	*ret_place = place;
	return CUDA_SUCCESS;
}

void sim_pool_place_leave(struct sim_pool *pool)
{
	for (struct sim_pool_place *place = places; place; place = place->next)
		if (place->current == pool)
			place->current = place->standard;
}

static CUresult get_pool(CUmemoryPool *pool, const CUmemLocation *wanted, CUmemAllocationType type, bool current)
{
	struct sim_pool_place *place;
	CUmemLocation location;

	SIM_TRY(sim_pool_check_location(wanted, type, &location));
	if (on_device(&location, type))
		return sim_pool_get_of_device(pool, location.id, current);
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	sim_memory_lock();
	CUresult result = find_place(&location, type, &place);
	if (result == CUDA_SUCCESS)
		*pool = (CUmemoryPool)(current ? place->current : place->standard);
	sim_memory_unlock();
	return result;
}

CUresult CUDAAPI cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type)
{
	SIM_ENTER(cuMemGetDefaultMemPool);
	return get_pool(pool_out, location, type, false);
}

CUresult CUDAAPI cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
	SIM_ENTER(cuMemGetMemPool);
	return get_pool(pool, location, type, true);
}

CUresult CUDAAPI cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	struct sim_pool_place *place;
	struct sim_pool *chosen;
	CUmemLocation where;

	SIM_ENTER(cuMemSetMemPool);
	SIM_TRY(sim_pool_check_location(location, type, &where));
	if (on_device(&where, type))
		return sim_pool_set_device(where.id, pool);
	SIM_TRY(sim_pool_get(pool, &chosen));
	if (chosen->imports || chosen->properties.allocType != type ||
	    chosen->properties.location.type != where.type || chosen->properties.location.id != where.id)
		return CUDA_ERROR_INVALID_VALUE;
	sim_memory_lock();
	CUresult result = find_place(&where, type, &place);
	if (result == CUDA_SUCCESS)
		place->current = chosen;
	sim_memory_unlock();
	return result;
}
