#include <stdlib.h>
#include <string.h>

#include "shim/evict.h"
#include "shim/physical.h"
#include "shim/undeclared.h"

struct mapping {
	CUdeviceptr address;
	uint64_t size;
	struct shim_physical *physical;
};

static struct mapping *mappings; // by address
static size_t mapping_count, mapping_capacity; // under the lock of physical.h
static const uint64_t granularity = 2ull << 20; // of memory of the device

static int add_handle(CUmemGenericAllocationHandle handle, struct shim_physical *physical)
{
	struct shim_record record = {.key = handle, .data = physical, .what = SHIM_HANDLE, .references = 1};

	return shim_record_put(&record);
}

CUresult shim_physical_keep_held(CUmemGenericAllocationHandle handle, struct shim_physical *physical)
{
	pthread_mutex_lock(&shim_physical_lock);
	int result = add_handle(handle, physical);
	pthread_mutex_unlock(&shim_physical_lock);
	if (result == 0)
		return CUDA_SUCCESS;
	REAL(cuMemRelease)(handle);
	shim_physical_drop(physical);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

// Stores what a successful create or import gave; the caller has charged `bytes`.
CUresult shim_physical_keep(CUmemGenericAllocationHandle handle, enum vg_ledger_kind kind, uint64_t bytes)
{
	struct shim_physical *physical = shim_physical_new(kind, bytes);

	if (physical)
		return shim_physical_keep_held(handle, physical);
	REAL(cuMemRelease)(handle);
	shim_refund(kind, bytes);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static bool is_on_device(const CUmemAllocationProp *properties)
{
	return !properties || properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE ||
	       properties->location.type == CU_MEM_LOCATION_TYPE_INVALID;
}

// Memory that can move to the host.
static CUresult create_evictable(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *properties)
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
	result = shim_physical_keep(*handle, VG_LEDGER_VMM, size);
	if (result == CUDA_SUCCESS)
		physical = shim_physical_hold(*handle, &bytes);
	if (physical) {
		shim_physical_set_evictable(physical, true);
		shim_physical_drop(physical);
	} else {
		shim_evict_note_charge(-(int64_t)size);
	}
	return result;
}

// The driver refuses such sizes. Should it accept one, the quota has the last word.
static CUresult create_odd(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *properties,
			   unsigned long long flags)
{
	CUresult result = REAL(cuMemCreate)(handle, size, properties, flags);

	if (result != CUDA_SUCCESS)
		return result;
	result = shim_charge(VG_ENTRY_cuMemCreate, VG_LEDGER_VMM, size);
	if (result == CUDA_SUCCESS)
		return shim_physical_keep(*handle, VG_LEDGER_VMM, size);
	REAL(cuMemRelease)(*handle);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
					 const CUmemAllocationProp *properties, unsigned long long flags)
{
	CUresult result;

	if (!shim_enforcing() || !is_on_device(properties))
		return REAL(cuMemCreate)(handle, size, properties, flags);
	if (size % granularity)
		return create_odd(handle, size, properties, flags);
	if (shim_evictable && shim_evict_takes(size, properties, flags))
		return create_evictable(handle, size, properties);
	result = shim_charge(VG_ENTRY_cuMemCreate, VG_LEDGER_VMM, size);
	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuMemCreate)(handle, size, properties, flags);
	if (result == CUDA_SUCCESS)
		return shim_physical_keep(*handle, VG_LEDGER_VMM, size);
	shim_refund(VG_LEDGER_VMM, size);
	return result;
}

// The driver may answer with a handle this process already has: one more reference to it.
static bool is_known(CUmemGenericAllocationHandle handle)
{
	struct shim_record record;

	return shim_record_count(SHIM_HANDLE, handle, 1, &record);
}

