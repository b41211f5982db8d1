#include "pager/mapping.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pager/array.h"
#include "pager/handle.h"

// Protects all variables below, and the lists of mappings in handles. Lock this before the lock of handle.c.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pager_mapping **mappings; // sorted by address
static size_t count, capacity;
static size_t reserved; // number of entries reserved for calls that are under way
static uint64_t numbers;

// Returns the index of the first mapping that ends after `address`.
static size_t find_behind(CUdeviceptr address)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		if (mappings[middle]->address + mappings[middle]->size > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static bool reserve_entry(void)
{
	bool is_reserved;

	pthread_mutex_lock(&lock);
	is_reserved = pager_array_reserve(&mappings, count + reserved, &capacity);
	reserved += is_reserved;
	pthread_mutex_unlock(&lock);
	return is_reserved;
}

// Inserts a mapping for which an entry is reserved. Call it with the lock held.
static void insert_mapping(struct pager_mapping *mapping)
{
	size_t at = find_behind(mapping->address);

	memmove(&mappings[at + 1], &mappings[at], (count - at) * sizeof *mappings);
	mappings[at] = mapping;
	count++;
	reserved--;
}

static void link_to_handle(struct pager_mapping *mapping)
{
	mapping->next = mapping->handle->mappings;
	mapping->handle->mappings = mapping;
}

static CUresult map_handle(struct pager_mapping *mapping, unsigned long long flags)
{
	struct pager_handle *handle = mapping->handle;
	CUresult result = pager_driver.cuMemMap(mapping->address, mapping->size, mapping->offset, handle->real, flags);

	pthread_mutex_lock(&lock);
	if (result == CUDA_SUCCESS) {
		mapping->number = 3ull << 61 | ++numbers;
		link_to_handle(mapping);
		insert_mapping(mapping);
	} else {
		reserved--;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult pager_mapping_add(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle number,
			   unsigned long long flags)
{
	struct pager_handle *handle = pager_handle_hold(number);
	struct pager_mapping *mapping;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	mapping = malloc(sizeof *mapping);
	if (mapping && reserve_entry()) {
		*mapping = (struct pager_mapping){
			.address = address, .size = size, .offset = offset, .handle = handle, .is_mapped = true};
		result = map_handle(mapping, flags);
	}
	if (result != CUDA_SUCCESS) {
		free(mapping);
		pager_handle_drop(handle);
	}
	return result;
}

// Removes the mappings that begin inside a range from the table, but keeps their entries reserved. The caller frees the
// array of mappings. Returns false if no memory is left for the array.
static bool remove_range(CUdeviceptr address, size_t size, struct pager_mapping ***ret_removed, size_t *ret_count)
{
	struct pager_mapping **removed = NULL;
	size_t first, last;

	pthread_mutex_lock(&lock);
	first = find_behind(address);
	for (last = first; last < count && mappings[last]->address - address < size;)
		last++;
	if (last > first) {
		removed = malloc((last - first) * sizeof *removed);
		if (!removed) {
			pthread_mutex_unlock(&lock);
			return false;
		}
		memcpy(removed, &mappings[first], (last - first) * sizeof *removed);
		memmove(&mappings[first], &mappings[last], (count - last) * sizeof *mappings);
		count -= last - first;
		reserved += last - first;
	}
	pthread_mutex_unlock(&lock);
	*ret_removed = removed;
	*ret_count = last - first;
	return true;
}

static void unlink_from_handle(const struct pager_mapping *mapping)
{
	struct pager_mapping **link = &mapping->handle->mappings;

	while (*link != mapping)
		link = &(*link)->next;
	*link = mapping->next;
}

// Unmaps a range, unless all mappings in it (`removed`) are unmapped already. A range without mappings is unmapped,
// too, so that the driver returns its error.
static CUresult unmap_range(CUdeviceptr address, size_t size, struct pager_mapping **removed, size_t removed_count)
{
	bool is_mapped = removed_count == 0;
	CUresult result;

	for (size_t i = 0; i < removed_count; i++)
		is_mapped |= removed[i]->is_mapped;
	result = is_mapped ? pager_driver.cuMemUnmap(address, size) : CUDA_SUCCESS;
	for (size_t i = 0; i < removed_count && result == CUDA_SUCCESS; i++)
		removed[i]->is_mapped = false;
	return result;
}

static void insert_again(struct pager_mapping *mapping)
{
	pthread_mutex_lock(&lock);
	insert_mapping(mapping);
	pthread_mutex_unlock(&lock);
}

// Destroys a mapping that was removed from the table. If its memory cannot be released, inserts the mapping again.
static CUresult destroy_mapping(struct pager_mapping *mapping)
{
	CUresult result;

	pthread_mutex_lock(&lock);
	unlink_from_handle(mapping);
	pthread_mutex_unlock(&lock);
	result = pager_handle_drop(mapping->handle);
	pthread_mutex_lock(&lock);
	if (result == CUDA_SUCCESS) {
		reserved--;
	} else {
		link_to_handle(mapping);
		insert_mapping(mapping);
	}
	pthread_mutex_unlock(&lock);
	if (result == CUDA_SUCCESS)
		free(mapping);
	return result;
}

CUresult pager_mapping_remove(CUdeviceptr address, size_t size)
{
	struct pager_mapping **removed;
	size_t removed_count;
	CUresult result;

	if (!remove_range(address, size, &removed, &removed_count))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = unmap_range(address, size, removed, removed_count);
	for (size_t i = 0; i < removed_count; i++) {
		if (removed[i]->is_mapped) {
			insert_again(removed[i]);
		} else {
			CUresult ended = destroy_mapping(removed[i]);
			result = result == CUDA_SUCCESS ? ended : result;
		}
	}
	free(removed);
	return result;
}

static void describe_mapping(const struct pager_mapping *mapping, struct pager_mapped *ret_mapped)
{
	*ret_mapped = (struct pager_mapped){mapping->address, mapping->size, mapping->number};
}

struct pager_handle *pager_mapping_hold(CUdeviceptr address, CUdeviceptr end, struct pager_mapped *ret_mapped)
{
	struct pager_handle *handle = NULL;
	size_t at;

	pthread_mutex_lock(&lock);
	at = find_behind(address);
	if (at < count && mappings[at]->address < end) {
		handle = mappings[at]->handle;
		pager_handle_hold_again(handle);
		describe_mapping(mappings[at], ret_mapped);
	}
	pthread_mutex_unlock(&lock);
	return handle;
}

bool pager_mapping_find(CUdeviceptr address, struct pager_mapped *ret_mapped)
{
	size_t at;
	bool found;

	pthread_mutex_lock(&lock);
	at = find_behind(address);
	found = at < count && mappings[at]->address <= address;
	if (found)
		describe_mapping(mappings[at], ret_mapped);
	pthread_mutex_unlock(&lock);
	return found;
}

bool pager_mapping_can_leave(CUdeviceptr address, CUdeviceptr end)
{
	bool can_leave = false;

	pthread_mutex_lock(&lock);
	for (size_t at = find_behind(address); at < count && mappings[at]->address < end && !can_leave; at++)
		can_leave = pager_handle_can_leave(mappings[at]->handle);
	pthread_mutex_unlock(&lock);
	return can_leave;
}

void pager_mapping_order(void)
{
	pthread_mutex_lock(&lock);
	pager_handle_bytes();
	pthread_mutex_unlock(&lock);
}
