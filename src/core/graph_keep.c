#include "core/graph_keep.h"

#include <stdlib.h>
#include <string.h>

// A list of references to release. Any thread of the driver adds one element; core_graph_keep_drain() removes all.
static _Atomic(struct core_graph_keep *) dropped;

static void CUDA_CB queue_dropped(void *data)
{
	struct core_graph_keep *keep = data;

	keep->next = atomic_load(&dropped);
	while (!atomic_compare_exchange_weak(&dropped, &keep->next, keep))
		;
}

struct core_graph_keep *core_graph_keep_create(struct core_object *first, struct core_object *second, const void *data,
					       size_t size)
{
	struct core_graph_keep *keep = NULL;

	if (size <= SIZE_MAX - sizeof *keep)
		keep = malloc(sizeof *keep + size);
	if (!keep)
		return NULL;
	*keep = (struct core_graph_keep){.objects = {first, second}};
	if (size)
		memcpy(keep->data, data, size);
	for (int i = 0; i < CORE_GRAPH_KEEPS; i++)
		if (keep->objects[i])
			core_object_retain(keep->objects[i]);
	return keep;
}

void core_graph_keep_destroy(struct core_graph_keep *keep)
{
	for (int i = 0; keep && i < CORE_GRAPH_KEEPS; i++)
		core_object_release(keep->objects[i]);
	free(keep);
}

CUresult core_graph_keep_attach(struct core_graph_keep *keep, CUgraph graph)
{
	if (!keep)
		return CUDA_SUCCESS;
	CUresult r = core_driver->cuUserObjectCreate(&keep->user_object, keep, queue_dropped, 1,
						     CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
	if (r) {
		core_graph_keep_destroy(keep);
		return r;
	}
	r = core_driver->cuGraphRetainUserObject(graph, keep->user_object, 1, CU_GRAPH_USER_OBJECT_MOVE);
	if (r)
		core_driver->cuUserObjectRelease(keep->user_object, 1);
	return r;
}

void core_graph_keep_detach(struct core_graph_keep *keep, CUgraph graph)
{
	// Ignore a failure of the driver: then the references are released together with the graph.
	if (keep)
		core_driver->cuGraphReleaseUserObject(graph, keep->user_object, 1);
}

void core_graph_keep_drain(void)
{
	if (!atomic_load_explicit(&dropped, memory_order_relaxed))
		return;
	for (struct core_graph_keep *keep = atomic_exchange(&dropped, NULL), *next; keep; keep = next) {
		next = keep->next;
		core_graph_keep_destroy(keep);
	}
}