// Of what nobody has charged yet: an import does not say its size, so the smallest there is is charged now, and the
// rest when it is mapped, before which nobody can use it.
static CUresult keep_unknown(CUmemGenericAllocationHandle handle, void *shareable, CUmemAllocationHandleType type,
			     uint64_t least)
{
	uint64_t bytes;
	CUresult result = shim_physical_keep(handle, VG_LEDGER_IMPORT, least);
	struct shim_physical *physical = result == CUDA_SUCCESS ? shim_physical_hold(handle, &bytes) : NULL;

	shim_undeclared_doubt(); // never mapped, it may be more than the least
	if (physical && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		shim_share_mark_later(physical, (int)(intptr_t)shareable);
	if (physical)
		shim_physical_drop(physical);
	return result;
}

static CUresult import_held(CUmemGenericAllocationHandle *handle, void *shareable, CUmemAllocationHandleType type,
			    struct shim_physical *physical)
{
	CUresult result = REAL(cuMemImportFromShareableHandle)(handle, shareable, type);

	if (result == CUDA_SUCCESS && !is_known(*handle))
		return shim_physical_keep_held(*handle, physical);
	shim_physical_drop(physical);
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
		physical = shim_share_hold_descriptor(SHIM_KEY_DESCRIPTOR, (int)(intptr_t)shareable);
	if (physical)
		return import_held(handle, shareable, type, physical);
	result = shim_charge(VG_ENTRY_cuMemImportFromShareableHandle, VG_LEDGER_IMPORT, least);
	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuMemImportFromShareableHandle)(handle, shareable, type);
	if (result == CUDA_SUCCESS && !is_known(*handle)) {
		memset(&properties, 0, sizeof properties);
		if (REAL(cuMemGetAllocationPropertiesFromHandle)(&properties, *handle) != CUDA_SUCCESS ||
		    is_on_device(&properties))
			return keep_unknown(*handle, shareable, type, least);
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
	if (shim_record_count(SHIM_HANDLE, handle, -1, &record))
		physical = record.data; // with its last handle, that handle's hold is ours to drop
	pthread_mutex_unlock(&shim_physical_lock);
	result = REAL(cuMemRelease)(handle);
	if (!physical) { // a multicast object, or host memory
		if (result == CUDA_SUCCESS)
			shim_unpin_all(handle);
		return result;
	}
	pthread_mutex_lock(&shim_physical_lock);
	if (result != CUDA_SUCCESS) {
		if (record.references == 0)
			add_handle(handle, physical);
		else
			shim_record_count(SHIM_HANDLE, handle, 1, &record);
	} else if (record.references == 0) {
		shim_physical_drop_locked(physical, 1);
	}
	pthread_mutex_unlock(&shim_physical_lock);
	return result;
}

// Index of the first mapping that ends behind `address`.
static size_t first_behind(CUdeviceptr address)
{
	size_t low = 0, high = mapping_count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		if (mappings[middle].address + mappings[middle].size > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static int insert_mapping(const struct mapping *mapping)
{
	size_t at = first_behind(mapping->address);

	if (mapping_count == mapping_capacity) {
		size_t capacity = mapping_capacity ? mapping_capacity * 2 : 64;
		struct mapping *grown = realloc(mappings, capacity * sizeof *grown);
		if (!grown)
			return -1;
		mappings = grown;
		mapping_capacity = capacity;
	}
	memmove(&mappings[at + 1], &mappings[at], (mapping_count - at) * sizeof *mappings);
	mappings[at] = *mapping;
	mapping_count++;
	return 0;
}

// An import that turns out to be larger than what was charged for it so far.
static CUresult charge_rest(struct shim_physical *physical, uint64_t size)
{
	uint64_t missing = 0;
	CUresult result;

	pthread_mutex_lock(&shim_physical_lock);
	if (physical->kind == VG_LEDGER_IMPORT && !physical->joined && size > physical->bytes) {
		missing = size - physical->bytes;
		shim_physical_resize(physical, size);
	}
	pthread_mutex_unlock(&shim_physical_lock);
	result = missing ? shim_charge(VG_ENTRY_cuMemMap, VG_LEDGER_IMPORT, missing) : CUDA_SUCCESS;
	if (result == CUDA_SUCCESS) {
		shim_share_offer_marked(physical);
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
	struct shim_physical *physical = shim_counting() ? shim_physical_hold(handle, &bytes) : NULL;
	struct mapping mapping = {address, size, physical};
	CUresult result;
	int stored;

	if (!physical)
		return REAL(cuMemMap)(address, size, offset, handle, flags);
	result = charge_rest(physical, size);
	if (result == CUDA_SUCCESS)
		result = REAL(cuMemMap)(address, size, offset, handle, flags);
	if (result != CUDA_SUCCESS) {
		shim_physical_drop(physical);
		return result;
	}
	pthread_mutex_lock(&shim_physical_lock);
	stored = insert_mapping(&mapping); // takes over our hold
	pthread_mutex_unlock(&shim_physical_lock);
	if (stored != 0) {
		REAL(cuMemUnmap)(address, size);
		shim_physical_drop(physical);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

// Takes the mappings that begin inside a range; the caller frees the array.
static size_t take_mappings(CUdeviceptr address, size_t size, struct mapping **ret_taken)
{
	size_t first, last;

	pthread_mutex_lock(&shim_physical_lock);
	first = first_behind(address);
	for (last = first; last < mapping_count && mappings[last].address - address < size;)
		last++;
	*ret_taken = last > first ? malloc((last - first) * sizeof **ret_taken) : NULL;
	if (*ret_taken) {
		memcpy(*ret_taken, &mappings[first], (last - first) * sizeof **ret_taken);
		memmove(&mappings[first], &mappings[last], (mapping_count - last) * sizeof *mappings);
		mapping_count -= last - first;
	}
	pthread_mutex_unlock(&shim_physical_lock);
	return *ret_taken ? last - first : 0;
}

SHIM_EXPORT CUresult CUDAAPI cuMemUnmap(CUdeviceptr address, size_t size)
{
	struct mapping *taken = NULL;

	if (shim_is_evictable(address)) // memory of cuMemAlloc, to the program
		return CUDA_ERROR_INVALID_VALUE;
	size_t count = shim_counting() ? take_mappings(address, size, &taken) : 0;
	CUresult result = REAL(cuMemUnmap)(address, size);

	if (!count)
		return result;
	pthread_mutex_lock(&shim_physical_lock);
	for (size_t i = 0; i < count; i++) {
		if (result != CUDA_SUCCESS)
			insert_mapping(&taken[i]);
		else
			shim_physical_drop_locked(taken[i].physical, 1);
	}
	pthread_mutex_unlock(&shim_physical_lock);
	free(taken);
	return result;
}

static struct shim_physical *physical_at(CUdeviceptr address)
{
	size_t at = first_behind(address);

	return at < mapping_count && mappings[at].address <= address ? mappings[at].physical : NULL;
}

struct shim_physical *shim_physical_hold_range(CUdeviceptr address, uint64_t size, uint64_t *ret_bytes)
{
	struct shim_physical *physical = NULL;
	size_t at;

	pthread_mutex_lock(&shim_physical_lock);
	at = first_behind(address);
	if (at < mapping_count && mappings[at].address <= address &&
	    size <= mappings[at].size - (address - mappings[at].address))
		physical = mappings[at].physical;
	if (physical) {
		shim_physical_add(physical);
		*ret_bytes = physical->bytes;
	}
	pthread_mutex_unlock(&shim_physical_lock);
	return physical;
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
	physical = physical_at((CUdeviceptr)(uintptr_t)address);
	if (physical && !shim_record_count(SHIM_HANDLE, *handle, 1, &record) && add_handle(*handle, physical) == 0)
		shim_physical_add(physical);
	pthread_mutex_unlock(&shim_physical_lock);
	return result;
}

void shim_pin(CUmemGenericAllocationHandle handle, uint64_t owner, uint64_t offset)
{
	uint64_t bytes;
	struct shim_physical *physical = shim_physical_hold(handle, &bytes);

	if (physical)
		shim_physical_pin(physical, owner, offset);
}

void shim_pin_address(CUdeviceptr address, uint64_t owner, uint64_t offset)
{
	struct shim_physical *physical;

	pthread_mutex_lock(&shim_physical_lock);
	physical = physical_at(address);
	if (physical)
		shim_physical_add(physical);
	pthread_mutex_unlock(&shim_physical_lock);
	if (physical)
		shim_physical_pin(physical, owner, offset);
}

uint64_t shim_binder(CUmemGenericAllocationHandle multicast)
{
	struct shim_record record;
	uint64_t owner = multicast;

	pthread_mutex_lock(&shim_physical_lock);
	if (shim_record_find(SHIM_HANDLE, multicast, &record)) {
		struct shim_physical *physical = record.data;
		physical->binds = true;
		owner = (uintptr_t)physical;
	}
	pthread_mutex_unlock(&shim_physical_lock);
	return owner;
}
