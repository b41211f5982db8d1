// What the nodes of a graph keep alive: references that go with the graph and with every executable made
// from it. The driver holds them as user objects.
//
// It may drop them on a thread of its own where nothing of CUDA may be called: they are queued then,
// and released by core_graph_keep_drain() on a thread of the program. Any thread.
#pragma once
#include <stddef.h>

#include "core/core.h"
#include "core/object.h"

enum { CORE_GRAPH_KEEPS = 2 };

struct core_graph_keep {
	struct core_graph_keep *next;		       // in the queue
	struct core_object *objects[CORE_GRAPH_KEEPS]; // NULL: none
	CUuserObject user_object;
	max_align_t data[]; // a callback's copy
};

// Retains the objects, which may be NULL, and copies `size` bytes. NULL: no memory.
struct core_graph_keep *core_graph_keep_create(struct core_object *first, struct core_object *second, const void *data,
					       size_t size);
// One that the driver does not hold. NULL is fine.
void core_graph_keep_destroy(struct core_graph_keep *keep);
// Hands it to the graph; on failure it is gone. NULL is fine.
CUresult core_graph_keep_attach(struct core_graph_keep *keep, CUgraph graph);
// Takes it back from the graph; executables made meanwhile go on holding it. NULL is fine.
void core_graph_keep_detach(struct core_graph_keep *keep, CUgraph graph);
// Releases what the driver dropped.
void core_graph_keep_drain(void);
