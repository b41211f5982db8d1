// Manages pages of addresses. Each page points to its chunk, so a search for free pages skips whole chunks.
#include "space/memory.h"

#include "base/size.h"

#include <stdlib.h>

static size_t get_chunk_end(const struct space_chunk *chunk)
{
	return chunk->first + chunk->pages;
}

// Returns the first page at or after `at` whose address is a multiple of `alignment`. If `alignment` is at most the
// page size, that is `at`.
static size_t align_page(const struct vg_memory_space *space, const struct space_range *range, size_t at,
			 size_t alignment)
{
	while (at < range->pages && (range->base + at * space->page_size) % alignment)
		at++;
	return at;
}

// Returns the first page of a row of `pages` free pages, or range->pages if there is no such row.
static size_t find_row(const struct vg_memory_space *space, const struct space_range *range, size_t pages,
		       size_t alignment)
{
	size_t at = align_page(space, range, range->lowest_free, alignment);

	while (at < range->pages && pages <= range->pages - at) {
		size_t end = at;
		while (end < at + pages && !range->chunk[end])
			end++;
		if (end == at + pages)
			return at;
		at = align_page(space, range, get_chunk_end(range->chunk[end]), alignment);
	}
	return range->pages;
}

bool space_assign_pages(struct vg_memory_space *space, struct space_chunk *chunk, size_t alignment)
{
	for (unsigned i = 0; i < space->range_count; i++) {
		struct space_range *range = space->range[i];
		size_t at = find_row(space, range, chunk->pages, alignment);
		if (at == range->pages)
			continue;
		chunk->range = range;
		chunk->first = at;
		for (size_t page = 0; page < chunk->pages; page++)
			range->chunk[at + page] = chunk;
		while (range->lowest_free < range->pages && range->chunk[range->lowest_free])
			range->lowest_free = get_chunk_end(range->chunk[range->lowest_free]);
		return true;
	}
	return false;
}

void space_unassign_pages(struct space_chunk *chunk)
{
	struct space_range *range = chunk->range;

	for (size_t page = 0; page < chunk->pages; page++)
		range->chunk[chunk->first + page] = NULL;
	if (chunk->first < range->lowest_free)
		range->lowest_free = chunk->first;
}

static void destroy_range(struct space_range *range)
{
	vg_address_range_destroy(range->reserved);
	free(range->chunk);
	free(range);
}

static enum vg_status create_range(struct vg_memory_space *space, size_t pages, size_t alignment,
				   struct space_range **ret_range)
{
	struct space_range *range = calloc(1, sizeof *range);

	if (range)
		range->chunk = calloc(pages, sizeof *range->chunk);
	if (!range || !range->chunk) {
		free(range);
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a table of %zu pages", pages);
	}
	enum vg_status status = core_address_range_create(
		pages * space->page_size, alignment > space->granularity ? alignment : 0, 0, &range->reserved);
	if (status) {
		free(range->chunk);
		free(range);
		return status;
	}
	range->base = range->reserved->address;
	range->pages = pages;
	*ret_range = range;
	return VG_OK;
}

// Returns how many pages to reserve at once, at least `pages`. Returns 0 if the space would exceed `max_pages` or
// already has SPACE_RANGES ranges.
static size_t compute_reserve(struct vg_memory_space *space, size_t pages)
{
	pthread_mutex_lock(&space->lock);
	size_t left = space->range_count < SPACE_RANGES ? space->max_pages - space->reserved_pages : 0;
	size_t usual = space->usual_range;
	pthread_mutex_unlock(&space->lock);
	if (left < pages)
		return 0;
	usual = usual < pages ? pages : usual;
	return usual < left ? usual : left;
}

static bool append_range(struct vg_memory_space *space, struct space_range *range)
{
	pthread_mutex_lock(&space->lock);
	const bool fits = space->range_count < SPACE_RANGES && range->pages <= space->max_pages - space->reserved_pages;
	if (fits) {
		space->reserved_pages += range->pages;
		space->range[space->range_count++] = range;
	}
	pthread_mutex_unlock(&space->lock);
	return fits;
}

enum vg_status space_reserve(struct vg_memory_space *space, size_t pages, size_t alignment)
{
	struct space_range *range = NULL;
	size_t reserve;

	while ((reserve = compute_reserve(space, pages))) {
		enum vg_status status = create_range(space, reserve, alignment, &range);
		if (status || append_range(space, range))
			return status;
		destroy_range(range); // another thread has appended a range meanwhile, so this one is not needed
	}
	return vg_fail(VG_LIMIT, 0,
		       "no %zu pages of addresses are free in a row: there are %zu in all; raise max_pages, or free "
		       "some blocks",
		       pages, space->max_pages);
}

struct space_range *space_range_of(const struct vg_memory_space *space, CUdeviceptr address)
{
	for (unsigned i = 0; i < space->range_count; i++)
		if (address - space->range[i]->base < space->range[i]->pages * space->page_size)
			return space->range[i];
	return NULL;
}

size_t space_free_ranges(const struct vg_memory_space *space)
{
	size_t count = 0;

	for (unsigned i = 0; i < space->range_count; i++) {
		const struct space_range *range = space->range[i];
		bool before = false;
		for (size_t page = 0; page < range->pages; page++) {
			count += !range->chunk[page] && !before;
			before = !range->chunk[page];
		}
	}
	return count;
}

void space_ranges_finish(struct vg_memory_space *space)
{
	while (space->range_count)
		destroy_range(space->range[--space->range_count]);
}
