// Allocates blocks: in existing pools or in new pages.
#include "space/memory.h"

static const size_t max_alignment = (size_t)1 << 30, max_size = (size_t)1 << 60;

struct request {
	size_t size, alignment;
	struct vg_movable_block *owner;
	vg_address address; // the result: the address of the block
};

static bool fits_parts(const struct vg_memory_space *space, const struct request *request)
{
	const struct space_pool *parts = &space->pool[0][space->classes];

	return request->alignment <= space->granularity && (request->size - 1) / parts->cell + 1 < SPACE_PARTS;
}

// Returns the index of the pool for this size. The index `classes` is the pool of parts of pages, and the next index
// the pool of whole pages.
static unsigned choose_pool(const struct vg_memory_space *space, const struct request *request)
{
	size_t least = request->size;

	if (request->alignment > SPACE_ALIGNMENT && least < request->alignment)
		least = request->alignment;
	for (unsigned i = 0; i < space->classes; i++)
		if (least <= space->pool[0][i].cell)
			return i;
	return fits_parts(space, request) ? space->classes : space->classes + 1;
}

static struct space_pool *get_pool(struct vg_memory_space *space, const struct request *request, unsigned index)
{
	return index > space->classes ? &space->whole : &space->pool[request->owner != NULL][index];
}

// Gives the cell to the requested block, so that space_find() finds the block and its owner.
static void assign_cell(struct vg_memory_space *space, struct request *request, struct space_chunk *chunk, size_t cell)
{
	if (request->owner) {
		chunk->cell[cell].owner = request->owner;
		request->owner->chunk = chunk;
		request->owner->at = cell;
		space->movable_blocks++;
	} else {
		chunk->exposed = true;
	}
	request->address = space_chunk_address(space, chunk) + cell * space_cell_bytes(space, chunk);
}

static bool allocate_cell(struct vg_memory_space *space, struct request *request, struct space_pool *pool)
{
	struct space_chunk *chunk;
	size_t cell;

	if (!space_pool_allocate(space, pool, request->size, request->alignment, &chunk, &cell))
		return false;
	assign_cell(space, request, chunk, cell);
	return true;
}

// Reuses the most recently used empty page of any pool. Returns false if there is no empty page.
static bool reuse_empty_page(struct vg_memory_space *space, struct request *request, struct space_pool *pool)
{
	unsigned probes = SPACE_PROBES;

	for (struct space_chunk *chunk = space->idle_last; chunk && probes--; chunk = chunk->idle_previous) {
		if (chunk->pages != 1)
			continue;
		struct space_pool *before = chunk->pool;
		space_pool_drop(space, chunk);
		if (space_pool_adopt(space, pool, chunk)) {
			space_pool_adopt(space, before, chunk); // cannot fail, because the chunk has cells of that size
			return false;
		}
		return allocate_cell(space, request, pool);
	}
	return false;
}

// Allocates a larger cell than needed, when no page can be added. Returns false if no pool has one.
static bool allocate_larger(struct vg_memory_space *space, struct request *request, unsigned index)
{
	for (unsigned i = index + 1; i <= space->classes; i++)
		if ((i < space->classes || fits_parts(space, request)) &&
		    allocate_cell(space, request, get_pool(space, request, i)))
			return true;
	return false;
}

// Returns whether the limit is too small for the pages even if the space were empty.
static bool is_beyond_limit(struct vg_memory_space *space, size_t pages)
{
	pthread_mutex_lock(&space->lock);
	const bool beyond = pages > space->limit / space->page_size;
	pthread_mutex_unlock(&space->lock);
	return beyond;
}

// Creates pages for the request. Returns true if the result, *ret_status, is final. Returns false if freeing other
// pages may help.
static bool make_pages(struct vg_memory_space *space, struct request *request, unsigned index,
		       enum vg_status *ret_status)
{
	struct space_pool *pool = get_pool(space, request, index);
	const size_t pages = pool->cell ? 1 : (request->size - 1) / space->page_size + 1;
	struct space_chunk *chunk, *list = NULL;
	size_t cell;

