// References that keep objects alive as long as a graph, or an executable made from it, needs them. The driver owns
// them as user objects.
//
// The driver may drop a user object on a thread of its own, where no CUDA function may be called. The references are
// queued then, and core_graph_keep_drain() releases them on a thread of the program. Any thread.
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

// Creates references to the objects, which may be NULL, and copies `size` bytes. NULL: no memory.
struct core_graph_keep *core_graph_keep_create(struct core_object *first, struct core_object *second, const void *data,
					       size_t size);
// Releases references that the driver does not own. Accepts NULL.
void core_graph_keep_destroy(struct core_graph_keep *keep);
// Gives the references to the graph; on failure they are released. Accepts NULL.
CUresult core_graph_keep_attach(struct core_graph_keep *keep, CUgraph graph);
// Drops the graph's references; executables made meanwhile keep theirs. Accepts NULL.
void core_graph_keep_detach(struct core_graph_keep *keep, CUgraph graph);
// Releases the references that the driver has dropped.
void core_graph_keep_drain(void);
