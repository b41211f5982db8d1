// Implements user objects: objects of the program that stay alive while a graph has references to them.
#include <stdlib.h>

#include "entry.h"
#include "graph.h"

enum { OBJECT_MAGIC = 0x4f424a32 };

struct CUuserObject_st {
	uint32_t magic;
	_Atomic unsigned references;
	CUhostFn destroy;
	void *pointer;
};

static void unref_object(struct CUuserObject_st *object, unsigned count)
{
	if (atomic_fetch_sub(&object->references, count) != count)
		return;
	object->magic = 0;
	object->destroy(object->pointer);
	free(object);
}

CUresult sim_user_references_copy(const struct sim_user_reference *from, struct sim_user_reference **ret_to)
{
	struct sim_user_reference *first = NULL;

	for (; from; from = from->next) {
		struct sim_user_reference *copy = malloc(sizeof *copy);
		if (!copy) {
			sim_user_references_free(first);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		atomic_fetch_add(&from->object->references, from->count);
		*copy = (struct sim_user_reference){from->object, from->count, first};
		first = copy;
	}
	*ret_to = first;
	return CUDA_SUCCESS;
}

void sim_user_references_free(struct sim_user_reference *first)
{
	while (first) {
		struct sim_user_reference *next = first->next;
		unref_object(first->object, first->count);
		free(first);
		first = next;
	}
}

static CUresult check_object(CUuserObject object, unsigned count)
{
	return object && object->magic == OBJECT_MAGIC && count && count <= INT32_MAX ? CUDA_SUCCESS
										      : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy, unsigned int initialRefcount,
			    unsigned int flags)
{
	SIM_ENTER(cuUserObjectCreate);
	if (!object_out || !destroy || !initialRefcount || initialRefcount > INT32_MAX ||
	    flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
		return CUDA_ERROR_INVALID_VALUE;
	struct CUuserObject_st *object = calloc(1, sizeof *object);
	if (!object)
		return CUDA_ERROR_OUT_OF_MEMORY;
	object->magic = OBJECT_MAGIC;
	atomic_init(&object->references, initialRefcount);
	object->destroy = destroy;
	object->pointer = ptr;
	*object_out = object;
	return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
{
	SIM_ENTER(cuUserObjectRetain);
	SIM_TRY(check_object(object, count));
	atomic_fetch_add(&object->references, count);
	return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
	SIM_ENTER(cuUserObjectRelease);
	SIM_TRY(check_object(object, count));
	if (count > atomic_load(&object->references))
		return CUDA_ERROR_INVALID_VALUE;
	unref_object(object, count);
	return CUDA_SUCCESS;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)
{
	SIM_ENTER(cuGraphRetainUserObject);
	SIM_TRY(sim_graph_get(graph));
	SIM_TRY(check_object(object, count));
	if (flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_user_reference *reference = malloc(sizeof *reference);
	if (!reference)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!(flags & CU_GRAPH_USER_OBJECT_MOVE)) // with this flag, the graph takes over the caller's references
		atomic_fetch_add(&object->references, count);
	*reference = (struct sim_user_reference){object, count, graph->objects};
	graph->objects = reference;
	return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
	unsigned found = 0;

	SIM_ENTER(cuGraphReleaseUserObject);
	SIM_TRY(sim_graph_get(graph));
	SIM_TRY(check_object(object, count));
	for (const struct sim_user_reference *one = graph->objects; one; one = one->next)
		found += one->object == object ? one->count : 0;
	if (count > found)
		return CUDA_ERROR_INVALID_VALUE;
	unsigned left = count;
	for (struct sim_user_reference **link = &graph->objects; left && *link;) {
		struct sim_user_reference *one = *link;
		if (one->object != object) {
			link = &one->next;
			continue;
		}
		unsigned part = one->count < left ? one->count : left;
		left -= part;
		one->count -= part;
		if (!one->count) {
			*link = one->next;
			free(one);
		}
	}
	unref_object(object, count);
	return CUDA_SUCCESS;
}
