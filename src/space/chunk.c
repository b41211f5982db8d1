// Creates, maps, zeroes and frees pages of the device. To free a chunk, releases the handle of the physical memory
// before removing the mapping. If the driver refuses either call, the chunk is still mapped and usable, and can be
// freed later.
#include "space/memory.h"

#include "base/clock.h"

#include <stdlib.h>

// ---- mapping ----------------------------------------------------------------------------------------

static enum vg_status fail_out_of_memory(struct vg_memory_space *space, uint64_t bytes)
{
	size_t have, total;

	if (core_driver->cuMemGetInfo_v2(&have, &total))
		have = 0;
	return core_explained(space_insufficient(bytes, have, "device's memory"));
}

static enum vg_status fail_call(CUresult result, const char *call, size_t bytes)
{
	return core_driver_failed(result, call, "%zu bytes of pages", bytes);
}

enum vg_status space_chunk_map(struct vg_memory_space *space, struct space_chunk *chunk)
{
	const size_t bytes = space_chunk_bytes(space, chunk);
	const CUdeviceptr address = space_chunk_address(space, chunk);
	const char *call = "cuMemMap";

	CUresult r = core_driver->cuMemCreate(&chunk->memory, bytes, &space->plan->properties, 0);
	if (r == CUDA_ERROR_OUT_OF_MEMORY)
		return fail_out_of_memory(space, bytes);
	if (r)
		return fail_call(r, "cuMemCreate", bytes);
	r = core_driver->cuMemMap(address, bytes, 0, chunk->memory, 0);
	if (r)
		goto fail;
	call = "cuMemSetAccess";
	r = core_driver->cuMemSetAccess(address, bytes, space->plan->access, space->plan->access_count);
	if (!r)
		return VG_OK;
	(void)core_driver->cuMemUnmap(address, bytes);
fail:;
	enum vg_status status = fail_call(r, call, bytes);
	(void)core_driver->cuMemRelease(chunk->memory);
	return status;
}

static void free_chunk(struct space_chunk *chunk)
{
	free(chunk->host);
	free(chunk->calls);
	free(chunk->cell);
	free(chunk);
}

static enum vg_status allocate_chunk(size_t pages, struct space_chunk **ret_chunk)
{
	struct space_chunk *chunk = calloc(1, sizeof *chunk);

	if (chunk)
		chunk->calls = calloc(pages, sizeof *chunk->calls);
	if (!chunk || !chunk->calls) {
		free(chunk);
		return vg_fail(VG_NO_MEMORY, 0, "no memory to describe %zu pages", pages);
	}
	chunk->pages = pages;
	chunk->level = -1;
	chunk->state = SPACE_COMING;
	*ret_chunk = chunk;
	return VG_OK;
}

static enum vg_status place_chunk(struct vg_memory_space *space, struct space_chunk *chunk, size_t alignment)
{
	enum vg_status status = VG_OK;
	bool placed = false;

	while (status == VG_OK && !placed) {
		pthread_mutex_lock(&space->lock);
		placed = space_assign_pages(space, chunk, alignment);
		if (placed) {
			chunk->physical = space->next_physical;
			space->next_physical += chunk->pages;
		}
		pthread_mutex_unlock(&space->lock);
		if (!placed)
			status = space_reserve(space, chunk->pages, alignment);
	}
	return status;
}

// Creates a chunk. Its pages must have been charged.
static enum vg_status create_charged(struct vg_memory_space *space, size_t pages, size_t alignment,
				     struct space_chunk **ret_chunk)
{
	struct space_chunk *chunk = NULL;

	enum vg_status status = allocate_chunk(pages, &chunk);
	if (status)
		return status;
	status = place_chunk(space, chunk, alignment);
	if (status) {
		free_chunk(chunk);
		return status;
	}
	status = space_chunk_map(space, chunk);
	if (status == VG_OK) {
		*ret_chunk = chunk;
		return VG_OK;
	}
	pthread_mutex_lock(&space->lock);
	space_unassign_pages(chunk);
	pthread_mutex_unlock(&space->lock);
	free_chunk(chunk);
	return status;
}

enum vg_status space_chunk_create(struct vg_memory_space *space, size_t pages, size_t alignment,
				  struct space_chunk **ret_chunk)
{
	const uint64_t bytes = pages * space->page_size;

	enum vg_status status = space_charge(space, bytes);
	if (status)
		return status;
	status = create_charged(space, pages, alignment, ret_chunk);
	if (status)
		space_refund(space, bytes);
	return status;
}

// ---- freeing ----------------------------------------------------------------------------------------

enum vg_status space_fence(struct vg_memory_space *space)
{
	if (space->budget.fence) {
		enum vg_status status = space->budget.fence(space->budget.user, space->stream);
		if (status)
			return status;
	} else {
		CUresult r = core_driver->cuCtxSynchronize();
		if (r)
			return core_driver_failed(r, "cuCtxSynchronize", "%s", "");
	}
	CUresult r = core_driver->cuStreamSynchronize(space->stream->handle);
	return r ? core_driver_failed(r, "cuStreamSynchronize", "%s", "waiting for the virtual GPU's work") : VG_OK;
}

