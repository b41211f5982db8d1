// Creates and closes spaces.
#include "space/memory.h"

#include "base/log.h"
#include "base/size.h"
#include "space/mover.h"

#include <stdlib.h>

// Addresses to reserve, as a multiple of the limit; and the minimum number of pages of a range.
enum { RESERVED_TIMES = 4, LEAST_RANGE = 64 };

static void free_space(struct core_object *object)
{
	struct vg_memory_space *space = (struct vg_memory_space *)object;

	space_ranges_finish(space);
	vg_stream_destroy(space->stream);
	vg_context_destroy(space->context);
	free(space->plan);
	if (!core_forked) // in a forked child, this would wait for threads that exist only in the parent
		pthread_cond_destroy(&space->changed);
	pthread_mutex_destroy(&space->lock);
	free(space);
}

static const struct core_class space_class = {"memory space", NULL, free_space};

// ---- options ----------------------------------------------------------------------------------------

static enum vg_status check_limit(struct vg_memory_space *space, uint64_t limit)
{
	char asked[VG_SIZE_TEXT], total_text[VG_SIZE_TEXT];
	size_t unused, total;
	CORE_SCOPE scope = {false};

	if (limit == 0)
		return vg_fail(VG_INVALID, 0, "limit is 0: say how many bytes the space may hold");
	CUresult r = core_enter(&scope, space->context->handle);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuMemGetInfo_v2(&unused, &total);
	if (r)
		return core_driver_failed(r, "cuMemGetInfo", "%s", "");
	if (limit > total)
		return vg_fail(VG_INVALID, 0, "limit is %s (%llu bytes): device %d has %s",
			       vg_size_format(limit, asked), (unsigned long long)limit, space->context->device->ordinal,
			       vg_size_format(total, total_text));
	return VG_OK;
}

static enum vg_status plan_pages(struct vg_memory_space *space, const struct vg_memory_space_options *o)
{
	static const struct vg_virtual_memory_options plain = {.size = sizeof plain, .handle_type = VG_HANDLE_NONE};
	const size_t most = (size_t)1 << 30;

	enum vg_status status = core_memory_plan(space->context->device, &plain, &space->plan);
	if (status)
		return status;
	space->granularity = space->plan->granularity;
	if (o->page_size > most)
		return vg_fail(VG_INVALID, 0, "page_size is %zu: 1 GiB at most", o->page_size);
	status = core_memory_plan_round(space->plan, o->page_size ? o->page_size : 4096, &space->page_size);
	if (status)
		return status;
	if (o->max_pages > SIZE_MAX / space->page_size)
		return vg_fail(VG_INVALID, 0, "max_pages is %zu: pages of %zu bytes, so many, are no addresses",
			       o->max_pages, space->page_size);
	return VG_OK;
}

static void plan_range(struct vg_memory_space *space, size_t max_pages)
{
	size_t usual = (space->limit / space->page_size + 1) * RESERVED_TIMES;

	space->max_pages = max_pages ? max_pages : 1048576;
	usual = usual < LEAST_RANGE ? LEAST_RANGE : usual;
	space->usual_range = usual < space->max_pages ? usual : space->max_pages;
}

static size_t compute_kept(const struct vg_memory_space *space, size_t base, unsigned index)
{
	const size_t most = SIZE_MAX / 2 >> index, bytes = (base < most ? base : most) << index;

	return (bytes + space->page_size - 1) / space->page_size * space->page_size;
}

static enum vg_status plan_pools(struct vg_memory_space *space, const struct vg_memory_space_options *o)
{
	const size_t block = o->base_block_size ? o->base_block_size : 1024;
	const size_t pool = o->base_pool_size ? o->base_pool_size : (size_t)1 << 20;
	const unsigned classes = o->pools ? o->pools : 8;

	if (block & (block - 1) || block < SPACE_ALIGNMENT)
		return vg_fail(VG_INVALID, 0, "base_block_size is %zu: a power of two, %d at least", block,
			       SPACE_ALIGNMENT);
	if (classes > SPACE_POOLS || block > space->granularity || block << (classes - 1) > space->granularity)
		return vg_fail(
			VG_INVALID, 0,
			"%u pools from blocks of %zu bytes on: the last one's must not be larger than %zu bytes, "
			"since larger blocks are parts of pages and whole pages",
			classes, block, space->granularity);
	space->classes = classes;
	for (unsigned movable = 0; movable < 2; movable++)
		for (unsigned i = 0; i <= classes; i++) {
			struct space_pool *it = &space->pool[movable][i];
			it->parts = i == classes;
			it->cell = it->parts ? space->page_size / SPACE_PARTS : block << i;
			it->keep = compute_kept(space, pool, i);
		}
	space->whole.keep = compute_kept(space, pool, classes + 1);
	return VG_OK;
}

static enum vg_status plan_threshold(struct vg_memory_space *space, const struct vg_memory_space_options *o)
{
	const double threshold = o->defragmentation_threshold;

	if (!(threshold >= 0 && threshold <= 1))
		return vg_fail(VG_INVALID, 0, "defragmentation_threshold is %g: 0 to 1", threshold);
	space->threshold = threshold > 0 ? threshold : 0.3;
	space->manual = o->manual_defragmentation;
	return VG_OK;
}

// ---- creation ---------------------------------------------------------------------------------------

static enum vg_status create_parts(struct vg_memory_space *space, const struct vg_memory_space_options *o)
{
	enum vg_status status = check_limit(space, o->limit);
	if (status)
		return status;
	status = plan_pages(space, o);
	if (status)
		return status;
	space->limit = o->limit;
	status = plan_pools(space, o);
	if (status)
		return status;
	status = plan_threshold(space, o);
	if (status)
		return status;
	plan_range(space, o->max_pages);
	status = space_reserve(space, 1, 1);
	return status ? status : vg_stream_create(space->context, NULL, &space->stream);
}

