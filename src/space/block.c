// Finds blocks by address, and frees blocks.
#include "space/memory.h"

#include "base/log.h"

enum vg_status space_here(void)
{
	if (!core_forked)
		return VG_OK;
	return vg_fail(VG_STATE, 0, "this process was forked after the driver was loaded: a space is of no use in it");
}

enum vg_status space_usable(const struct vg_memory_space *space)
{
	return space->ended ? vg_fail(VG_CLOSED, 0, "the memory space has been closed") : VG_OK;
}

enum vg_status space_present(const struct vg_memory_space *space)
{
	enum vg_status status = space_usable(space);

	if (status)
		return status;
	if (space->is_out)
		return vg_fail(VG_STATE, 0,
			       "the memory is in the host, or moves: vg_virtual_gpu_move_in() brings it back");
	return VG_OK;
}

// ---- looking up -------------------------------------------------------------------------------------

// Returns the first cell of the block that contains `cell`, or `cell` itself if no block does.
static size_t find_block_start(const struct space_chunk *chunk, size_t cell)
{
	size_t start = cell;

	if (chunk->unused[cell / 64] >> cell % 64 & 1)
		return cell;
	while (start && !chunk->cell[start].asked)
		start--;
	return start;
}

enum vg_status space_find(const struct vg_memory_space *space, CUdeviceptr address, const char *what,
			  struct space_position *ret_place)
{
	const struct space_range *range = space_range_of(space, address);

	if (!range)
		return vg_fail(VG_BOUNDS, 0, "%s is 0x%llx, which is no address of this space", what, address);
	struct space_chunk *chunk = range->chunk[(address - range->base) / space->page_size];
	if (chunk && chunk->state == SPACE_LIVE) {
		const size_t inside = address - space_chunk_address(space, chunk),
			     cell = space_cell_bytes(space, chunk);
		const size_t start = find_block_start(chunk, inside / cell);
		if (chunk->cell[start].asked) {
			*ret_place = (struct space_position){chunk, start, inside - start * cell};
			return VG_OK;
		}
	}
	return vg_fail(VG_STALE, 0, "%s is 0x%llx, and no block is there: it was freed, or never allocated", what,
		       address);
}

// ---- freeing ----------------------------------------------------------------------------------------

// Frees unneeded chunks. If that fails, the chunks stay in their pools and are freed another time.
void space_free_unneeded(struct vg_memory_space *space, struct space_chunk *list)
{
	struct vg_kept_error kept;

	if (!list)
		return;
	vg_error_keep(&kept);
	if (space_free_chunks(space, list, SPACE_KEEP_REFUSED, NULL))
		vg_log(VG_LOG_WARNING, "cannot free empty pages of a memory space: %s", vg_last_error()->text);
	vg_error_restore(&kept);
}

void space_block_end(struct vg_memory_space *space, struct space_chunk *chunk, size_t cell, struct space_chunk **list)
{
	space_chunk_release(space, chunk, cell);
	if (!chunk->blocks && !chunk->apart && space_pool_spare(space, chunk->pool) > chunk->pool->keep)
		space_remove_empty(space, chunk, list);
}

static enum vg_status free_plain(struct vg_memory_space *space, vg_address address, struct space_chunk **list)
{
	struct space_position place;

	enum vg_status status = space_present(space);
	if (status)
		return status;
	status = space_find(space, address, "address", &place);
	if (status)
		return status;
	if (place.offset && place.offset >= place.chunk->cell[place.cell].asked)
		return vg_fail(VG_STALE, 0, "address is 0x%llx, and no block is there", (unsigned long long)address);
	if (place.offset)
		return vg_fail(
			VG_INVALID, 0,
			"address is 0x%llx, %zu bytes into a block of %zu: free it by the address where it begins",
			(unsigned long long)address, place.offset, place.chunk->cell[place.cell].asked);
	if (place.chunk->cell[place.cell].owner)
		return vg_fail(VG_INVALID, 0,
			       "address 0x%llx is a movable block's, which ends with vg_movable_block_destroy()",
			       (unsigned long long)address);
	space_block_end(space, place.chunk, place.cell, list);
	space_check_fragmentation(space, list);
	return VG_OK;
}

enum vg_status vg_memory_space_free(struct vg_memory_space *space, vg_address address)
{
	VG_ENTRY();
	struct space_chunk *list = NULL;

	SPACE_USABLE(space);
	pthread_mutex_lock(&space->lock);
	enum vg_status status = free_plain(space, address, &list);
	pthread_mutex_unlock(&space->lock);
	space_free_unneeded(space, list);
	return status;
}
