#include "pager/move.h"

#include <stdatomic.h>

#include "pager/copy.h"
#include "pager/handle_move.h"
#include "pager/host.h"
#include "pager/mapping.h"
#include "pager/memory.h"
#include "pager/page.h"

static struct pager_chunk *chunk_of(const struct pager_copy *copy)
{
	struct pager_allocation *allocation = copy->owner;

	return &allocation->chunks[copy->index];
}

static CUresult copy_chunk(struct pager_copies *copies, struct pager_allocation *allocation, size_t index,
			   CUresult (*finish)(const struct pager_copy *, struct pager_slot *))
{
	const struct pager_copy copy = {.address = allocation->base + index * PAGER_CHUNK,
					.host = allocation->chunks[index].host,
					.size = pager_chunk_size(allocation, index), .finish = finish,
					.owner = allocation, .index = index};

	return pager_copies_add(copies, &copy);
}

// Releases the device memory of a chunk after its copy to the host.
static CUresult finish_out(const struct pager_copy *copy, struct pager_slot *slot)
{
	struct pager_chunk *chunk = chunk_of(copy);
	CUresult result = pager_driver.cuMemUnmap(copy->address, copy->size);

	if (result != CUDA_SUCCESS)
		return result;
	chunk->on_device = false;
	atomic_fetch_add(&slot->host, copy->size);
	return pager_driver.cuMemRelease(chunk->handle);
}

// Reserves host memory for every chunk before the first copy, so that a move that cannot be completed does not begin.
static bool take_host_room(uint64_t *ret_missing)
{
	size_t count;
	struct pager_allocation **list = pager_memory_list(&count);

	*ret_missing = 0;
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < list[i]->chunk_count; k++) {
			struct pager_chunk *chunk = &list[i]->chunks[k];
			if (chunk->on_device && !chunk->host)
				chunk->host = pager_host_take(pager_chunk_size(list[i], k));
			if (!chunk->host)
				*ret_missing += pager_chunk_size(list[i], k);
		}
	pager_handles_take_host(ret_missing);
	return *ret_missing == 0;
}

static void give_host_room_back(void)
{
	size_t count;
	struct pager_allocation **list = pager_memory_list(&count);

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < list[i]->chunk_count; k++) {
			struct pager_chunk *chunk = &list[i]->chunks[k];
			if (!chunk->on_device || !chunk->host)
				continue;
			pager_host_give(chunk->host, pager_chunk_size(list[i], k));
			chunk->host = NULL;
		}
	pager_handles_give_host();
}

static CUresult move_all_out(struct pager_slot *slot, uint64_t *ret_missing)
{
	struct pager_copies copies = {.out = true, .slot = slot};
	size_t count;
	struct pager_allocation **list = pager_memory_list(&count);
	CUresult result = CUDA_SUCCESS;

	if (!take_host_room(ret_missing)) {
		give_host_room_back();
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		for (size_t k = 0; k < list[i]->chunk_count && result == CUDA_SUCCESS; k++)
			if (list[i]->chunks[k].on_device)
				result = copy_chunk(&copies, list[i], k, finish_out);
	if (result == CUDA_SUCCESS)
		result = pager_handles_begin_out(&copies);
	result = pager_copies_end(&copies, result);
	give_host_room_back();
	return result == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_ERROR_UNKNOWN : result;
}

CUresult pager_move_out(struct pager_slot *slot, uint64_t *ret_missing)
{
	pager_mapping_order();
	CUresult result = move_all_out(slot, ret_missing);
	pager_mapping_order();
	return result;
}

// Releases the host memory of a chunk after its copy to the device.
static CUresult finish_in(const struct pager_copy *copy, struct pager_slot *slot)
{
	struct pager_chunk *chunk = chunk_of(copy);

	pager_host_give(chunk->host, copy->size);
	chunk->host = NULL;
	atomic_fetch_sub(&slot->host, copy->size);
	return CUDA_SUCCESS;
}

static bool is_away(const struct pager_chunk *chunk)
{
	return !chunk->on_device;
}

// Creates the physical memory of every chunk and handle that is in the host. If one fails, releases the others.
static CUresult create_all(uint64_t *ret_missing)
{
	size_t count;
	struct pager_allocation **list = pager_memory_list(&count);
	CUresult result = CUDA_SUCCESS;

	*ret_missing = 0;
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < list[i]->chunk_count; k++) {
			struct pager_chunk *chunk = &list[i]->chunks[k];
			if (!is_away(chunk))
				continue;
			chunk->handle = 0;
			if (result == CUDA_SUCCESS)
				result = pager_chunk_create(list[i], k, &chunk->handle);
			if (result != CUDA_SUCCESS) {
				chunk->handle = 0;
				*ret_missing += pager_chunk_size(list[i], k);
			}
		}
	result = pager_handles_create(result, ret_missing);
	if (result == CUDA_SUCCESS)
		return result;
	pager_handles_uncreate();
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < list[i]->chunk_count; k++)
			if (is_away(&list[i]->chunks[k]) && list[i]->chunks[k].handle)
				pager_driver.cuMemRelease(list[i]->chunks[k].handle);
	return result;
}

static CUresult map_chunks(struct pager_allocation *allocation)
{
	CUresult result = CUDA_SUCCESS;
	bool mapped = false;

	for (size_t k = 0; k < allocation->chunk_count && result == CUDA_SUCCESS; k++) {
		struct pager_chunk *chunk = &allocation->chunks[k];
		if (!is_away(chunk))
			continue;
		result = pager_driver.cuMemMap(allocation->base + k * PAGER_CHUNK, pager_chunk_size(allocation, k), 0,
					       chunk->handle, 0);
		chunk->on_device = mapped = result == CUDA_SUCCESS;
	}
	return result == CUDA_SUCCESS && mapped ? pager_allocation_open(allocation) : result;
}

static CUresult move_all_in(struct pager_slot *slot, uint64_t *ret_missing)
{
	struct pager_copies copies = {.slot = slot};
	size_t count;
	struct pager_allocation **list = pager_memory_list(&count);
	CUresult result = create_all(ret_missing);

	if (result != CUDA_SUCCESS)
		return result;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		result = map_chunks(list[i]);
		for (size_t k = 0; k < list[i]->chunk_count && result == CUDA_SUCCESS; k++)
			if (list[i]->chunks[k].host)
				result = copy_chunk(&copies, list[i], k, finish_in);
	}
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