enum vg_status space_create(struct vg_context *context, const struct vg_memory_space_options *options,
			    const struct space_budget *budget, struct vg_memory_space **ret_space)
{
	struct vg_memory_space_options o;

	enum vg_status status = core_object_check((struct core_object *)context, "context");
	if (status)
		return status;
	if (!ret_space)
		return vg_fail(VG_INVALID, 0, "ret_space is NULL");
	status = vg_options_copy(&o, sizeof o, options);
	if (status)
		return status;
	status = space_here();
	if (status)
		return status;
	struct vg_memory_space *space = calloc(1, sizeof *space);
	if (!space)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a memory space");
	core_object_init(&space->object, &space_class);
	pthread_mutex_init(&space->lock, NULL);
	pthread_cond_init(&space->changed, NULL);
	core_object_retain(&context->object);
	space->context = context;
	space->next_physical = 1;
	space->next_look = SPACE_LOOK_EVERY;
	if (budget)
		space->budget = *budget;
	status = create_parts(space, &o);
	if (status)
		core_object_release(&space->object);
	else
		*ret_space = space;
	return status;
}

enum vg_status vg_memory_space_create(struct vg_context *context, const struct vg_memory_space_options *options,
				      struct vg_memory_space **ret_space)
{
	VG_ENTRY();
	return space_create(context, options, NULL, ret_space);
}

enum vg_status space_set_limit(struct vg_memory_space *space, uint64_t limit)
{
	struct space_chunk *list = NULL;

	enum vg_status status = core_object_check((struct core_object *)space, "space");
	if (status)
		return status;
	status = space_here();
	if (status)
		return status;
	status = check_limit(space, limit);
	if (status)
		return status;
	pthread_mutex_lock(&space->lock);
	status = space_present(space);
	if (status == VG_OK && space->charged > limit)
		space_remove_all_empty(space, &list);
	pthread_mutex_unlock(&space->lock);
	if (status == VG_OK)
		status = space_free_chunks(space, list, SPACE_KEEP_REFUSED, NULL);
	if (status)
		return status;
	pthread_mutex_lock(&space->lock);
	const uint64_t charged = space->charged;
	if (charged <= limit) {
		space->limit = limit;
		plan_range(space, space->max_pages);
	}
	pthread_mutex_unlock(&space->lock);
	return charged <= limit ? VG_OK
				: vg_fail(VG_LIMIT, 0, "the limit cannot be %llu bytes: %llu are charged; free some",
					  (unsigned long long)limit, (unsigned long long)charged);
}

// ---- close ------------------------------------------------------------------------------------------

// Removes the memory from the movable blocks of a chunk; the blocks themselves remain.
static void detach_blocks(struct space_chunk *chunk)
{
	for (size_t i = 0; i < chunk->cells; i++)
		if (chunk->cell[i].owner)
			chunk->cell[i].owner->chunk = NULL;
}

static struct space_chunk *list_chunks(struct vg_memory_space *space)
{
	struct space_chunk *list = NULL;

	for (unsigned i = 0; i < space->range_count; i++)
		for (size_t page = 0; page < space->range[i]->pages; page++) {
			struct space_chunk *chunk = space->range[i]->chunk[page];
			if (!chunk || chunk->first != page)
				continue;
			detach_blocks(chunk);
			chunk->next = list;
			list = chunk;
			space->leaving++;
			space->active++;
		}
	return list;
}

// Destroys the mover. Makes the context current, because freeing page-locked memory needs one. Must not fail when
// another thread captures a stream.
static void end_mover(struct vg_memory_space *space)
{
	CORE_SCOPE scope = {false};
	CORE_RELAXED relaxed = core_relax();

	if (space->mover)
		(void)core_enter(&scope, space->context->handle);
	space_mover_destroy(space->mover);
	space->mover = NULL;
}

static enum vg_status end_space(struct vg_memory_space *space)
{
	char bytes[VG_SIZE_TEXT];

	pthread_mutex_lock(&space->lock);
	const bool again = space->ended;
	space->ended = true;
	while (space->active)
		pthread_cond_wait(&space->changed, &space->lock);
	const size_t blocks = again ? 0 : space->blocks;
	const uint64_t allocated = space->allocated;
	struct space_chunk *list = again ? NULL : list_chunks(space);
	pthread_mutex_unlock(&space->lock);
	if (again)
		return VG_OK;
	if (blocks && !space->budget.charge) // if there is a budget with `charge`, its owner logs the blocks
		vg_log(VG_LOG_WARNING, "closing a memory space: %zu blocks with %s were still allocated", blocks,
		       vg_size_format(allocated, bytes));
	end_mover(space);
	return space_free_chunks(space, list, SPACE_FREE_REFUSED, NULL);
}

enum vg_status vg_memory_space_close(struct vg_memory_space *space)
{
	VG_ENTRY();
	CORE_NEEDED(space);
	enum vg_status status = space_here();
	if (status)
		return status;
	atomic_store(&space->object.closed, true);
	return end_space(space);
}

void vg_memory_space_destroy(struct vg_memory_space *space)
{
	struct vg_kept_error compute_kept;

	if (!space)
		return;
	vg_error_keep(&compute_kept);
	atomic_store(&space->object.closed, true);
	if (!core_forked && end_space(space))
		vg_log(VG_LOG_WARNING, "destroying a memory space: %s", vg_last_error()->text);
	vg_error_restore(&compute_kept);
	core_object_release(&space->object);
}
