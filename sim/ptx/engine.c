// Runs one warp. Lanes with the same next operation form a group, and one group runs at a time. It is the one that is
// furthest behind: in the deepest call, and there at the lowest address. When it reaches the next operation of another
// group, the two merge, because the compiler's layout joins paths there. A group that loops for long yields to the
// others. It yields sooner if it only reads memory, so that lanes with a lock can release the lock.
#include <stdlib.h>

#include "sim/ptx/engine.h"

static void remove_group(struct ptx_warp *warp, uint32_t index)
{
	warp->groups[index] = warp->groups[--warp->group_count];
	if (warp->current == warp->group_count)
		warp->current = index;
}

void ptx_warp_split(struct ptx_warp *warp, const struct ptx_op *pc, const struct ptx_op *other)
{
	struct ptx_group *group = &warp->groups[warp->current];
	struct ptx_group *left = &warp->groups[warp->group_count++];

	*left = *group;
	left->mask = warp->active & ~warp->mask;
	left->pc = other;
	left->state = PTX_GROUP_READY;
	left->released = false;
	group->mask = warp->active = warp->mask;
	group->pc = pc;
}

const struct ptx_op *ptx_warp_leave(struct ptx_warp *warp, const struct ptx_op *pc)
{
	warp->groups[warp->current].pc = pc;
	return NULL;
}

void ptx_warp_retire(struct ptx_warp *warp, const struct ptx_op *next)
{
	struct ptx_group *group = &warp->groups[warp->current];
	struct ptx_frame *frame = group->frame;

	warp->live &= ~warp->mask;
	while (frame) { // the lanes leave all calls that they are inside
		struct ptx_frame *parent = frame->parent;
		frame->lanes &= ~warp->mask;
		if (!frame->lanes && parent)
			ptx_frame_release(warp->worker, frame);
		frame = parent;
	}
	group->mask &= ~warp->mask;
	group->pc = next;
	if (!group->mask)
		remove_group(warp, warp->current);
	// Other groups may wait for these lanes, so let them check again.
	for (uint32_t i = 0; i < warp->group_count; i++)
		if (warp->groups[i].state == PTX_GROUP_SYNC)
			warp->groups[i].state = PTX_GROUP_READY;
}

// Merges groups that have the same next operation.
static void merge_groups(struct ptx_warp *warp)
{
	for (uint32_t i = 0; i < warp->group_count; i++) {
		struct ptx_group *group = &warp->groups[i];
		if (group->state == PTX_GROUP_BARRIER)
			continue;
		for (uint32_t j = i + 1; j < warp->group_count;) {
			struct ptx_group *other = &warp->groups[j];
			if (other->pc != group->pc || other->frame != group->frame ||
			    other->state == PTX_GROUP_BARRIER || other->released != group->released) {
				j++;
				continue;
			}
			group->mask |= other->mask;
			group->state = PTX_GROUP_READY;
			group->yielded &= other->yielded;
			group->spinning &= other->spinning;
			group->budget = group->budget < other->budget ? group->budget : other->budget;
			*other = warp->groups[--warp->group_count];
		}
	}
}

static bool goes_first(const struct ptx_group *a, const struct ptx_group *b)
{
	if (a->frame->depth != b->frame->depth)
		return a->frame->depth > b->frame->depth;
	return a->pc < b->pc;
}

// Chooses the group that runs next as the current group. Returns false if no group is ready.
static bool pick_group(struct ptx_warp *warp)
{
	struct ptx_group *best = NULL;

	for (uint32_t i = 0; i < warp->group_count; i++) {
		struct ptx_group *group = &warp->groups[i];
		if (group->state == PTX_GROUP_READY && !group->yielded && (!best || goes_first(group, best)))
			best = group;
	}
	if (!best)
		return false;
	warp->current = (uint32_t)(best - warp->groups);
	warp->frame = best->frame;
	warp->registers = best->frame->registers;
	warp->active = best->mask;
	warp->limit = (const struct ptx_op *)UINTPTR_MAX;
	for (uint32_t i = 0; i < warp->group_count; i++) {
		const struct ptx_group *group = &warp->groups[i];
		if (group != best && group->frame == best->frame && group->state != PTX_GROUP_BARRIER &&
		    group->pc > best->pc && group->pc < warp->limit)
			warp->limit = group->pc;
	}
	return true;
}

// Runs the current group until it waits or yields, or reaches the next operation of another group.
static void run_group(struct ptx_warp *warp)
{
	const struct ptx_op *op = warp->groups[warp->current].pc;
	uintptr_t limit = (uintptr_t)warp->limit - 1;

	for (;;) {
		const struct ptx_op *next;
		warp->mask = warp->active;
		if (op->guard) {
			uint32_t guard = *(const uint32_t *)(warp->registers + (op->guard & ~1u));
			warp->mask &= op->guard & 1 ? ~guard : guard;
		}
		next = warp->mask ? op->run(warp, op) : op + 1;
		if ((uintptr_t)next - 1 >= limit) { // also true if `next` is NULL
			if (next)
				warp->groups[warp->current].pc = next;
			return;
		}
		op = next;
	}
}

enum ptx_warp_result ptx_warp_run(struct ptx_warp *warp)
{
	const _Atomic int *stop = &warp->worker->run->stop;

	for (;;) {
		if (warp->group_count > 1)
			merge_groups(warp);
		if (!pick_group(warp))
			break;
		warp->worker->has_run = true;
		warp->groups[warp->current].spinning = false;
		run_group(warp);
		if (atomic_load_explicit(stop, memory_order_relaxed))
			return PTX_WARP_FAULT;
	}
	if (!warp->live)
		return PTX_WARP_DONE;
	bool yielded = false;
	for (uint32_t i = 0; i < warp->group_count; i++) {
		yielded |= warp->groups[i].yielded;
		warp->groups[i].yielded = false;
		warp->groups[i].budget = PTX_BUDGET;
	}
	return yielded ? PTX_WARP_YIELDED : PTX_WARP_WAITS;
}

struct ptx_frame *ptx_frame_create(struct ptx_worker *worker, const struct ptx_function *function)
{
	struct ptx_frame *frame = worker->free_frames[function->index];

	if (frame)
		worker->free_frames[function->index] = frame->parent;
	else if ((frame = aligned_alloc(64, (sizeof *frame + function->register_bytes + 63) & ~63ull)))
		memset(frame, 0, sizeof *frame + function->register_bytes);
	if (frame)
		frame->function = function;
	return frame;
}

void ptx_frame_release(struct ptx_worker *worker, struct ptx_frame *frame)
{
	frame->parent = worker->free_frames[frame->function->index];
	worker->free_frames[frame->function->index] = frame;
}

void ptx_warp_abandon(struct ptx_warp *warp)
{
	for (uint32_t i = 0; warp->base_frame && i < warp->group_count; i++)
		for (struct ptx_frame *frame = warp->groups[i].frame, *parent; frame && frame->parent; frame = parent) {
			parent = frame->parent;
			frame->lanes &= ~warp->groups[i].mask;
			if (!frame->lanes)
				ptx_frame_release(warp->worker, frame);
		}
	if (warp->base_frame)
		ptx_frame_release(warp->worker, warp->base_frame);
}
