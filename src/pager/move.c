#include "pager/move.h"

#include <stdatomic.h>

#include "pager/host.h"
#include "pager/memory.h"
#include "pager/page.h"

// Number of copies in flight, so that the copy engine does not wait for the calls between two copies.
enum { UNDER_WAY = 3 };

// A stream and the chunks that it copies.
struct copies {
	CUstream stream;
	CUevent done[UNDER_WAY];
	struct place {
		struct pager_allocation *allocation;
		size_t index;
	} places[UNDER_WAY];
	size_t begun, finished;
};

static void end_copies(struct copies *copies)
{
	for (size_t i = 0; i < UNDER_WAY; i++)
		if (copies->done[i])
			pager_driver.cuEventDestroy_v2(copies->done[i]);
	if (copies->stream)
		pager_driver.cuStreamDestroy_v2(copies->stream);
}

// Creates the stream before the first copy: a process without evictable memory may have no context.
static CUresult begin_copies(struct copies *copies)
{
	CUresult result;

	if (copies->stream)
		return CUDA_SUCCESS;
	result = pager_driver.cuStreamCreate(&copies->stream, CU_STREAM_NON_BLOCKING);
	for (size_t i = 0; i < UNDER_WAY && result == CUDA_SUCCESS; i++)
		result = pager_driver.cuEventCreate(&copies->done[i], CU_EVENT_DISABLE_TIMING);
	return result;
}

static struct pager_chunk *chunk_of(const struct place *place)
{
	return &place->allocation->chunks[place->index];
}

static CUdeviceptr address_of(const struct place *place)
{
	return place->allocation->base + place->index * PAGER_CHUNK;
}

static size_t size_of(const struct place *place)
{
	return pager_chunk_size(place->allocation, place->index);
}

typedef CUresult finish_chunk(const struct place *place, struct pager_slot *slot);

// Waits for the oldest copy and finishes its chunk.
static CUresult finish_oldest(struct copies *copies, finish_chunk *finish, struct pager_slot *slot)
{
	size_t oldest = copies->finished % UNDER_WAY;
	CUresult result = pager_driver.cuEventSynchronize(copies->done[oldest]);

	if (result == CUDA_SUCCESS)
		result = finish(&copies->places[oldest], slot);
	copies->finished++;
	return result;
}

static CUresult copy(struct copies *copies, const struct place *place, CUresult (*begin)(CUstream, const struct place *),
		     finish_chunk *finish, struct pager_slot *slot)
{
	size_t next;
	CUresult result = begin_copies(copies);

	if (result == CUDA_SUCCESS && copies->begun - copies->finished == UNDER_WAY)
		result = finish_oldest(copies, finish, slot);
	next = copies->begun % UNDER_WAY;
	copies->places[next] = *place;
	if (result == CUDA_SUCCESS)
		result = begin(copies->stream, place);
	if (result != CUDA_SUCCESS)
		return result;
	copies->begun++;
	return pager_driver.cuEventRecord(copies->done[next], copies->stream);
}

static CUresult finish_all(struct copies *copies, CUresult result, finish_chunk *finish, struct pager_slot *slot)
{
	while (copies->finished < copies->begun) {
		CUresult finished = finish_oldest(copies, finish, slot);
		result = result == CUDA_SUCCESS ? finished : result;
	}
	return result;
}

static CUresult begin_out(CUstream stream, const struct place *place)
{
	return pager_driver.cuMemcpyDtoHAsync_v2(chunk_of(place)->host, address_of(place), size_of(place), stream);
}

// Releases the device memory of a chunk after its copy to the host.
static CUresult finish_out(const struct place *place, struct pager_slot *slot)
{
	struct pager_chunk *chunk = chunk_of(place);
	CUresult result = pager_driver.cuMemUnmap(address_of(place), size_of(place));

	if (result != CUDA_SUCCESS)
		return result;
	chunk->on_device = false;
	atomic_fetch_add(&slot->host, size_of(place));
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
}

CUresult pager_move_out(struct pager_slot *slot, uint64_t *ret_missing)
{
	struct copies copies = {0};
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
				result = copy(&copies, &(struct place){list[i], k}, begin_out, finish_out, slot);
	result = finish_all(&copies, result, finish_out, slot);
	end_copies(&copies);
	give_host_room_back();
	return result == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_ERROR_UNKNOWN : result;
}

static CUresult begin_in(CUstream stream, const struct place *place)
{
	return pager_driver.cuMemcpyHtoDAsync_v2(address_of(place), chunk_of(place)->host, size_of(place), stream);
}

// Releases the host memory of a chunk after its copy to the device.
static CUresult finish_in(const struct place *place, struct pager_slot *slot)
{
	struct pager_chunk *chunk = chunk_of(place);

	pager_host_give(chunk->host, size_of(place));
	chunk->host = NULL;
	atomic_fetch_sub(&slot->host, size_of(place));
	return CUDA_SUCCESS;
}

static bool is_away(const struct pager_chunk *chunk)
{
	return !chunk->on_device;
}

// Creates the physical memory of every chunk that is in the host. If one fails, releases the others.
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
	if (result == CUDA_SUCCESS)
		return result;
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

CUresult pager_move_in(struct pager_slot *slot, uint64_t *ret_missing)
{
	struct copies copies = {0};
	size_t count;
	struct pager_allocation **list = pager_memory_list(&count);
	CUresult result = create_all(ret_missing);

	if (result != CUDA_SUCCESS)
		return result;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		result = map_chunks(list[i]);
		for (size_t k = 0; k < list[i]->chunk_count && result == CUDA_SUCCESS; k++)
			if (list[i]->chunks[k].host)
				result = copy(&copies, &(struct place){list[i], k}, begin_in, finish_in, slot);
	}
	result = finish_all(&copies, result, finish_in, slot);
	end_copies(&copies);
	return result == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_ERROR_UNKNOWN : result;
}
