// Implements virtual memory management: reservations, physical handles, mappings, access, descriptors.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "entry.h"
#include "pool.h"
#include "process.h"

// Physical memory by handle. A handle is an index in this table, so that a stale handle is detected.
static struct sim_physical **handles;
static size_t handle_capacity, handle_free;

static CUresult new_handle(struct sim_physical *physical)
{
	while (handle_free < handle_capacity && handles[handle_free])
		handle_free++;
	if (handle_free == handle_capacity) {
		size_t more = handle_capacity ? 2 * handle_capacity : 256;
		struct sim_physical **grown = realloc(handles, more * sizeof *grown);
		if (!grown)
			return CUDA_ERROR_OUT_OF_MEMORY;
		memset(grown + handle_capacity, 0, (more - handle_capacity) * sizeof *grown);
		handles = grown;
		handle_capacity = more;
	}
	handles[handle_free] = physical;
	physical->handle = (handle_free + 1) << 4;
	return CUDA_SUCCESS;
}

void sim_handle_forget(CUmemGenericAllocationHandle handle)
{
	size_t index = (size_t)(handle >> 4) - 1;

	handles[index] = NULL;
	if (index < handle_free)
		handle_free = index;
}

struct sim_physical *sim_handle_find(CUmemGenericAllocationHandle handle)
{
	size_t index = (size_t)(handle >> 4) - 1;

	if (handle == 0 || handle & 15 || index >= handle_capacity || !handles[index] || !handles[index]->handles)
		return NULL;
	return handles[index];
}

