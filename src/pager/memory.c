#include "pager/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pager/array.h"
#include "pager/handle.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // protects all variables below
static struct pager_allocation **allocations;		 // sorted by address
static size_t count, capacity;
static uint64_t bytes_of_all, numbers;
static struct pager_allocation *to_free;

struct pager_driver pager_driver;

static const size_t granule = 2u << 20;

const CUmemLocation pager_location = {.type = CU_MEM_LOCATION_TYPE_DEVICE};

// Returns the index of the first allocation that ends after `address`.
static size_t find_behind(CUdeviceptr address)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		if (allocations[middle]->base + allocations[middle]->size > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static struct pager_allocation *find_allocation(CUdeviceptr address)
{
	size_t at = find_behind(address);

	return at < count && allocations[at]->base <= address ? allocations[at] : NULL;
}

static bool insert_allocation(struct pager_allocation *allocation)
{
	bool inserted;

	pthread_mutex_lock(&lock);
	inserted = pager_array_reserve(&allocations, count, &capacity);
	if (inserted) {
		size_t at = find_behind(allocation->base);
		memmove(&allocations[at + 1], &allocations[at], (count - at) * sizeof *allocations);
		allocations[at] = allocation;
		count++;
		allocation->number = ++numbers;
		bytes_of_all += allocation->size;
	}
	pthread_mutex_unlock(&lock);
	return inserted;
}

CUresult pager_chunk_create(struct pager_allocation *allocation, size_t index)
{
	const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = pager_location};
	struct pager_chunk *chunk = &allocation->chunks[index];
	CUmemGenericAllocationHandle handle;
	CUresult result;

	if (chunk->handle)
		return CUDA_SUCCESS;
	result = pager_driver.cuMemCreate(&handle, pager_chunk_size(allocation, index), &properties, 0);
	if (result == CUDA_SUCCESS)
		chunk->handle = handle;
	return result;
}

CUresult pager_chunk_map(struct pager_allocation *allocation, size_t index)
{
	struct pager_chunk *chunk = &allocation->chunks[index];
	CUresult result;

	if (chunk->is_mapped)
		return CUDA_SUCCESS;
	result = pager_driver.cuMemMap(allocation->base + index * PAGER_CHUNK, pager_chunk_size(allocation, index), 0,
				       chunk->handle, 0);
	chunk->is_mapped = result == CUDA_SUCCESS;
	return result;
}

CUresult pager_chunk_release(struct pager_allocation *allocation, size_t index)
{
	struct pager_chunk *chunk = &allocation->chunks[index];
	CUresult result = CUDA_SUCCESS;

	if (chunk->is_mapped)
		result = pager_driver.cuMemUnmap(allocation->base + index * PAGER_CHUNK,
						 pager_chunk_size(allocation, index));
	if (result != CUDA_SUCCESS)
		return result;
	chunk->is_mapped = chunk->is_open = false;
	if (chunk->handle)
		result = pager_driver.cuMemRelease(chunk->handle);
	if (result == CUDA_SUCCESS)
		chunk->handle = 0;
	return result;
}

CUresult pager_set_access(CUdeviceptr address, size_t size, CUmemAccess_flags flags)
{
	const CUmemAccessDesc access = {.location = pager_location, .flags = flags};

	return pager_driver.cuMemSetAccess(address, size, &access, 1);
}

CUresult pager_chunk_open(struct pager_allocation *allocation, size_t index)
{
	struct pager_chunk *chunk = &allocation->chunks[index];

	if (chunk->is_open)
		return CUDA_SUCCESS;
	CUresult result = pager_set_access(allocation->base + index * PAGER_CHUNK, pager_chunk_size(allocation, index),
					   CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	chunk->is_open = result == CUDA_SUCCESS;
	return result;
}

// Makes all memory of an allocation accessible by one call, which takes less time than one call for each chunk.
static CUresult open_all(struct pager_allocation *allocation)
{
	bool is_open = true;

	for (size_t i = 0; i < allocation->chunk_count; i++)
		is_open &= allocation->chunks[i].is_open;
	if (is_open)
		return CUDA_SUCCESS;
	CUresult result = pager_set_access(allocation->base, allocation->size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	for (size_t i = 0; i < allocation->chunk_count && result == CUDA_SUCCESS; i++)
		allocation->chunks[i].is_open = true;
	return result;
}

// Creates and maps the chunks that are missing.
static CUresult make_memory(struct pager_allocation *allocation)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < allocation->chunk_count && result == CUDA_SUCCESS; i++) {
		result = pager_chunk_create(allocation, i);
		if (result == CUDA_SUCCESS)
			result = pager_chunk_map(allocation, i);
	}
	return result == CUDA_SUCCESS ? open_all(allocation) : result;
}

static CUresult release_memory(struct pager_allocation *allocation)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < allocation->chunk_count && result == CUDA_SUCCESS; i++)
		result = pager_chunk_release(allocation, i);
	return result;
}

// Frees the rooms in the host and the reserved addresses.
static void destroy_allocation(struct pager_allocation *allocation)
{
	for (size_t i = 0; i < allocation->chunk_count; i++)
		pager_room_give(&allocation->chunks[i].room, pager_chunk_size(allocation, i));
	pager_driver.cuMemAddressFree(allocation->base, allocation->size);
	free(allocation);
}

static struct pager_allocation *new_allocation(size_t bytes, CUcontext context)
{
	size_t size = (bytes + granule - 1) & ~(granule - 1), chunks = (size + PAGER_CHUNK - 1) / PAGER_CHUNK;
	struct pager_allocation *allocation = calloc(1, sizeof *allocation + chunks * sizeof *allocation->chunks);

