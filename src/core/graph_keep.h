// Keeps references to objects as long as a graph, or an executable graph made from it, needs the objects. The driver
// owns the references as user objects.
//
// The driver may release a user object on its own thread, where no CUDA function may be called. The references are then
// queued, and core_graph_keep_drain() releases them on a thread of the program. Any thread.
#pragma once
#include <stddef.h>

#include "core/core.h"
#include "core/object.h"

enum { CORE_GRAPH_KEEPS = 2 };

struct core_graph_keep {
	struct core_graph_keep *next;		       // in the queue
	struct core_object *objects[CORE_GRAPH_KEEPS]; // NULL: none
	CUuserObject user_object;
	max_align_t data[]; // copy of a callback's data
};

// Retains the objects, which may be NULL, and copies `size` bytes. Returns NULL if out of memory.
struct core_graph_keep *core_graph_keep_create(struct core_object *first, struct core_object *second, const void *data,
					       size_t size);
// Releases references that the driver does not own yet. Accepts NULL.
void core_graph_keep_destroy(struct core_graph_keep *keep);
// Gives the references to the graph. On failure, releases them. Accepts NULL.
CUresult core_graph_keep_attach(struct core_graph_keep *keep, CUgraph graph);
// Releases the graph's references. Executable graphs that were made meanwhile keep theirs. Accepts NULL.
void core_graph_keep_detach(struct core_graph_keep *keep, CUgraph graph);
// Releases the references in the queue.
void core_graph_keep_drain(void);
