#include "pager/move.h"

#include <stdatomic.h>

#include "pager/blocks.h"
#include "pager/copy.h"
#include "pager/handle_move.h"
#include "pager/host.h"
#include "pager/mapping.h"
#include "pager/memory.h"
#include "pager/page.h"
#include "pager/window.h"

// Calls a function for every chunk of all allocations, until one fails.
static CUresult for_each_chunk(CUresult (*act)(struct pager_allocation *, size_t index))
{
	size_t count;
	struct pager_allocation **list = pager_memory_list(&count);

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < list[i]->chunk_count; k++) {
			CUresult result = act(list[i], k);
			if (result != CUDA_SUCCESS)
				return result;
		}
	return CUDA_SUCCESS;
}

// Copies a chunk to or from its room in the host.
static CUresult copy_chunk(struct pager_copies *copies, struct pager_allocation *allocation, size_t index,
			   CUresult (*finish)(const struct pager_copy *, struct pager_slot *))
{
	const struct pager_copy copy = {.address = allocation->base + index * PAGER_CHUNK,
					.room = &allocation->chunks[index].room,
					.size = pager_chunk_size(allocation, index),
					.finish = finish,
					.owner = allocation,
					.index = index};

	return pager_copies_add(copies, &copy);
}

// ---- to the host ---------------------------------------------------------------------------

// Releases the device memory of a chunk after its copy to the host.
static CUresult finish_out(const struct pager_copy *copy, struct pager_slot *slot)
{
	struct pager_allocation *allocation = copy->owner;
	struct pager_chunk *chunk = &allocation->chunks[copy->index];
	CUresult result = pager_chunk_release(allocation, copy->index);

	if (result != CUDA_SUCCESS)
		return result;
	chunk->is_away = true;
	chunk->room.is_copy = chunk->room.is_hashed;
	atomic_fetch_add(&slot->host, copy->size);
	return CUDA_SUCCESS;
}

static CUresult take_room(struct pager_allocation *allocation, size_t index)
{
	pager_room_take(&allocation->chunks[index].room, pager_chunk_size(allocation, index));
	return CUDA_SUCCESS;
}

static CUresult give_room_back(struct pager_allocation *allocation, size_t index)
{
	if (!allocation->chunks[index].is_away)
		pager_room_give(&allocation->chunks[index].room, pager_chunk_size(allocation, index));
	return CUDA_SUCCESS;
}

// Gives the room back, unless it contains a copy of the chunk, with digests by which the next move can find unchanged
// blocks.
static CUresult give_room_back_without_copy(struct pager_allocation *allocation, size_t index)
{
	return allocation->chunks[index].room.is_copy ? CUDA_SUCCESS : give_room_back(allocation, index);
}

static uint64_t take_rooms(void)
{
	for_each_chunk(take_room);
	pager_handles_take_host();
	return pager_memory_roomless();
}

// Takes a room for every chunk before the first copy, so that no move begins that cannot be completed. Returns the
// bytes that have no room. Rooms kept from an earlier move may leave gaps that are too small. In that case, gives back
// all rooms that only keep copies, and takes rooms again.
static uint64_t take_all_rooms(void)
{
	if (take_rooms() == 0)
		return 0;
	pager_memory_forget_copies();
	return take_rooms();
}

// Hashes a chunk that is on the device. Skips an inaccessible chunk, because a fault of a kernel would end the context.
static CUresult hash_chunk(struct pager_allocation *allocation, size_t index)
{
	struct pager_chunk *chunk = &allocation->chunks[index];

	if (chunk->is_away || !chunk->handle || !chunk->is_mapped || !chunk->is_open)
		return CUDA_SUCCESS;
	return pager_blocks_add(allocation->base + index * PAGER_CHUNK, pager_chunk_size(allocation, index),
				&chunk->room);
}

static CUresult begin_room(struct pager_allocation *allocation, size_t index)
{
	if (!allocation->chunks[index].is_away)
		pager_room_begin(&allocation->chunks[index].room, pager_chunk_size(allocation, index));
	return CUDA_SUCCESS;
}

// Finds the blocks that must be copied. If the GPU cannot hash, all blocks must be copied.
static void find_changed(struct pager_copies *copies)
{
	uint64_t bytes = pager_memory_bytes() - atomic_load(&copies->slot->host);
	CUresult result = pager_blocks_begin(bytes, copies->stream);

	if (result == CUDA_SUCCESS) {
		result = for_each_chunk(hash_chunk);
		if (result == CUDA_SUCCESS)
			result = pager_handles_hash();
		CUresult ended = pager_blocks_end();
		result = result == CUDA_SUCCESS ? ended : result;
	}
	atomic_store(&copies->slot->hash_result, result == CUDA_ERROR_NOT_READY ? 0 : result);
}

static CUresult begin_out(struct pager_copies *copies)
{
	for_each_chunk(begin_room);
	CUresult result = pager_handles_begin();
	return result == CUDA_SUCCESS && pager_memory_bytes() ? pager_copies_start(copies) : result;
}

static CUresult copy_chunks_out(struct pager_copies *copies)
{
	size_t count;
	struct pager_allocation **list = pager_memory_list(&count);
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < list[i]->chunk_count && result == CUDA_SUCCESS; k++)
			if (!list[i]->chunks[k].is_away && list[i]->chunks[k].handle)
				result = copy_chunk(copies, list[i], k, finish_out);
	return result;
}

static CUresult copy_all_out(struct pager_copies *copies)
{
	CUresult result = begin_out(copies);

	if (result != CUDA_SUCCESS)
		return result;
	find_changed(copies);
	result = copy_chunks_out(copies);
	return result == CUDA_SUCCESS ? pager_handles_begin_out(copies) : result;
}