static enum vg_status zero_chunks(struct vg_memory_space *space, const struct space_chunk *list)
{
	CUresult r = CUDA_SUCCESS;

	for (const struct space_chunk *chunk = list; chunk && r == CUDA_SUCCESS; chunk = chunk->next)
		if (!chunk->host)
			r = core_driver->cuMemsetD8Async(space_chunk_address(space, chunk), 0,
							 space_chunk_bytes(space, chunk), space->stream->handle);
	CUresult end =
		// wait for the stream even after a failure, because work may have been submitted
		core_driver->cuStreamSynchronize(space->stream->handle);
	if (end) // try again: the zeroing must end before the caller uses these pages for a new block
		(void)core_driver->cuStreamSynchronize(space->stream->handle);
	r = r ? r : end;
	return r ? core_driver_failed(r, "cuMemsetD8", "%s", "zeroing pages before they go back") : VG_OK;
}

enum vg_status space_chunk_unmap(struct vg_memory_space *space, struct space_chunk *chunk)
{
	const size_t bytes = space_chunk_bytes(space, chunk);

	CUresult r = chunk->memory ? core_driver->cuMemRelease(chunk->memory) : CUDA_SUCCESS;
	if (r)
		return fail_call(r, "cuMemRelease", bytes);
	chunk->memory = 0;
	r = core_driver->cuMemUnmap(space_chunk_address(space, chunk), bytes);
	return r ? fail_call(r, "cuMemUnmap", bytes) : VG_OK;
}

// Unmaps a chunk as far as the driver permits, because there is no later attempt.
static enum vg_status unmap_forcibly(struct vg_memory_space *space, struct space_chunk *chunk)
{
	enum vg_status status = space_chunk_unmap(space, chunk);

	if (status)
		status = space_chunk_unmap(space, chunk);
	if (status && chunk->memory) {
		chunk->memory = 0;
		(void)space_chunk_unmap(space, chunk);
	}
	return status;
}

static void remove_chunk(struct vg_memory_space *space, struct space_chunk *chunk, struct space_returned *returned)
{
	const uint64_t bytes = space_chunk_bytes(space, chunk);

	pthread_mutex_lock(&space->lock);
	space_unassign_pages(chunk);
	pthread_mutex_unlock(&space->lock);
	space_refund(space, bytes);
	returned->bytes += bytes;
	returned->pages += chunk->pages;
	free_chunk(chunk);
}

// Puts a chunk that could not be freed back into its pool, as an empty chunk.
static void keep_chunk(struct vg_memory_space *space, struct space_chunk *chunk)
{
	pthread_mutex_lock(&space->lock);
	space_pool_adopt(space, chunk->pool, chunk); // the chunk still has its cells, so this cannot fail
	pthread_mutex_unlock(&space->lock);
}

static enum vg_status fence_and_zero(struct vg_memory_space *space, const struct space_chunk *list, uint64_t *ret_start)
{
	enum vg_status status = space_fence(space);

	*ret_start = vg_clock_monotonic_ns();
	return status ? status : zero_chunks(space, list);
}

static enum vg_status free_chunks(struct vg_memory_space *space, struct space_chunk *list, enum space_freeing freeing,
				  struct space_returned *returned)
{
	uint64_t start = vg_clock_monotonic_ns();
	CORE_SCOPE scope = {false};

	CUresult r = core_enter(&scope, space->context->handle);
	enum vg_status result =
		r ? core_driver_failed(r, "cuCtxPushCurrent", "%s", "") : fence_and_zero(space, list, &start);
	if (result && freeing == SPACE_FREE_REFUSED)
		result = fence_and_zero(space, list, &start);
	const bool refused = result && freeing == SPACE_KEEP_REFUSED;
	while (list) {
		struct space_chunk *chunk = list;
		list = chunk->next;
		chunk->next = NULL;
		enum vg_status status = refused ? result
					// If the contents are in the host, there is nothing to unmap.
					: chunk->host && !chunk->memory ? VG_OK
					: freeing == SPACE_FREE_REFUSED ? unmap_forcibly(space, chunk)
									: space_chunk_unmap(space, chunk);
		result = result ? result : status;
		if (status && freeing == SPACE_KEEP_REFUSED)
			keep_chunk(space, chunk);
		else
			remove_chunk(space, chunk, returned);
	}
	returned->ms += (double)(vg_clock_monotonic_ns() - start) * 1e-6;
	return result;
}

enum vg_status space_free_chunks(struct vg_memory_space *space, struct space_chunk *list, enum space_freeing freeing,
				 struct space_returned *ret_returned)
{
	struct space_returned returned = {0};
	unsigned chunks = 0;

	for (const struct space_chunk *chunk = list; chunk; chunk = chunk->next)
		chunks++;
	if (!chunks)
		return VG_OK;
	CORE_RELAXED relaxed = core_relax();
	enum vg_status status = free_chunks(space, list, freeing, &returned);
	pthread_mutex_lock(&space->lock);
	space->leaving -= chunks;
	space->active -= chunks;
	pthread_cond_broadcast(&space->changed);
	pthread_mutex_unlock(&space->lock);
	if (ret_returned) {
		ret_returned->bytes += returned.bytes;
		ret_returned->pages += returned.pages;
		ret_returned->ms += returned.ms;
	}
	return status;
}
