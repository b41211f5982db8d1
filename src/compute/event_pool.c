// Keeps pools of events and marks, so that a launch never creates or destroys any.
#include "compute/quantum.h"

#include "core/core.h"

#include <stdlib.h>

CUresult compute_event_acquire(struct vg_compute *compute, bool timing, CUevent *ret_event)
{
	if (compute->event_count[timing]) {
		*ret_event = compute->events[timing][--compute->event_count[timing]];
		return CUDA_SUCCESS;
	}
	return core_driver->cuEventCreate(ret_event, timing ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
}

void compute_event_release(struct vg_compute *compute, bool timing, CUevent event)
{
	if (!event)
		return;
	if (compute->event_count[timing] == compute->event_room[timing]) {
		unsigned room = compute->event_room[timing] ? 2 * compute->event_room[timing] : 64;
		CUevent *grown = realloc(compute->events[timing], room * sizeof *grown);
		if (!grown) {
			core_driver->cuEventDestroy_v2(event);
			return;
		}
		compute->events[timing] = grown;
		compute->event_room[timing] = room;
	}
	compute->events[timing][compute->event_count[timing]++] = event;
}

CUresult compute_mark_acquire(struct vg_compute *compute, struct compute_mark **ret_mark)
{
	struct compute_mark *mark = compute->marks;

	if (mark)
		compute->marks = mark->next;
	else
		mark = malloc(sizeof *mark);
	if (!mark)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*mark = (struct compute_mark){0};
	CUresult r = compute_event_acquire(compute, false, &mark->event);
	if (r)
		compute_mark_release(compute, mark);
	else
		*ret_mark = mark;
	return r;
}

void compute_mark_release(struct vg_compute *compute, struct compute_mark *mark)
{
	if (!mark)
		return;
	compute_event_release(compute, false, mark->event);
	mark->next = compute->marks;
	compute->marks = mark;
}

void compute_pools_finish(struct vg_compute *compute)
{
	for (int timing = 0; timing < 2; timing++) {
		for (unsigned i = 0; i < compute->event_count[timing]; i++)
			core_driver->cuEventDestroy_v2(compute->events[timing][i]);
		free(compute->events[timing]);
		compute->events[timing] = NULL;
		compute->event_count[timing] = compute->event_room[timing] = 0;
	}
	while (compute->marks) {
		struct compute_mark *next = compute->marks->next;
		free(compute->marks);
		compute->marks = next;
	}
	while (compute->quantums) {
		struct compute_quantum *next = compute->quantums->next;
		free(compute->quantums);
		compute->quantums = next;
	}
}
