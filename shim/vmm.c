// Creates, imports, maps and releases physical memory (virtual memory management).
#include <stdlib.h>
#include <string.h>

#include "shim/evict.h"
#include "shim/fixed.h"
#include "shim/mapping.h"
#include "shim/shared.h"
#include "shim/undeclared.h"

static const uint64_t granularity = 2ull << 20; // granularity of physical device memory

static bool is_on_device(const CUmemAllocationProp *properties)
{
	return !properties || properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE ||
	       properties->location.type == CU_MEM_LOCATION_TYPE_INVALID;
}

// Creates memory that can move to the host.
static CUresult create_evictable(CUmemGenericAllocationHandle *handle, size_t size,
				 const CUmemAllocationProp *properties)
{
	CUresult result = shim_charge_evictable(VG_ENTRY_cuMemCreate, VG_LEDGER_VMM, size);
	struct shim_physical *physical = NULL;
	uint64_t bytes;

	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuMemCreate)(handle, size, properties, 0);
	if (result != CUDA_SUCCESS) {
		shim_refund_evictable(VG_LEDGER_VMM, size);
		return result;
	}
	result = shim_handle_store(*handle, VG_LEDGER_VMM, size);
	if (result == CUDA_SUCCESS)
		physical = shim_handle_find(*handle, &bytes);
	if (physical) {
		shim_physical_set_evictable(physical, true);
		shim_physical_unref(physical);
	} else {
		shim_fixed_note_evictable(-(int64_t)size);
	}
	return result;
}

// Creates memory whose size is not a multiple of 2 MiB, which drivers refuse today. If a driver accepts the size, the
// memory is charged afterwards.
static CUresult create_unaligned(CUmemGenericAllocationHandle *handle, size_t size,
				 const CUmemAllocationProp *properties, unsigned long long flags)
{
	CUresult result = REAL(cuMemCreate)(handle, size, properties, flags);

	if (result != CUDA_SUCCESS)
		return result;
	result = shim_charge(VG_ENTRY_cuMemCreate, VG_LEDGER_VMM, size);
	if (result == CUDA_SUCCESS)
		return shim_handle_store(*handle, VG_LEDGER_VMM, size);
	REAL(cuMemRelease)(*handle);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
					 const CUmemAllocationProp *properties, unsigned long long flags)
{
	CUresult result;
	SHIM_ON_DEVICE(properties ? properties->location.id : -1);

	if (!shim_enforcing() || !is_on_device(properties))
		return REAL(cuMemCreate)(handle, size, properties, flags);
	if (size % granularity)
		return create_unaligned(handle, size, properties, flags);
	if (shim_evictable && shim_evict_can_create(size, properties, flags))
		return create_evictable(handle, size, properties);
	result = shim_charge(VG_ENTRY_cuMemCreate, VG_LEDGER_VMM, size);
	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuMemCreate)(handle, size, properties, flags);
	if (result == CUDA_SUCCESS)
		return shim_handle_store(*handle, VG_LEDGER_VMM, size);
	shim_refund(VG_LEDGER_VMM, size);
	return result;
}

// Returns true, and adds a reference, if this process already has the handle that the driver returned.
static bool reference_known_handle(CUmemGenericAllocationHandle handle)
{
	struct shim_record record;

	return shim_record_add_references(SHIM_HANDLE, handle, 1, &record);
}