static CUresult forget_unfinished(struct pager_allocation *allocation, size_t index)
{
	struct pager_room *room = &allocation->chunks[index].room;

	if (!allocation->chunks[index].is_away)
		room->is_copy &= room->changed == 0;
	return give_room_back_without_copy(allocation, index);
}

static CUresult move_all_out(struct pager_slot *slot, uint64_t *ret_missing)
{
	struct pager_copies copies = {.out = true, .slot = slot};
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	*ret_missing = take_all_rooms();
	if (*ret_missing == 0)
		result = pager_copies_end(&copies, copy_all_out(&copies));
	atomic_store(&slot->unchanged, copies.unchanged);
	for_each_chunk(forget_unfinished);
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

static CUresult finish_in(const struct pager_copy *copy, struct pager_slot *slot)
{
	atomic_fetch_sub(&slot->host, copy->size);
	return CUDA_SUCCESS;
}

static CUresult create_chunk(void *allocation, size_t index)
{
	return pager_chunk_create(allocation, index);
}

static CUresult release_if_away(struct pager_allocation *allocation, size_t index)
{
	return allocation->chunks[index].is_away ? pager_chunk_release(allocation, index) : CUDA_SUCCESS;
}

// Counts the bytes of chunks and handles that have no device memory.
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

// Counts the bytes of chunks and handles that are in the host.
static uint64_t count_away(void)
{
	size_t count;
	struct pager_allocation **list = pager_memory_list(&count);
	uint64_t bytes = pager_handles_count_away();

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < list[i]->chunk_count; k++)
			bytes += list[i]->chunks[k].is_away ? pager_chunk_size(list[i], k) : 0;
	return bytes;
}

static void list_room(const struct pager_room *room, size_t size)
{
	uint64_t offset;
	size_t unused;

	for (size_t at = 0; at < size; at += WINDOW_BLOCK)
		if (!pager_host_at(room->at + at, &unused, &offset))
			pager_window_want(offset / WINDOW_BLOCK);
}

static CUresult list_chunk(struct pager_allocation *allocation, size_t index)
{
	if (allocation->chunks[index].is_away)
		list_room(&allocation->chunks[index].room, pager_chunk_size(allocation, index));
	return CUDA_SUCCESS;
}

void pager_move_list(void)
{
	for_each_chunk(list_chunk);
	pager_handles_list(list_room);
}

static CUresult create_missing(void)
{
	CUresult result = for_each_chunk(pager_chunk_create);

	return result == CUDA_SUCCESS ? pager_handles_create() : result;
}

// Creates and maps the device memory of a chunk.
static CUresult prepare_chunk(struct pager_copies *copies, struct pager_allocation *allocation, size_t index)
{
	CUresult result = pager_copies_create(copies, create_chunk, allocation, index);

	if (result == CUDA_SUCCESS)
		result = pager_chunk_map(allocation, index);
	return result == CUDA_SUCCESS ? pager_chunk_open(allocation, index) : result;
}

// Begins to copy the chunks to the device. Maps every chunk, even if its bytes never left: an earlier release may have
// failed after unmapping the chunk.
static CUresult bring_chunks(struct pager_copies *copies, CUresult *ret_copied)
{
	size_t count;
	struct pager_allocation **list = pager_memory_list(&count);
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < list[i]->chunk_count; k++) {
			result = prepare_chunk(copies, list[i], k);
			if (result != CUDA_SUCCESS)
				return result;
			if (list[i]->chunks[k].is_away)
				*ret_copied = copy_chunk(copies, list[i], k, finish_in);
			if (*ret_copied != CUDA_SUCCESS)
				return result;
		}
	return result;
}

static CUresult undo_move_in(struct pager_slot *slot)
{
	CUresult of_chunks = for_each_chunk(release_if_away), of_handles = pager_handles_release();

	atomic_store(&slot->host, count_away());
	return of_chunks == CUDA_SUCCESS ? of_handles : of_chunks;
}

static CUresult note_return(struct pager_allocation *allocation, size_t index)
{
	allocation->chunks[index].is_away = false;
	return give_room_back_without_copy(allocation, index);
}

// Moves everything to the device. If device memory cannot be created or mapped, undoes the move. No bytes are lost
// then: the host has valid copies, because no thread changes device memory while the gate is closed.
static CUresult move_all_in(struct pager_slot *slot, bool (*waits)(uint64_t waited_ns), uint64_t *ret_missing)
{
	struct pager_copies copies = {.slot = slot, .waits = waits};
	CUresult copied = CUDA_SUCCESS, result = waits ? CUDA_SUCCESS : create_missing();

	if (result == CUDA_SUCCESS)
		result = bring_chunks(&copies, &copied);
	if (result == CUDA_SUCCESS && copied == CUDA_SUCCESS)
		result = pager_handles_bring(&copies, &copied);
	copied = pager_copies_end(&copies, copied);
	*ret_missing = count_absent();
	if (copied != CUDA_SUCCESS) // the context is unusable after a failed copy
		return copied == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_ERROR_UNKNOWN : copied;
	if (result != CUDA_SUCCESS)
		return undo_move_in(slot) == CUDA_SUCCESS ? result : CUDA_ERROR_UNKNOWN;
	for_each_chunk(note_return);
	return pager_handles_note_return();
}

CUresult pager_move_in(struct pager_slot *slot, bool (*waits)(uint64_t waited_ns), uint64_t *ret_missing)
{
	pager_mapping_order();
	CUresult result = move_all_in(slot, waits, ret_missing);
	pager_mapping_order();
	return result;
}
