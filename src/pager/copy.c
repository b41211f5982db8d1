#include "pager/copy.h"

#include "base/clock.h"
#include "pager/host.h"
#include "pager/memory.h"
#include "pager/room.h"
#include "pager/window.h"

_Static_assert((int)WINDOW_LEAST >= PAGER_UNDER_WAY * (int)(PAGER_CHUNK / WINDOW_BLOCK),
	       "the copies under way do not need more places than there are");

// Creates the stream and the events at the first copy. They need a context, and a process without evictable memory may
// have none before.
CUresult pager_copies_start(struct pager_copies *copies)
{
	CUresult result;

	if (copies->stream)
		return CUDA_SUCCESS;
	result = pager_driver.cuStreamCreate(&copies->stream, CU_STREAM_NON_BLOCKING);
	for (size_t i = 0; i < PAGER_UNDER_WAY && result == CUDA_SUCCESS; i++)
		result = pager_driver.cuEventCreate(&copies->done[i], CU_EVENT_DISABLE_TIMING);
	return result;
}

static void destroy_stream(struct pager_copies *copies)
{
	for (size_t i = 0; i < PAGER_UNDER_WAY; i++)
		if (copies->done[i])
			pager_driver.cuEventDestroy_v2(copies->done[i]);
	if (copies->stream)
		pager_driver.cuStreamDestroy_v2(copies->stream);
}

static CUresult finish_oldest(struct pager_copies *copies)
{
	size_t oldest = copies->finished % PAGER_UNDER_WAY;
	CUresult result = pager_driver.cuEventSynchronize(copies->done[oldest]);

	pager_window_give(copies->blocks[oldest]);
	if (result == CUDA_SUCCESS && copies->failure == CUDA_SUCCESS)
		result = copies->copies[oldest].finish(&copies->copies[oldest], copies->slot);
	if (copies->failure == CUDA_SUCCESS)
		copies->failure = result;
	copies->finished++;
	return result;
}

static void finish_all(struct pager_copies *copies)
{
	while (copies->finished < copies->begun)
		finish_oldest(copies);
}

CUresult pager_copies_create(struct pager_copies *copies, CUresult (*create)(void *owner, size_t index), void *owner,
			     size_t index)
{
	uint64_t begun_ns = vg_clock_monotonic_ns();
	CUresult result = create(owner, index);

	while (result == CUDA_ERROR_OUT_OF_MEMORY && copies->waits) {
		finish_all(copies);
		if (copies->failure != CUDA_SUCCESS || !copies->waits(vg_clock_monotonic_ns() - begun_ns))
			break;
		result = create(owner, index);
	}
	return result;
}

// Returns the address in the host of a byte in a room, from which a copy may take at most *ret_size bytes. After a
// restore, the bytes may come through the window, block by block. Returns NULL if they do not come.
static void *find_host(uint64_t at, size_t *ret_size)
{
	uint64_t offset;
	void *host = pager_host_at(at, ret_size, &offset);

	if (host)
		return host;
	*ret_size = WINDOW_BLOCK;
	return pager_window_next();
}

// Begins to copy the bytes from `at` to `end`, in parts if the room extends over several pieces of host memory.
static CUresult begin_range(const struct pager_copies *copies, const struct pager_copy *copy, size_t at, size_t end)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t size; at < end && result == CUDA_SUCCESS; at += size) {
		void *host = find_host(copy->room->at + at, &size);
		size = size < end - at ? size : end - at;
		if (!host)
			result = CUDA_ERROR_OPERATING_SYSTEM;
		else if (copies->out)
			result = pager_driver.cuMemcpyDtoHAsync_v2(host, copy->address + at, size, copies->stream);
		else
			result = pager_driver.cuMemcpyHtoDAsync_v2(copy->address + at, host, size, copies->stream);
	}
	return result;
}

// Begins to copy each run of changed blocks to the host.
static CUresult begin_changed(const struct pager_copies *copies, const struct pager_copy *copy)
{
	const size_t count = copy->size / PAGER_BLOCK;
	CUresult result = CUDA_SUCCESS;

	for (size_t at = 0, end; at < count && result == CUDA_SUCCESS; at = end + 1) {
		for (end = at; end < count && copy->room->changed >> end & 1; end++)
			;
		result = begin_range(copies, copy, at * PAGER_BLOCK, end * PAGER_BLOCK);
	}
	return result;
}

CUresult pager_copies_add(struct pager_copies *copies, const struct pager_copy *copy)
{
	CUresult result = pager_copies_start(copies);
	size_t next = copies->begun % PAGER_UNDER_WAY;

	if (result != CUDA_SUCCESS)
		return result;
	if (copies->out) {
		copies->unchanged += pager_room_unchanged(copy->room, copy->size);
		if (!copy->room->changed && copies->failure == CUDA_SUCCESS)
			return copy->finish(copy, copies->slot);
	}
	if (copies->begun - copies->finished == PAGER_UNDER_WAY) {
		result = finish_oldest(copies);
		if (result != CUDA_SUCCESS)
			return result;
	}
	copies->copies[next] = *copy;
	result = copies->out ? begin_changed(copies, copy) : begin_range(copies, copy, 0, copy->size);
	if (result == CUDA_SUCCESS)
		result = pager_driver.cuEventRecord(copies->done[next], copies->stream);
	if (result == CUDA_SUCCESS) {
		copies->blocks[next] = pager_window_count();
		copies->begun++;
		return CUDA_SUCCESS;
	}
	copies->failure = copies->failure == CUDA_SUCCESS ? result : copies->failure;
	// No event was recorded, so only a synchronization of the stream shows when the copies have ended.
	pager_driver.cuStreamSynchronize(copies->stream);
	return result;
}

CUresult pager_copies_end(struct pager_copies *copies, CUresult result)
{
	finish_all(copies);
	destroy_stream(copies);
	return result == CUDA_SUCCESS ? copies->failure : result;
}