// ---- addresses -----------------------------------------------------------------------------

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
				     unsigned long long flags)
{
	struct sim_range *range;

	SIM_ENTER(cuMemAddressReserve);
	if (!ptr || size == 0 || size % 4096 || (alignment & (alignment - 1)) || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	size_t rounded = sim_round_up(size, SIM_GRANULE);
	if (rounded == 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_memory_lock();
	CUresult result = sim_range_reserve(rounded, alignment < SIM_GRANULE ? SIM_GRANULE : alignment, addr,
					    SIM_RANGE_RESERVED, &range);
	if (result == CUDA_SUCCESS)
		range->asked = size;
	sim_memory_unlock();
	SIM_TRY(result);
	*ptr = range->base;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	SIM_ENTER(cuMemAddressFree);
	sim_memory_lock();
	struct sim_range *range = sim_range_find(ptr);
	if (range && range->kind == SIM_RANGE_RESERVED && range->base == ptr && range->asked == size &&
	    !range->mappings) {
		sim_range_free(range);
		result = CUDA_SUCCESS;
	}
	sim_memory_unlock();
	return result;
}

// ---- physical memory -------------------------------------------------------------------------

static CUresult check_properties(const CUmemAllocationProp *prop, struct sim_device **ret_device)
{
	if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	*ret_device = NULL;
	switch ((int)prop->location.type) {
	case CU_MEM_LOCATION_TYPE_HOST: // host memory that belongs to no NUMA node cannot be exported
		return prop->requestedHandleTypes ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		return sim_has_numa_node(prop->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return sim_device_get(prop->location.id, ret_device);
	default: // also CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, because a thread's node may change
		return CUDA_ERROR_INVALID_VALUE;
	}
}

// Creates a handle for the program. The handle takes over the caller's reference to the memory. On failure, the
// reference is dropped.
static CUresult return_handle(struct sim_physical *physical, CUmemGenericAllocationHandle *ret_handle)
{
	CUresult result = new_handle(physical);

	if (result != CUDA_SUCCESS) {
		sim_physical_unref(physical);
		return result;
	}
	physical->handles = 1;
	*ret_handle = physical->handle;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
			     unsigned long long flags)
{
	struct sim_device *device;
	struct sim_physical *physical = NULL;

	SIM_ENTER(cuMemCreate);
	if (!handle || size == 0 || size % SIM_GRANULE || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_properties(prop, &device));
	if (device)
		SIM_TRY((CUresult)atomic_load(&device->lost));
	sim_memory_lock();
	CUresult result =
		device ? sim_physical_create(device, size, &physical) : sim_physical_create_on_host(size, &physical);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && device && sim_pool_trim_all(device) == CUDA_SUCCESS)
		result = sim_physical_create(device, size, &physical);
	if (result == CUDA_SUCCESS) {
		physical->properties = *prop;
		result = return_handle(physical, handle);
	}
	sim_memory_unlock();
	return result;
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle)
{
	SIM_ENTER(cuMemRelease);
	sim_memory_lock();
	struct sim_physical *physical = sim_handle_find(handle);
	if (physical) {
		physical->handles--;
		sim_physical_unref(physical);
	}
	sim_memory_unlock();
	return physical ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	SIM_ENTER(cuMemRetainAllocationHandle);
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	sim_memory_lock();
	struct sim_mapping *mapping = sim_mapping_find((CUdeviceptr)(uintptr_t)addr);
	if (mapping && mapping->range->kind == SIM_RANGE_RESERVED) {
		atomic_fetch_add(&mapping->physical->references, 1);
		mapping->physical->handles++;
		*handle = mapping->physical->handle;
		result = CUDA_SUCCESS;
	}
	sim_memory_unlock();
	return result;
}

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
					       CUmemAllocationGranularity_flags option)
{
	struct sim_device *device;

	SIM_ENTER(cuMemGetAllocationGranularity);
	if (!granularity ||
	    (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM && option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
		return CUDA_ERROR_INVALID_VALUE;
	// Check only the type of the memory and whether the device exists. The other checks of cuMemCreate do not apply
	// here.
	if (!prop || (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED && prop->type != CU_MEM_ALLOCATION_TYPE_MANAGED))
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		SIM_TRY(sim_device_get(prop->location.id, &device));
	else if (!sim_is_host_location(&prop->location))
		return CUDA_ERROR_INVALID_VALUE;
	*granularity = SIM_GRANULE;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
	SIM_ENTER(cuMemGetAllocationPropertiesFromHandle);
	if (!prop)
		return CUDA_ERROR_INVALID_VALUE;
	sim_memory_lock();
	struct sim_physical *physical = sim_handle_find(handle);
	if (physical) {
		*prop = physical->properties;
		prop->allocFlags.usage = 0; // the real driver does not return this field
	}
	sim_memory_unlock();
	return physical ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// ---- mappings ----------------------------------------------------------------------------------

CUresult CUDAAPI cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
			  unsigned long long flags)
{
	CUresult result = CUDA_SUCCESS;

	SIM_ENTER(cuMemMap);
	if (flags != 0 || size == 0 || size % SIM_GRANULE || ptr % SIM_GRANULE || offset % SIM_GRANULE)
		return CUDA_ERROR_INVALID_VALUE;
	sim_memory_lock();
	struct sim_physical *physical = sim_handle_find(handle);
	struct sim_range *range = sim_range_find(ptr);
	if (!physical || !range || range->kind != SIM_RANGE_RESERVED ||
	    physical->properties.allocFlags.usage & CU_MEM_CREATE_USAGE_TILE_POOL)
		result = CUDA_ERROR_INVALID_VALUE;
	else if (offset != 0 || size != physical->size)
		result = CUDA_ERROR_NOT_SUPPORTED; // a mapping must include all of the handle's memory
	else if (size > range->base + range->size - ptr)
		result = CUDA_ERROR_INVALID_VALUE;
	for (CUdeviceptr at = ptr; result == CUDA_SUCCESS && at < ptr + size; at += SIM_GRANULE)
		if (sim_mapping_find(at))
			result = CUDA_ERROR_INVALID_VALUE; // occupied
	if (result == CUDA_SUCCESS)
		result = sim_range_map(range, ptr, physical);
	sim_memory_unlock();
	return result;
}

// Returns whether the range contains the whole of every mapping that it touches. *ret_covered: the mapped bytes in it.
// Call it with the memory lock held.
static bool contains_whole_mappings(CUdeviceptr ptr, size_t size, size_t *ret_covered)
{
	struct sim_range *range = sim_range_find(ptr);
	size_t covered = 0;

	if (!range || range->kind != SIM_RANGE_RESERVED || size > range->base + range->size - ptr)
		return false;
	for (struct sim_mapping *mapping = range->mappings; mapping; mapping = mapping->next) {
		if (mapping->base + mapping->size <= ptr || mapping->base >= ptr + size)
			continue;
		if (mapping->base < ptr || mapping->base + mapping->size > ptr + size)
			return false;
		covered += mapping->size;
	}
	*ret_covered = covered;
	return true;
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	size_t covered;

	SIM_ENTER(cuMemUnmap);
	if (size == 0 || size % SIM_GRANULE || ptr % SIM_GRANULE)
		return CUDA_ERROR_INVALID_VALUE;
	sim_memory_lock();
	if (contains_whole_mappings(ptr, size, &covered)) {
		// Do not wait for work that still uses the memory. Such work then faults.
		for (struct sim_mapping *mapping = sim_range_find(ptr)->mappings, *next; mapping; mapping = next) {
			next = mapping->next;
			if (mapping->base >= ptr && mapping->base < ptr + size)
				sim_mapping_remove(mapping);
		}
		result = CUDA_SUCCESS;
	}
	sim_memory_unlock();
	return result;
}

static CUresult check_access(const CUmemAccessDesc *desc)
{
	struct sim_device *device;

	if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_is_host_location(&desc->location))
		return CUDA_SUCCESS;
	if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_device_get(desc->location.id, &device);
}

static CUresult set_access(struct sim_mapping *mapping, const CUmemAccessDesc *desc)
{
	if (sim_is_host_location(&desc->location))
		return sim_mapping_open_to_host(mapping);
	struct sim_device *device = &sim_process.devices[desc->location.id], *home = mapping->physical->device;
	if (home && home != device && !sim_process.config.peers && desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
		return CUDA_ERROR_INVALID_DEVICE;
	sim_mapping_set_access(mapping, device, desc->flags);
	return CUDA_SUCCESS;
}

// Returns whether the range consists of whole mappings without gaps. It may be in several reservations. Call it with
// the memory lock held.
static bool is_fully_mapped(CUdeviceptr ptr, size_t size)
{
	CUdeviceptr at = ptr;

	if (size > UINT64_MAX - ptr)
		return false;
	while (at < ptr + size) {
		const struct sim_mapping *mapping = sim_mapping_find(at);
		if (!mapping || mapping->range->kind != SIM_RANGE_RESERVED || mapping->base != at ||
		    mapping->size > ptr + size - at)
			return false;
		at += mapping->size;
	}
	return true;
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	CUresult result;

	SIM_ENTER(cuMemSetAccess);
	if (!desc || count == 0 || size == 0 || size % SIM_GRANULE || ptr % SIM_GRANULE)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++)
		SIM_TRY(check_access(&desc[i]));
	sim_memory_lock();
	result = is_fully_mapped(ptr, size) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	for (CUdeviceptr at = ptr; at < ptr + size && result == CUDA_SUCCESS;) {
		struct sim_mapping *mapping = sim_mapping_find(at);
		for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
			result = set_access(mapping, &desc[i]);
		at = mapping->base + mapping->size;
	}
	sim_memory_unlock();
	return result;
}

CUresult CUDAAPI cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
	struct sim_device *device = NULL;

	SIM_ENTER(cuMemGetAccess);
	if (!flags || !location)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_is_host_location(location)) {
		if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
			return CUDA_ERROR_INVALID_VALUE;
		SIM_TRY(sim_device_get(location->id, &device));
	}
	sim_memory_lock();
	struct sim_mapping *mapping = sim_mapping_find(ptr);
	if (mapping)
		*flags = device		 ? mapping->access[device->ordinal]
			 : mapping->host ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
					 : 0;
	sim_memory_unlock();
	return mapping ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// ---- descriptors -----------------------------------------------------------------------------

CUresult CUDAAPI cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
					      CUmemAllocationHandleType handleType, unsigned long long flags)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	int descriptor = -1;

	SIM_ENTER(cuMemExportToShareableHandle);
	if (!shareableHandle || flags != 0 || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	sim_memory_lock();
	struct sim_physical *physical = sim_handle_find(handle);
	if (physical && !physical->foreign &&
	    (physical->properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) {
		struct region_export what = {.kind = REGION_EXPORT_MEMORY, .id = physical->id};
		result = CUDA_SUCCESS;
		if (!physical->device)
			descriptor = dup(physical->memory);
		else if (region_export(sim_process.region, &what, 0, &descriptor) != 0)
			descriptor = -1;
		physical->shared = true;
	}
	sim_memory_unlock();
	SIM_TRY(result);
	if (descriptor < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	*(int *)shareableHandle = descriptor;
	return CUDA_SUCCESS;
}

static CUresult return_imported(struct sim_physical *physical, CUmemLocationType type, int id,
				CUmemGenericAllocationHandle *ret_handle)
{
	physical->properties = (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
						     .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
						     .location = {.type = type, .id = id}};
	return return_handle(physical, ret_handle);
}

// Imports device memory. Call it with the memory lock held.
static CUresult import_device(uint64_t id, CUmemGenericAllocationHandle *ret_handle)
{
	struct sim_device *device = NULL;
	size_t size;
	int physical_device;

	if (region_ref(sim_process.region, id, &physical_device, &size) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < sim_process.device_count; i++)
		if (sim_process.devices[i].physical == physical_device)
			device = &sim_process.devices[i];
	struct sim_physical *physical = device ? sim_physical_adopt(device, id, size, -1) : NULL;
	if (!physical) {
		region_unref(sim_process.region, id);
		return device ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_DEVICE;
	}
	physical->shared = true;
	physical->foreign = CUDA_ERROR_NOT_SUPPORTED;
	return return_imported(physical, CU_MEM_LOCATION_TYPE_DEVICE, device->ordinal, ret_handle);
}

// Imports memory on a NUMA node of the host. The descriptor is of the file that contains the memory.
static CUresult import_host(int descriptor, CUmemGenericAllocationHandle *ret_handle)
{
	static const char name[] = "/memfd:" SIM_HOST_MEMORY;
	char path[64], target[64] = "";
	struct stat facts;

	snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
	if (readlink(path, target, sizeof target - 1) < 0 || strncmp(target, name, strlen(name)) != 0 ||
	    fstat(descriptor, &facts) != 0 || facts.st_size == 0 || (size_t)facts.st_size % SIM_GRANULE)
		return CUDA_ERROR_UNKNOWN; // the descriptor was not exported
	int memory = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
	struct sim_physical *physical = memory < 0 ? NULL : sim_physical_adopt(NULL, 0, (size_t)facts.st_size, memory);
	if (!physical) {
		if (memory >= 0)
			close(memory);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return return_imported(physical, CU_MEM_LOCATION_TYPE_HOST_NUMA, 0, ret_handle);
}

CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
						CUmemAllocationHandleType shHandleType)
{
	struct region_export what;

	SIM_ENTER(cuMemImportFromShareableHandle);
	if (!handle || shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	bool ours = region_import(sim_process.region, (int)(intptr_t)osHandle, &what) == 0;
	if (ours && what.kind != REGION_EXPORT_MEMORY)
		return CUDA_ERROR_NOT_SUPPORTED;
	sim_memory_lock();
	CUresult result = ours ? import_device(what.id, handle) : import_host((int)(intptr_t)osHandle, handle);
	sim_memory_unlock();
	return result;
}
