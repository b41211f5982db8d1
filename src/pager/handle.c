#include "pager/handle.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pager/array.h"
#include "pager/memory.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // protects all variables below, and the counts in handles
static struct pager_handle **handles;			 // sorted by number
static size_t count, capacity;
static uint64_t numbers, bytes_of_all;

// Returns the index of the first handle whose number is not below `number`.
static size_t find_index(CUmemGenericAllocationHandle number)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		if (handles[middle]->number >= number)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static struct pager_handle *find_handle(CUmemGenericAllocationHandle number)
{
	size_t at = find_index(number);

	return at < count && handles[at]->number == number && handles[at]->references ? handles[at] : NULL;
}

static struct pager_handle *new_handle(CUmemGenericAllocationHandle real, size_t size,
				       const CUmemAllocationProp *properties)
{
	size_t chunks = size / PAGER_CHUNK + (size % PAGER_CHUNK != 0);
	struct pager_handle *handle = calloc(1, sizeof *handle + chunks * sizeof *handle->rooms);

	if (!handle)
		return NULL;
	handle->real = real;
	handle->properties = *properties;
	handle->size = size;
	handle->references = handle->holders = 1;
	handle->chunk_count = chunks;
	return handle;
}

static bool insert_handle(struct pager_handle *handle)
{
	bool inserted;

	pthread_mutex_lock(&lock);
	inserted = pager_array_reserve(&handles, count, &capacity);
	if (inserted) {
		handle->number = 1ull << 62 | ++numbers;
		handles[count++] = handle; // append the handle: numbers only grow, so the list stays sorted
		bytes_of_all += handle->size;
	}
	pthread_mutex_unlock(&lock);
	return inserted;
}

CUresult pager_handle_create(CUmemGenericAllocationHandle *ret_number, size_t size,
			     const CUmemAllocationProp *properties)
{
	CUmemGenericAllocationHandle real;
	CUresult result = pager_driver.cuMemCreate(&real, size, properties, 0);
	struct pager_handle *handle;

	if (result != CUDA_SUCCESS)
		return result;
	handle = new_handle(real, size, properties);
	if (!handle || !insert_handle(handle)) {
		free(handle);
		pager_driver.cuMemRelease(real);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_number = handle->number;
	return CUDA_SUCCESS;
}

struct pager_handle *pager_handle_hold(CUmemGenericAllocationHandle number)
{
	struct pager_handle *handle;

	pthread_mutex_lock(&lock);
	handle = find_handle(number);
	if (handle)
		handle->holders++;
	pthread_mutex_unlock(&lock);
	return handle;
}

// Removes the handle from the table. Call it with the lock held.
static void remove_handle(const struct pager_handle *handle)
{
	size_t at = find_index(handle->number);

	memmove(&handles[at], &handles[at + 1], (count - at - 1) * sizeof *handles);
	count--;
	bytes_of_all -= pager_handle_can_leave(handle) ? handle->size : 0;
}

static void give_rooms(struct pager_handle *handle)
{
	for (size_t i = 0; i < handle->chunk_count; i++)
		pager_room_give(&handle->rooms[i], pager_chunk_bytes(handle->size, i));
}

// Releases the memory of a handle whose last holder drops it. If the driver call fails, the caller remains a holder.
static CUresult destroy_handle(struct pager_handle *handle)
{
	CUresult result = handle->real ? pager_driver.cuMemRelease(handle->real) : CUDA_SUCCESS;

	pthread_mutex_lock(&lock);
	if (result == CUDA_SUCCESS)
		remove_handle(handle);
	else
		handle->holders++;
	pthread_mutex_unlock(&lock);
	if (result != CUDA_SUCCESS)
		return result;
	give_rooms(handle);
	free(handle);
	return result;
}

CUresult pager_handle_drop(struct pager_handle *handle)
{
	bool last;

	if (!handle)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&lock);
	last = --handle->holders == 0;
	pthread_mutex_unlock(&lock);
	return last ? destroy_handle(handle) : CUDA_SUCCESS;
}

CUresult pager_handle_release(CUmemGenericAllocationHandle number)
{
	struct pager_handle *handle;
	CUresult result;

	pthread_mutex_lock(&lock);
	handle = find_handle(number);
	if (handle)
		handle->references--;
	pthread_mutex_unlock(&lock);
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	result = pager_handle_drop(handle);
	if (result != CUDA_SUCCESS)
		pager_handle_hand_out(handle);
	return result;
}

void pager_handle_hold_again(struct pager_handle *handle)
{
	pthread_mutex_lock(&lock);
	handle->holders++;
	pthread_mutex_unlock(&lock);
}

CUmemGenericAllocationHandle pager_handle_hand_out(struct pager_handle *handle)
{
	pthread_mutex_lock(&lock);
	handle->references++;
	pthread_mutex_unlock(&lock);
	return handle->number;
}

void pager_handle_keep_on_device(struct pager_handle *handle)
{
	pthread_mutex_lock(&lock);
	if (pager_handle_can_leave(handle)) {
		bytes_of_all -= handle->size;
		// Keep the lock meanwhile: the pager reads the rooms of all handles under this lock.
		give_rooms(handle);
	}
	handle->stays++;
	pthread_mutex_unlock(&lock);
}

bool pager_handle_let_leave(struct pager_handle *handle)
{
	bool can_leave;

	pthread_mutex_lock(&lock);
	can_leave = atomic_load(&handle->stays) == 1;
	// If `stays` is 0, leave it unchanged. The interposer calls this function for all memory that is mapped in a
	// range. Part of it may have been mapped only after pager_handle_keep_on_device() was called for the range.
	handle->stays -= atomic_load(&handle->stays) != 0;
	bytes_of_all += can_leave ? handle->size : 0;
	pthread_mutex_unlock(&lock);
	return can_leave;
}

uint64_t pager_handle_bytes(void)
{
	uint64_t bytes;

	pthread_mutex_lock(&lock);
	bytes = bytes_of_all;
	pthread_mutex_unlock(&lock);
	return bytes;
}

uint64_t pager_handle_roomless(void)
{
	uint64_t bytes = 0;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; pager_handle_can_leave(handles[i]) && k < handles[i]->chunk_count; k++)
			bytes += handles[i]->rooms[k].at ? 0 : pager_chunk_bytes(handles[i]->size, k);
	pthread_mutex_unlock(&lock);
	return bytes;
}

void pager_handle_forget_copies(void)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < count; i++)
		if (!handles[i]->is_away)
			give_rooms(handles[i]);
	pthread_mutex_unlock(&lock);
}

struct pager_handle **pager_handle_list(size_t *ret_count)
{
	*ret_count = count;
	return handles;
}
