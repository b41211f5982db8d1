// Gives information about pages and pools.
#include "space/memory.h"

#include "base/clock.h"

// The record of a page has bits for the kinds of accesses, and above them the time of the last access.
enum { ACCESSED = 1, WRITTEN = 2, TIME = 4 };

void space_touch(struct vg_memory_space *space, struct space_chunk *chunk, size_t offset, size_t size, bool written)
{
	const uint64_t note = vg_clock_monotonic_ns() * TIME | ACCESSED | (written ? WRITTEN : 0);

	for (size_t page = offset / space->page_size; page <= (offset + size - 1) / space->page_size; page++)
		chunk->calls[page] = note | (chunk->calls[page] & WRITTEN);
}

static enum vg_tristate get_tristate(const struct space_chunk *chunk, bool done)
{
	return done ? VG_TRISTATE_YES : chunk->exposed ? VG_TRISTATE_UNKNOWN : VG_TRISTATE_NO;
}

static struct vg_page describe_page(const struct vg_memory_space *space, const struct space_range *range, size_t at)
{
	struct vg_page page = {.address = range->base + at * space->page_size, .size = space->page_size};
	const struct space_chunk *chunk = range->chunk[at];

	if (!chunk || chunk->state == SPACE_COMING) {
		page.dirty = page.accessed = VG_TRISTATE_NO;
		return page;
	}
	const uint64_t note = chunk->calls[at - chunk->first];
	page.valid = 1;
	page.physical = chunk->physical + (at - chunk->first);
	page.dirty = get_tristate(chunk, note & WRITTEN);
	page.accessed = get_tristate(chunk, note & ACCESSED);
	page.last_access_ns = note / TIME;
	return page;
}

enum vg_status vg_memory_space_page(struct vg_memory_space *space, vg_address address, struct vg_page *ret_page)
{
	VG_ENTRY();
	SPACE_USABLE(space);
	CORE_NEEDED(ret_page);
	pthread_mutex_lock(&space->lock);
	enum vg_status status = space_usable(space);
	const struct space_range *range = space_range_of(space, address);
	if (status == VG_OK && !range)
		status = vg_fail(VG_BOUNDS, 0, "address is 0x%llx, which is no address of this space",
				 (unsigned long long)address);
	if (status == VG_OK)
		*ret_page = describe_page(space, range, (address - range->base) / space->page_size);
	pthread_mutex_unlock(&space->lock);
	return status;
}

static size_t list_pages(const struct vg_memory_space *space, struct vg_page *pages, size_t capacity)
{
	size_t count = 0;

	for (unsigned i = 0; i < space->range_count; i++)
		for (size_t at = 0; at < space->range[i]->pages; at++) {
			const struct space_chunk *chunk = space->range[i]->chunk[at];
			if (!chunk || chunk->state == SPACE_COMING)
				continue;
			if (count < capacity)
				pages[count] = describe_page(space, space->range[i], at);
			count++;
		}
	return count;
}

enum vg_status vg_memory_space_pages(struct vg_memory_space *space, struct vg_page *pages, size_t capacity,
				     size_t *ret_count)
{
	VG_ENTRY();
	SPACE_USABLE(space);
	CORE_NEEDED(ret_count);
	if (capacity)
		CORE_NEEDED(pages);
	pthread_mutex_lock(&space->lock);
	enum vg_status status = space_usable(space);
	const size_t count = status ? 0 : list_pages(space, pages, 0);
	if (status == VG_OK && capacity && count > capacity)
		status = core_no_room(count, capacity, "pages");
	if (status == VG_OK) {
		list_pages(space, pages, capacity);
		*ret_count = count;
	}
	pthread_mutex_unlock(&space->lock);
	return status;
}

enum vg_status vg_memory_space_info(struct vg_memory_space *space, struct vg_memory_space_info *ret_info)
{
	VG_ENTRY();
	struct vg_memory_space_info info;