// Stores the handle of imported memory for which no vGPU is known to be charged. An import does not report its size. So
// the caller has charged `least` bytes, the smallest size. The rest is charged when the memory is mapped, because it
// cannot be used before.
static CUresult store_import(CUmemGenericAllocationHandle handle, void *shareable, CUmemAllocationHandleType type,
			     uint64_t least)
{
	uint64_t bytes;
	CUresult result = shim_handle_store(handle, VG_LEDGER_IMPORT, least);
	struct shim_physical *physical = result == CUDA_SUCCESS ? shim_handle_find(handle, &bytes) : NULL;

	shim_undeclared_expect_change(); // the memory may be larger than charged, even if never mapped
	if (physical && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		shim_shared_mark_only(physical, (int)(intptr_t)shareable);
	shim_physical_unref(physical);
	return result;
}

static CUresult import_joined(CUmemGenericAllocationHandle *handle, void *shareable, CUmemAllocationHandleType type,
			      struct shim_physical *physical)
{
	CUresult result = REAL(cuMemImportFromShareableHandle)(handle, shareable, type);

	if (result == CUDA_SUCCESS && !reference_known_handle(*handle))
		return shim_handle_store_physical(*handle, physical);
	shim_physical_unref(physical);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
							    CUmemAllocationHandleType type)
{
	const uint64_t least = 2ull << 20;
	CUmemAllocationProp properties;
	struct shim_physical *physical = NULL;
	CUresult result;

	if (!shim_enforcing())
		return REAL(cuMemImportFromShareableHandle)(handle, shareable, type);
	if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		physical = shim_shared_join_descriptor(SHIM_KEY_DESCRIPTOR, (int)(intptr_t)shareable);
	if (physical)
		return import_joined(handle, shareable, type, physical);
	result = shim_charge(VG_ENTRY_cuMemImportFromShareableHandle, VG_LEDGER_IMPORT, least);
	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuMemImportFromShareableHandle)(handle, shareable, type);
	if (result == CUDA_SUCCESS && !reference_known_handle(*handle)) {
		memset(&properties, 0, sizeof properties);
		if (REAL(cuMemGetAllocationPropertiesFromHandle)(&properties, *handle) != CUDA_SUCCESS ||
		    is_on_device(&properties))
			return store_import(*handle, shareable, type, least);
	}
	shim_refund(VG_LEDGER_IMPORT, least);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct shim_record record;
	struct shim_physical *physical = NULL;
	CUresult result;

	if (!shim_counting())
		return REAL(cuMemRelease)(handle);
	pthread_mutex_lock(&shim_physical_lock);
	if (shim_record_add_references(SHIM_HANDLE, handle, -1, &record))
		physical = record.data; // if no reference of the handle is left, `physical` loses one below
	pthread_mutex_unlock(&shim_physical_lock);
	result = REAL(cuMemRelease)(handle);
	if (!physical) { // the handle is of a multicast object or of host memory
		if (result == CUDA_SUCCESS)
			shim_unpin_all(handle);
		return result;
	}
	pthread_mutex_lock(&shim_physical_lock);
	if (result != CUDA_SUCCESS) {
		if (record.references == 0)
			shim_handle_store_locked(handle, physical);
		else
			shim_record_add_references(SHIM_HANDLE, handle, 1, &record);
	} else if (record.references == 0) {
		shim_physical_unref_locked(physical);
	}
	pthread_mutex_unlock(&shim_physical_lock);
	return result;
}

// Charges the remaining bytes of an import that turns out to be larger than its charge.
static CUresult charge_rest(struct shim_physical *physical, uint64_t size)
{
	uint64_t missing = 0;
	CUresult result;

	pthread_mutex_lock(&shim_physical_lock);
	if (physical->kind == VG_LEDGER_IMPORT && !physical->is_joined && size > physical->bytes) {
		missing = size - physical->bytes;
		shim_physical_resize(physical, size);
	}
	pthread_mutex_unlock(&shim_physical_lock);
	SHIM_ON_DEVICE(physical->device);
	result = missing ? shim_charge(VG_ENTRY_cuMemMap, VG_LEDGER_IMPORT, missing) : CUDA_SUCCESS;
	if (result == CUDA_SUCCESS) {
		shim_shared_name_marked(physical);
		return result;
	}
	pthread_mutex_lock(&shim_physical_lock);
	shim_physical_resize(physical, physical->bytes - missing);
	pthread_mutex_unlock(&shim_physical_lock);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuMemMap(CUdeviceptr address, size_t size, size_t offset,
				      CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	uint64_t bytes;
	struct shim_physical *physical = shim_counting() ? shim_handle_find(handle, &bytes) : NULL;
	CUresult result;

	if (!physical)
		return REAL(cuMemMap)(address, size, offset, handle, flags);
	result = charge_rest(physical, size);
	if (result == CUDA_SUCCESS)
		result = REAL(cuMemMap)(address, size, offset, handle, flags);
	if (result != CUDA_SUCCESS) {
		shim_physical_unref(physical);
		return result;
	}
	if (shim_mapping_add(address, size, physical))
		return CUDA_SUCCESS;
	REAL(cuMemUnmap)(address, size);
	shim_physical_unref(physical);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

SHIM_EXPORT CUresult CUDAAPI cuMemUnmap(CUdeviceptr address, size_t size)
{
	struct shim_mapping *removed = NULL;

	if (shim_is_evictable(address)) // the program sees evictable memory as memory of cuMemAlloc
		return CUDA_ERROR_INVALID_VALUE;
	size_t count = shim_counting() ? shim_mappings_remove(address, size, &removed) : 0;
	CUresult result = REAL(cuMemUnmap)(address, size);

	if (result != CUDA_SUCCESS)
		shim_mappings_restore(removed, count);
	else
		for (size_t i = 0; i < count; i++)
			shim_physical_unref(removed[i].physical);
	free(removed);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
	struct shim_record record;
	struct shim_physical *physical;

	if (shim_is_evictable((CUdeviceptr)(uintptr_t)address))
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = REAL(cuMemRetainAllocationHandle)(handle, address);
	if (result != CUDA_SUCCESS || !shim_counting())
		return result;
	pthread_mutex_lock(&shim_physical_lock);
	physical = shim_mapping_at((CUdeviceptr)(uintptr_t)address);
	if (physical && !shim_record_add_references(SHIM_HANDLE, *handle, 1, &record) &&
	    shim_handle_store_locked(*handle, physical) == 0)
		shim_physical_ref_locked(physical);
	pthread_mutex_unlock(&shim_physical_lock);
	return result;
}
