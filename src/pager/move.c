#include "pager/move.h"

#include <stdatomic.h>

#include "pager/copy.h"
#include "pager/handle_move.h"
#include "pager/host.h"
#include "pager/mapping.h"
#include "pager/memory.h"
#include "pager/page.h"

// Calls a function for every chunk of all allocations, until one fails.
static CUresult for_each_chunk(CUresult (*act)(struct pager_allocation *, size_t index))
{
	size_t count;
	struct pager_allocation **list = pager_memory_list(&count);
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < list[i]->chunk_count && result == CUDA_SUCCESS; k++)
			result = act(list[i], k);
	return result;
}

static CUresult copy_chunk(struct pager_copies *copies, struct pager_allocation *allocation, size_t index,
			   CUresult (*finish)(const struct pager_copy *, struct pager_slot *))
{
	const struct pager_copy copy = {.address = allocation->base + index * PAGER_CHUNK,
					.room = allocation->chunks[index].room,
					.size = pager_chunk_size(allocation, index), .finish = finish,
					.owner = allocation, .index = index};

	return pager_copies_add(copies, &copy);
}

// Copies every chunk that has a room in the host.
static CUresult copy_chunks(struct pager_copies *copies,
			    CUresult (*finish)(const struct pager_copy *, struct pager_slot *))
{
	size_t count;
	struct pager_allocation **list = pager_memory_list(&count);
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < list[i]->chunk_count && result == CUDA_SUCCESS; k++)
			if (list[i]->chunks[k].room && list[i]->chunks[k].handle)
				result = copy_chunk(copies, list[i], k, finish);
	return result;
}

// ---- to the host ---------------------------------------------------------------------------

// Releases the device memory of a chunk after its copy to the host.
static CUresult finish_out(const struct pager_copy *copy, struct pager_slot *slot)
{
	CUresult result = pager_chunk_release(copy->owner, copy->index);

	if (result == CUDA_SUCCESS)
		atomic_fetch_add(&slot->host, copy->size);
	return result;
}

static CUresult take_room(struct pager_allocation *allocation, size_t index)
{
	struct pager_chunk *chunk = &allocation->chunks[index];

	if (chunk->handle && !chunk->room)
		chunk->room = pager_host_take(pager_chunk_size(allocation, index));
	return CUDA_SUCCESS;
}

static CUresult give_room_back(struct pager_allocation *allocation, size_t index)
{
	struct pager_chunk *chunk = &allocation->chunks[index];

	if (!chunk->handle || !chunk->room)
		return CUDA_SUCCESS;
	pager_host_give(chunk->room, pager_chunk_size(allocation, index));
	chunk->room = 0;
	return CUDA_SUCCESS;
}

// Counts the bytes on the device that have no room in the host.
static uint64_t count_roomless(void)
{
	size_t count;
	struct pager_allocation **list = pager_memory_list(&count);
	uint64_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < list[i]->chunk_count; k++)
			if (list[i]->chunks[k].handle && !list[i]->chunks[k].room)
				bytes += pager_chunk_size(list[i], k);
	return bytes;
}

static CUresult move_all_out(struct pager_slot *slot, uint64_t *ret_missing)
{
	struct pager_copies copies = {.out = true, .slot = slot};
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	// Every chunk gets its room before the first copy, so that a move that cannot be completed does not begin.
	for_each_chunk(take_room);
	*ret_missing = count_roomless() + pager_handles_take_host();
	if (*ret_missing == 0) {
		result = copy_chunks(&copies, finish_out);
		if (result == CUDA_SUCCESS)
			result = pager_handles_begin_out(&copies);
		result = pager_copies_end(&copies, result);
	}
	for_each_chunk(give_room_back);
	pager_handles_give_host();
	return result;
}

CUresult pager_move_out(struct pager_slot *slot, uint64_t *ret_missing)
{
	pager_mapping_order();
	CUresult result = move_all_out(slot, ret_missing);
	pager_mapping_order();
	return result;
}

// ---- to the device -------------------------------------------------------------------------

// Releases the host memory of a chunk after its copy to the device.
static CUresult finish_in(const struct pager_copy *copy, struct pager_slot *slot)
{
	struct pager_allocation *allocation = copy->owner;

	give_room_back(allocation, copy->index);
	atomic_fetch_sub(&slot->host, copy->size);
	return CUDA_SUCCESS;
}

static CUresult map_chunk(struct pager_allocation *allocation, size_t index)
{
	bool is_last = index + 1 == allocation->chunk_count;
	CUresult result = pager_chunk_map(allocation, index);

	return result == CUDA_SUCCESS && is_last ? pager_allocation_open(allocation) : result;
}

static CUresult release_if_in_host(struct pager_allocation *allocation, size_t index)
{
	return allocation->chunks[index].room ? pager_chunk_release(allocation, index) : CUDA_SUCCESS;
}

// Counts the bytes that have no memory on the device.
static uint64_t count_absent(void)
{
	size_t count;
	struct pager_allocation **list = pager_memory_list(&count);
	uint64_t bytes = pager_handles_count_absent();

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < list[i]->chunk_count; k++)
			bytes += list[i]->chunks[k].handle ? 0 : pager_chunk_size(list[i], k);
	return bytes;
}

// Takes all that the copies to the device need. It creates all memory before it maps any: if the device has no room,
// that is known sooner.
static CUresult prepare_in(uint64_t *ret_missing)
{
	CUresult result = for_each_chunk(pager_chunk_create);

	if (result == CUDA_SUCCESS)
		result = pager_handles_create();
	*ret_missing = count_absent();
	if (result == CUDA_SUCCESS)
		result = for_each_chunk(map_chunk);
	if (result == CUDA_SUCCESS)
		result = pager_handles_map();
	return result;
}

static CUresult undo_prepare_in(void)
{
	CUresult of_chunks = for_each_chunk(release_if_in_host), of_handles = pager_handles_release();

	return of_chunks == CUDA_SUCCESS ? of_handles : of_chunks;
}

static CUresult move_all_in(struct pager_slot *slot, uint64_t *ret_missing)
{
	struct pager_copies copies = {.slot = slot};
	CUresult result = prepare_in(ret_missing);

	if (result != CUDA_SUCCESS) {
		CUresult undone = undo_prepare_in();
		return undone == CUDA_SUCCESS ? result : CUDA_ERROR_UNKNOWN;
	}
	result = copy_chunks(&copies, finish_in);
	if (result == CUDA_SUCCESS)
		result = pager_handles_begin_in(&copies);
	result = pager_copies_end(&copies, result);
	return result == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_ERROR_UNKNOWN : result;
}

CUresult pager_move_in(struct pager_slot *slot, uint64_t *ret_missing)
{
	pager_mapping_order();
	CUresult result = move_all_in(slot, ret_missing);
	pager_mapping_order();
	return result;
}
