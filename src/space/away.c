// Moves the pages of a space to the host, and back to the same addresses. During the moves and in between, no call uses
// the device's memory, and the owner of the space submits no work.
#include "space/memory.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { PIECE = 64 << 20 }; // number of bytes that are copied between two calls of the progress callback

struct move {
	struct vg_memory_space *space;
	space_progress_fn *progress;
	void *user;
	uint64_t done, total;
	bool is_back; // the move undoes an earlier move that failed, and reports no progress
};

// ---- all chunks ------------------------------------------------------------------------------------------

typedef enum vg_status step_fn(struct move *move, struct space_chunk *chunk);

// Calls the function for all chunks, until one fails. No other thread adds or removes chunks while the memory is in the
// host or is being moved.
static enum vg_status for_all_chunks(struct move *move, step_fn *step)
{
	struct vg_memory_space *space = move->space;
	enum vg_status status = VG_OK;

	for (unsigned i = 0; i < space->range_count; i++)
		for (size_t page = 0; page < space->range[i]->pages && status == VG_OK; page++) {
			struct space_chunk *chunk = space->range[i]->chunk[page];
			if (chunk && chunk->first == page)
				status = step(move, chunk);
		}
	return status;
}

static enum vg_status count_bytes(struct move *move, struct space_chunk *chunk)
{
	move->total += space_chunk_bytes(move->space, chunk);
	return VG_OK;
}

static enum vg_status count_away(struct move *move, struct space_chunk *chunk)
{
	move->total += chunk->host ? space_chunk_bytes(move->space, chunk) : 0;
	return VG_OK;
}

// ---- one chunk -------------------------------------------------------------------------------------------

static enum vg_status copy_chunk(struct move *move, struct space_chunk *chunk, bool out)
{
	CUdeviceptr address = space_chunk_address(move->space, chunk);
	size_t bytes = space_chunk_bytes(move->space, chunk), length;
	CUresult r = CUDA_SUCCESS;

	for (size_t at = 0; at < bytes; at += length) {
		char *host = (char *)chunk->host + at;
		length = bytes - at < PIECE ? bytes - at : PIECE;
		r = out ? core_driver->cuMemcpyDtoH_v2(host, address + at, length)
			: core_driver->cuMemcpyHtoD_v2(address + at, host, length);
		if (r)
			return core_driver_failed(r, out ? "cuMemcpyDtoH" : "cuMemcpyHtoD", "%zu bytes of pages",
						  length);
		move->done += length;
		if (move->progress && !move->is_back && !move->progress(move->user, move->done, move->total))
			return vg_fail(VG_STATE, 0, "stopped while memory moved, as asked");
	}
	return VG_OK;
}

static enum vg_status move_chunk_out(struct move *move, struct space_chunk *chunk)
{
	size_t bytes = space_chunk_bytes(move->space, chunk);

	chunk->host = malloc(bytes);
	if (!chunk->host)
		return vg_fail(VG_NO_MEMORY, 0, "the host has no memory for %zu bytes of pages", bytes);
	enum vg_status status = copy_chunk(move, chunk, true);
	if (status)
		goto fail;
	status = space_chunk_unmap(move->space, chunk);
	if (status)
		goto fail;
	atomic_fetch_add(&move->space->in_host, bytes);
	return VG_OK;
fail: // the memory of the chunk is still on the device
	free(chunk->host);
	chunk->host = NULL;
	return status;
}

// Returns whether a chunk has memory on the device although its contents are in the host.
static bool is_mapped(const struct space_chunk *chunk)
{
	return chunk->memory != 0;
}

static enum vg_status map_again(struct move *move, struct space_chunk *chunk)
{
	return chunk->host && !is_mapped(chunk) ? space_chunk_map(move->space, chunk) : VG_OK;
}

static enum vg_status unmap_again(struct move *move, struct space_chunk *chunk)
{
	if (chunk->host && is_mapped(chunk))
		(void)space_chunk_unmap(move->space, chunk); // a failure here is harmless: the chunk just stays mapped
	return VG_OK;
}

static enum vg_status copy_back(struct move *move, struct space_chunk *chunk)
{
	return chunk->host ? copy_chunk(move, chunk, false) : VG_OK;
}