	*ret_status = space_chunk_create(space, pages, pool->cell ? 1 : request->alignment, &chunk);
	if (*ret_status)
		return *ret_status != VG_INSUFFICIENT || is_beyond_limit(space, pages);
	pthread_mutex_lock(&space->lock);
	if (space_pool_adopt(space, pool, chunk)) {
		chunk->pool = pool;
		chunk->state = SPACE_LEAVING;
		space->leaving++;
		space->active++;
		list = chunk;
		*ret_status = vg_fail(VG_NO_MEMORY, 0, "no memory for the blocks of a page");
	} else {
		space_chunk_allocate(space, chunk, request->size, request->alignment, &cell);
		assign_cell(space, request, chunk, cell);
	}
	pthread_mutex_unlock(&space->lock);
	if (list) {
		struct vg_kept_error kept;
		vg_error_keep(&kept);
		space_free_chunks(space, list, SPACE_FREE_REFUSED, NULL);
		vg_error_restore(&kept);
	}
	return true;
}

// Frees empty pages of other pools, or waits for pages that other threads are freeing. Returns false if neither exists.
static bool make_room(struct vg_memory_space *space, enum vg_status *ret_status)
{
	struct space_chunk *list = NULL;

	pthread_mutex_lock(&space->lock);
	space_remove_all_empty(space, &list);
	const bool waits = !list && space->leaving;
	while (!list && space->leaving)
		pthread_cond_wait(&space->changed, &space->lock);
	pthread_mutex_unlock(&space->lock);
	if (!list)
		return waits;
	enum vg_status status = space_free_chunks(space, list, SPACE_KEEP_REFUSED, NULL);
	if (status)
		*ret_status = status;
	return status == VG_OK;
}

// Creates the pages of a chunk. Call without the lock, after adding 1 to `active`.
static enum vg_status add_pages(struct vg_memory_space *space, struct request *request, unsigned index)
{
	struct space_pool *pool = get_pool(space, request, index);
	enum vg_status status;
	CORE_SCOPE scope = {false};

	CUresult r = core_enter(&scope, space->context->handle);
	if (r)
		return core_driver_failed(r, "cuCtxPushCurrent", "%s", "");
	CORE_RELAXED relaxed = core_relax();
	do {
		pthread_mutex_lock(&space->lock);
		bool found = allocate_cell(space, request, pool) ||
			     (request->size <= space->page_size && reuse_empty_page(space, request, pool));
		pthread_mutex_unlock(&space->lock);
		if (found)
			return VG_OK;
		if (make_pages(space, request, index, &status))
			return status;
	} while (make_room(space, &status));
	pthread_mutex_lock(&space->lock);
	if (status == VG_INSUFFICIENT && allocate_larger(space, request, index))
		status = VG_OK;
	pthread_mutex_unlock(&space->lock);
	return status;
}

static enum vg_status check_request(struct request *request)
{
	if (request->size == 0)
		return vg_fail(VG_INVALID, 0, "size is 0: a block has one byte at least");
	if (request->size > max_size)
		return vg_fail(VG_INVALID, 0, "size is %zu bytes, more than any device has", request->size);
	if (request->alignment & (request->alignment - 1) || request->alignment > max_alignment)
		return vg_fail(VG_INVALID, 0, "alignment is %zu: a power of two up to %zu, or 0 for %d",
			       request->alignment, max_alignment, SPACE_ALIGNMENT);
	if (request->alignment < SPACE_ALIGNMENT)
		request->alignment = SPACE_ALIGNMENT;
	return VG_OK;
}

enum vg_status space_block_create(struct vg_memory_space *space, size_t size, size_t alignment,
				  struct vg_movable_block *owner, vg_address *ret_address)
{
	struct request request = {size, alignment, owner, 0};
	struct space_chunk *list = NULL;

	enum vg_status status = check_request(&request);
	if (status)
		return status;
	const unsigned index = choose_pool(space, &request);
	pthread_mutex_lock(&space->lock);
	status = space_present(space);
	if (status == VG_OK && !allocate_cell(space, &request, get_pool(space, &request, index))) {
		space->active++;
		pthread_mutex_unlock(&space->lock);
		status = add_pages(space, &request, index);
		pthread_mutex_lock(&space->lock);
		if (--space->active == 0)
			pthread_cond_broadcast(&space->changed);
	}
	if (status == VG_OK)
		space_check_fragmentation(space, &list);
	pthread_mutex_unlock(&space->lock);
	space_free_unneeded(space, list);
	if (status == VG_OK)
		*ret_address = request.address;
	return status;
}

enum vg_status vg_memory_space_allocate(struct vg_memory_space *space, size_t size, size_t alignment,
					vg_address *ret_address)
{
	VG_ENTRY();
	SPACE_USABLE(space);
	CORE_NEEDED(ret_address);
	return space_block_create(space, size, alignment, NULL, ret_address);
}
