#include "shim/mapping.h"

#include <stdlib.h>
#include <string.h>

static struct shim_mapping *mappings; // sorted by address; guarded by shim_physical_lock
static size_t mapping_count, mapping_capacity;

int shim_handle_store_locked(CUmemGenericAllocationHandle handle, struct shim_physical *physical)
{
	struct shim_record record = {.key = handle, .data = physical, .type = SHIM_HANDLE, .references = 1};

	return shim_record_put(&record);
}

CUresult shim_handle_store_physical(CUmemGenericAllocationHandle handle, struct shim_physical *physical)
{
	pthread_mutex_lock(&shim_physical_lock);
	int result = shim_handle_store_locked(handle, physical);
	pthread_mutex_unlock(&shim_physical_lock);
	if (result == 0)
		return CUDA_SUCCESS;
	REAL(cuMemRelease)(handle);
	shim_physical_unref(physical);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult shim_handle_store(CUmemGenericAllocationHandle handle, enum vg_ledger_kind kind, uint64_t bytes)
{
	struct shim_physical *physical = shim_physical_create(kind, bytes);

	if (physical)
		return shim_handle_store_physical(handle, physical);
	REAL(cuMemRelease)(handle);
	shim_refund(kind, bytes);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

struct shim_physical *shim_handle_find(CUmemGenericAllocationHandle handle, uint64_t *ret_bytes)
{
	struct shim_record record;
	struct shim_physical *physical = NULL;

	pthread_mutex_lock(&shim_physical_lock);
	if (shim_record_find(SHIM_HANDLE, handle, &record)) {
		physical = record.data;
		shim_physical_ref_locked(physical);
		*ret_bytes = physical->bytes;
	}
	pthread_mutex_unlock(&shim_physical_lock);
	return physical;
}

// Returns the index of the first mapping that ends after `address`.
static size_t find_first_after(CUdeviceptr address)
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

static int insert_mapping(const struct shim_mapping *mapping)
{
	size_t at = find_first_after(mapping->address);

	if (mapping_count == mapping_capacity) {
		size_t capacity = mapping_capacity ? mapping_capacity * 2 : 64;
		struct shim_mapping *grown = realloc(mappings, capacity * sizeof *grown);
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

bool shim_mapping_add(CUdeviceptr address, uint64_t size, struct shim_physical *physical)
{
	const struct shim_mapping mapping = {address, size, physical};

	pthread_mutex_lock(&shim_physical_lock);
	int stored = insert_mapping(&mapping);
	pthread_mutex_unlock(&shim_physical_lock);
	return stored == 0;
}

size_t shim_mappings_remove(CUdeviceptr address, size_t size, struct shim_mapping **ret_removed)
{
	size_t first, last;

	pthread_mutex_lock(&shim_physical_lock);
	first = find_first_after(address);
	for (last = first; last < mapping_count && mappings[last].address - address < size;)
		last++;
	*ret_removed = last > first ? malloc((last - first) * sizeof **ret_removed) : NULL;
	if (*ret_removed) {
		memcpy(*ret_removed, &mappings[first], (last - first) * sizeof **ret_removed);
		memmove(&mappings[first], &mappings[last], (mapping_count - last) * sizeof *mappings);
		mapping_count -= last - first;
	}
	pthread_mutex_unlock(&shim_physical_lock);
	return *ret_removed ? last - first : 0;
}

void shim_mappings_restore(const struct shim_mapping *removed, size_t count)
{
	pthread_mutex_lock(&shim_physical_lock);
	for (size_t i = 0; i < count; i++)
		insert_mapping(&removed[i]);
	pthread_mutex_unlock(&shim_physical_lock);
}

struct shim_physical *shim_mapping_at(CUdeviceptr address)
{
	size_t at = find_first_after(address);

	return at < mapping_count && mappings[at].address <= address ? mappings[at].physical : NULL;
}

struct shim_physical *shim_mapping_find(CUdeviceptr address, uint64_t size, uint64_t *ret_bytes)
{
	struct shim_physical *physical = NULL;
	size_t at;

	pthread_mutex_lock(&shim_physical_lock);
	at = find_first_after(address);
	if (at < mapping_count && mappings[at].address <= address &&
	    size <= mappings[at].size - (address - mappings[at].address))
		physical = mappings[at].physical;
	if (physical) {
		shim_physical_ref_locked(physical);
		*ret_bytes = physical->bytes;
	}
	pthread_mutex_unlock(&shim_physical_lock);
	return physical;
}

void shim_pin(CUmemGenericAllocationHandle handle, uint64_t owner, uint64_t offset)
{
	uint64_t bytes;
	struct shim_physical *physical = shim_handle_find(handle, &bytes);

	if (physical)
		shim_physical_pin(physical, owner, offset);
}

void shim_pin_address(CUdeviceptr address, uint64_t owner, uint64_t offset)
{
	struct shim_physical *physical;

	pthread_mutex_lock(&shim_physical_lock);
	physical = shim_mapping_at(address);
	if (physical)
		shim_physical_ref_locked(physical);
	pthread_mutex_unlock(&shim_physical_lock);
	if (physical)
		shim_physical_pin(physical, owner, offset);
}

uint64_t shim_multicast_owner(CUmemGenericAllocationHandle multicast)
{
	struct shim_record record;
	uint64_t owner = multicast;

	pthread_mutex_lock(&shim_physical_lock);
	if (shim_record_find(SHIM_HANDLE, multicast, &record)) {
		struct shim_physical *physical = record.data;
		physical->has_pins = true;
		owner = (uintptr_t)physical;
	}
	pthread_mutex_unlock(&shim_physical_lock);
	return owner;
}