static enum vg_status free_host(struct move *move, struct space_chunk *chunk)
{
	if (chunk->host)
		atomic_fetch_sub(&move->space->in_host, space_chunk_bytes(move->space, chunk));
	free(chunk->host);
	chunk->host = NULL;
	return VG_OK;
}

// ---- moves -----------------------------------------------------------------------------------------------

// Maps all chunks before copying any chunk. So if the device has no room, no contents have moved.
static enum vg_status move_in(struct move *move)
{
	struct vg_kept_error kept;

	enum vg_status status = for_all_chunks(move, map_again);
	if (status)
		goto fail;
	status = for_all_chunks(move, copy_back);
	if (status)
		goto fail;
	return for_all_chunks(move, free_host);
fail:
	vg_error_keep(&kept);
	for_all_chunks(move, unmap_again);
	vg_error_restore(&kept);
	return status;
}

static enum vg_status enter_context(struct move *move, struct core_scope *scope)
{
	CUresult r = core_enter(scope, move->space->context->handle);

	return r ? core_driver_failed(r, "cuCtxPushCurrent", "%s", "") : VG_OK;
}

static enum vg_status move_out(struct move *move, bool *ret_is_out)
{
	struct vg_kept_error kept;
	CORE_SCOPE scope = {false};
	CORE_RELAXED relaxed = core_relax();

	*ret_is_out = false;
	enum vg_status status = enter_context(move, &scope);
	if (status == VG_OK)
		status = space_fence(move->space);
	for_all_chunks(move, count_bytes);
	if (status == VG_OK)
		status = for_all_chunks(move, move_chunk_out);
	*ret_is_out = status == VG_OK;
	if (status == VG_OK)
		return VG_OK;
	vg_error_keep(&kept);
	move->is_back = true;
	*ret_is_out = move_in(move) != VG_OK;
	vg_error_restore(&kept);
	return status;
}

static enum vg_status begin_move_locked(struct vg_memory_space *space, bool out)
{
	enum vg_status status = space_usable(space);

	if (status)
		return status;
	if (space->is_out == out)
		return vg_fail(VG_STATE, 0,
			       out ? "the memory is in the host already" : "the memory is on the device already");
	space->is_out = true;
	while (space->active)
		pthread_cond_wait(&space->changed, &space->lock);
	status = space_usable(space); // the space may have been closed meanwhile
	if (status)
		return status;
	space->active++; // from here on, closing the space waits
	return VG_OK;
}

// Makes new calls fail, and waits until all other calls have left the driver. The caller's own call is not counted.
static enum vg_status begin_move(struct vg_memory_space *space, bool out)
{
	pthread_mutex_lock(&space->lock);
	enum vg_status status = begin_move_locked(space, out);
	pthread_mutex_unlock(&space->lock);
	return status;
}

static void end_move(struct vg_memory_space *space, bool is_out)
{
	pthread_mutex_lock(&space->lock);
	space->is_out = is_out;
	space->active--;
	pthread_cond_broadcast(&space->changed);
	pthread_mutex_unlock(&space->lock);
}

enum vg_status space_move_out(struct vg_memory_space *space, space_progress_fn *progress, void *user)
{
	struct move move = {.space = space, .progress = progress, .user = user};
	bool is_out;

	enum vg_status status = begin_move(space, true);
	if (status)
		return status;
	status = move_out(&move, &is_out);
	end_move(space, is_out);
	return status;
}

enum vg_status space_move_in(struct vg_memory_space *space, space_progress_fn *progress, void *user)
{
	struct move move = {.space = space, .progress = progress, .user = user};

	enum vg_status status = begin_move(space, false);
	if (status)
		return status;
	CORE_SCOPE scope = {false};
	CORE_RELAXED relaxed = core_relax();
	status = enter_context(&move, &scope);
	for_all_chunks(&move, count_away);
	if (status == VG_OK)
		status = move_in(&move);
	end_move(space, status != VG_OK);
	return status;
}

bool space_is_out(struct vg_memory_space *space, uint64_t *ret_bytes)
{
	pthread_mutex_lock(&space->lock);
	bool is_out = space->is_out;
	pthread_mutex_unlock(&space->lock);
	*ret_bytes = atomic_load(&space->in_host);
	return is_out;
}
