// Keeps the list of empty chunks, and decides when to free them.
#include "space/memory.h"

#include "base/log.h"

void space_idle_add(struct vg_memory_space *space, struct space_chunk *chunk)
{
	chunk->idle_since = space->operations;
	chunk->idle_next = NULL;
	chunk->idle_previous = space->idle_last;
	if (space->idle_last)
		space->idle_last->idle_next = chunk;
	else
		space->idle_first = chunk;
	space->idle_last = chunk;
}

void space_idle_remove(struct vg_memory_space *space, struct space_chunk *chunk)
{
	if (chunk->idle_next)
		chunk->idle_next->idle_previous = chunk->idle_previous;
	else
		space->idle_last = chunk->idle_previous;
	if (chunk->idle_previous)
		chunk->idle_previous->idle_next = chunk->idle_next;
	else
		space->idle_first = chunk->idle_next;
	chunk->idle_next = chunk->idle_previous = NULL;
}

bool space_remove_empty(struct vg_memory_space *space, struct space_chunk *chunk, struct space_chunk **list)
{
	if (chunk->holds || space->is_out)
		return false;
	space_pool_drop(space, chunk);
	chunk->state = SPACE_LEAVING;
	chunk->next = *list;
	*list = chunk;
	space->leaving++;
	space->active++;
	return true;
}

void space_remove_all_empty(struct vg_memory_space *space, struct space_chunk **list)
{
	for (struct space_chunk *chunk = space->idle_first, *next; chunk; chunk = next) {
		next = chunk->idle_next;
		space_remove_empty(space, chunk, list);
	}
}

// ---- automatic defragmentation ----------------------------------------------------------------------

// Takes chunks that have been empty for a long time out of the pools, and adds them to *list. Does this only at
// intervals. The time for a check is proportional to the number of empty chunks, so the interval grows with that
// number.
void space_check_fragmentation(struct vg_memory_space *space, struct space_chunk **list)
{
	unsigned left = SPACE_LOOK_RETURNS;
	size_t empty = 0;

	if (++space->operations < space->next_look)
		return;
	if (!space->manual && space->idle_first && space_fragmentation(space) > space->threshold) {
		for (struct space_chunk *chunk = space->idle_first, *next; chunk && left; chunk = next) {
			next = chunk->idle_next;
			if (space->operations - chunk->idle_since < SPACE_LOOK_EVERY)
				break; // all later chunks in the list became empty more recently, so they are kept
			left -= space_remove_empty(space, chunk, list);
		}
		space->automatic += left < SPACE_LOOK_RETURNS;
	}
	for (const struct space_chunk *chunk = space->idle_first; chunk; chunk = chunk->idle_next)
		empty++;
	space->next_look = space->operations + (empty > SPACE_LOOK_EVERY ? empty : SPACE_LOOK_EVERY);
}

// ---- defragmentation on request ---------------------------------------------------------------------

enum vg_status vg_memory_space_defragment(struct vg_memory_space *space, struct vg_defragment_result *ret_result)
{
	VG_ENTRY();
	struct vg_defragment_result result = {0};
	struct space_returned returned = {0};
	struct space_chunk *list = NULL;

	SPACE_USABLE(space);
	pthread_mutex_lock(&space->lock);
	enum vg_status status = space_present(space);
	const size_t ranges = status ? 0 : space_free_ranges(space);
	if (status == VG_OK) {
		result.before = space_fragmentation(space);
		space_remove_all_empty(space, &list);
	}
	pthread_mutex_unlock(&space->lock);
	if (status)
		return status;
	status = space_free_chunks(space, list, SPACE_KEEP_REFUSED, &returned);
	pthread_mutex_lock(&space->lock);
	const size_t now = space_free_ranges(space);
	result.after = space_fragmentation(space);
	space->defragmentations++;
	pthread_mutex_unlock(&space->lock);
	result.bytes_returned = returned.bytes;
	result.pages_returned = returned.pages;
	result.ranges_joined = ranges > now ? ranges - now : 0;
	if (ret_result && status == VG_OK)
		*ret_result = result;
	return status;
}