	if (!allocation)
		return NULL;
	allocation->asked = bytes;
	allocation->size = size;
	allocation->context = context;
	allocation->chunk_count = chunks;
	return allocation;
}

// Reserves addresses for the allocation, creates its memory, and adds it to the table. On failure, destroys the
// allocation.
static CUresult fill_allocation(struct pager_allocation *allocation, CUdeviceptr *ret_address)
{
	CUresult result = pager_driver.cuMemAddressReserve(&allocation->base, allocation->size, 0, 0, 0);

	if (result != CUDA_SUCCESS) {
		free(allocation);
		return CUDA_ERROR_OUT_OF_MEMORY; // cuMemAlloc also returns this for every size that is too large
	}
	result = make_memory(allocation);
	if (result == CUDA_SUCCESS && !insert_allocation(allocation))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS) {
		*ret_address = allocation->base;
		return CUDA_SUCCESS;
	}
	release_memory(allocation);
	destroy_allocation(allocation);
	return result;
}

CUresult pager_memory_allocate(size_t bytes, CUcontext context, CUdeviceptr *ret_address)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	struct pager_allocation *allocation;
	CUresult result;

	if (bytes > SIZE_MAX / 2 || !(allocation = new_allocation(bytes, context)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	pager_driver.cuThreadExchangeStreamCaptureMode(&mode);
	result = fill_allocation(allocation, ret_address);
	pager_driver.cuThreadExchangeStreamCaptureMode(&mode);
	return result;
}

// Finds the allocation that begins at `address`. If `later` is true, also adds it to the list of allocations to free
// later.
static struct pager_allocation *find_begin(CUdeviceptr address, bool later)
{
	struct pager_allocation *allocation;

	pthread_mutex_lock(&lock);
	allocation = find_allocation(address);
	if (allocation && allocation->base != address)
		allocation = NULL;
	if (allocation && later) {
		allocation->next = to_free;
		to_free = allocation;
	}
	pthread_mutex_unlock(&lock);
	return allocation;
}

static void remove_allocation(const struct pager_allocation *allocation)
{
	size_t at;

	pthread_mutex_lock(&lock);
	at = find_behind(allocation->base);
	memmove(&allocations[at], &allocations[at + 1], (count - at - 1) * sizeof *allocations);
	count--;
	bytes_of_all -= allocation->size;
	pthread_mutex_unlock(&lock);
}

static void wait_for_context(CUcontext context)
{
	CUcontext popped;

	if (pager_driver.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
		return;
	pager_driver.cuCtxSynchronize();
	pager_driver.cuCtxPopCurrent_v2(&popped);
}

CUresult pager_memory_free(CUdeviceptr address, bool wait, bool later)
{
	struct pager_allocation *allocation = find_begin(address, later);
	CUresult result;

	if (!allocation)
		return CUDA_ERROR_INVALID_VALUE;
	if (later)
		return CUDA_SUCCESS;
	if (wait)
		wait_for_context(allocation->context);
	result = release_memory(allocation);
	if (result != CUDA_SUCCESS) {
		// The driver failed: create the released chunks again, so that the allocation can move.
		make_memory(allocation);
		return result;
	}
	remove_allocation(allocation);
	destroy_allocation(allocation);
	return result;
}

uint64_t pager_memory_free_rest(void)
{
	struct pager_allocation *list;
	uint64_t bytes = 0;

	pthread_mutex_lock(&lock);
	list = to_free;
	to_free = NULL;
	pthread_mutex_unlock(&lock);
	while (list) {
		struct pager_allocation *next = list->next;
		uint64_t size = list->size;
		CUdeviceptr base = list->base;
		if (pager_memory_free(base, true, false) == CUDA_SUCCESS)
			bytes += size;
		else
			find_begin(base, true); // put the allocation back on the list, so that a later call frees it
		list = next;
	}
	return bytes;
}

bool pager_memory_find(CUdeviceptr address, struct pager_range *ret_range)
{
	const struct pager_allocation *allocation;

	pthread_mutex_lock(&lock);
	allocation = find_allocation(address);
	if (allocation)
		*ret_range = (struct pager_range){allocation->base, allocation->asked, allocation->context,
						  allocation->number, allocation->sync_memops};
	pthread_mutex_unlock(&lock);
	return allocation != NULL;
}

bool pager_memory_set_sync(CUdeviceptr address, bool sync)
{
	struct pager_allocation *allocation;

	pthread_mutex_lock(&lock);
	allocation = find_allocation(address);
	if (allocation)
		allocation->sync_memops = sync;
	pthread_mutex_unlock(&lock);
	return allocation != NULL;
}

uint64_t pager_memory_bytes(void)
{
	uint64_t bytes;

	pthread_mutex_lock(&lock);
	bytes = bytes_of_all;
	pthread_mutex_unlock(&lock);
	return bytes + pager_handle_bytes();
}

uint64_t pager_memory_roomless(void)
{
	uint64_t bytes = 0;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < allocations[i]->chunk_count; k++)
			bytes += allocations[i]->chunks[k].room.at ? 0 : pager_chunk_size(allocations[i], k);
	pthread_mutex_unlock(&lock);
	return bytes + pager_handle_roomless();
}

void pager_memory_forget_copies(void)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < allocations[i]->chunk_count; k++)
			if (!allocations[i]->chunks[k].is_away)
				pager_room_give(&allocations[i]->chunks[k].room, pager_chunk_size(allocations[i], k));
	pthread_mutex_unlock(&lock);
	pager_handle_forget_copies();
}

struct pager_allocation **pager_memory_list(size_t *ret_count)
{
	*ret_count = count;
	return allocations;
}