	SPACE_USABLE(space);
	CORE_NEEDED(ret_info);
	pthread_mutex_lock(&space->lock);
	enum vg_status status = space_usable(space);
	info = (struct vg_memory_space_info){
		.limit = space->limit,
		.held = space->charged,
		.allocated = space->allocated,
		.padding = space->padding,
		.free = space_free_bytes(space),
		.largest_free = space_largest_free(space),
		.page_size = space->page_size,
		.pages = space->charged / space->page_size,
		.blocks = space->blocks,
		.movable_blocks = space->movable_blocks,
		.pools = space->classes + 2,
		.fragmentation = space_fragmentation(space),
		.defragmentations = space->defragmentations,
		.automatic_defragmentations = space->automatic,
		.compactions = space->compactions,
		.bytes_moved = space->bytes_moved,
	};
	pthread_mutex_unlock(&space->lock);
	if (info.allocated)
		info.padding_waste = (double)info.padding / (double)(info.allocated + info.padding);
	if (status == VG_OK)
		*ret_info = info;
	return status;
}

// ---- pools ------------------------------------------------------------------------------------------

// Finds the two pools that the program sees as one: the pool for movable blocks and the pool for others. For whole
// pages there is only one pool; then ret_pools[1] is NULL.
static enum vg_status find_pool(struct vg_memory_space *space, unsigned index, struct space_pool *ret_pools[2])
{
	if (index > space->classes + 1)
		return vg_fail(VG_NOT_FOUND, 0, "there is no pool %u: they are 0 to %u", index, space->classes + 1);
	ret_pools[0] = index > space->classes ? &space->whole : &space->pool[0][index];
	ret_pools[1] = index > space->classes ? NULL : &space->pool[1][index];
	return VG_OK;
}

enum vg_status vg_memory_space_pool(struct vg_memory_space *space, unsigned index, struct vg_pool_info *ret_info)
{
	VG_ENTRY();
	struct space_pool *pools[2] = {NULL, NULL};

	SPACE_USABLE(space);
	CORE_NEEDED(ret_info);
	pthread_mutex_lock(&space->lock);
	enum vg_status status = space_usable(space);
	if (status == VG_OK)
		status = find_pool(space, index, pools);
	if (status == VG_OK) {
		*ret_info = (struct vg_pool_info){pools[0]->cell ? pools[0]->cell : space->page_size, pools[0]->keep,
						  pools[0]->blocks, pools[0]->free_bytes};
		if (pools[1]) {
			ret_info->blocks += pools[1]->blocks;
			ret_info->free_bytes += pools[1]->free_bytes;
		}
	}
	pthread_mutex_unlock(&space->lock);
	return status;
}

static void shrink_pool(struct vg_memory_space *space, struct space_pool *pool, size_t keep, struct space_chunk **list)
{
	pool->keep = keep;
	for (struct space_chunk *chunk = space->idle_first, *next; chunk && space_pool_spare(space, pool) > keep;
	     chunk = next) {
		next = chunk->idle_next;
		if (chunk->pool == pool)
			space_remove_empty(space, chunk, list);
	}
}

enum vg_status vg_memory_space_set_pool_size(struct vg_memory_space *space, unsigned index, size_t bytes)
{
	VG_ENTRY();
	struct space_chunk *list = NULL;
	struct space_pool *pools[2] = {NULL, NULL};

	SPACE_USABLE(space);
	if (bytes > SIZE_MAX - space->page_size)
		return vg_fail(VG_INVALID, 0, "%zu bytes: no device has as many", bytes);
	bytes = (bytes + space->page_size - 1) / space->page_size * space->page_size;
	pthread_mutex_lock(&space->lock);
	enum vg_status status = space_present(space);
	if (status == VG_OK)
		status = find_pool(space, index, pools);
	for (int i = 0; i < 2 && status == VG_OK; i++)
		if (pools[i])
			shrink_pool(space, pools[i], bytes, &list);
	pthread_mutex_unlock(&space->lock);
	return status ? status : space_free_chunks(space, list, SPACE_KEEP_REFUSED, NULL);
}
