// The executable graph object. One thread at a time for each.
#pragma once
#include "core/context.h"
#include "core/graph_definition.h"
#include "virgate/graph.h"

// The references that the new parameters of one node need. The driver has no user object for them.
struct core_graph_change {
	struct core_graph_change *next;
	CUgraphNode node;
	struct core_graph_keep *keep;
};

struct vg_graph {
	struct core_object object;
	struct vg_context *context; // owns a reference
	CUgraphExec handle;
	struct core_graph_change *changes;
	// Of earlier changes: needed by launches that were queued before them, until these have run.
	struct core_graph_change *outdated;
	CUevent launched; // the last launch; NULL until a node is changed
};

// Sets new parameters of one node of the executable. Consumes spec->keep, also on failure.
enum vg_status core_graph_exec_set(struct vg_graph *graph, struct vg_graph_node *node, struct core_graph_spec *spec);
// Records the event that says when the launch just queued has run. Only for graphs whose nodes were changed.
void core_graph_mark_launch(struct vg_graph *graph, CUstream stream);
// Waits for the last launch if it may use what changes need, and releases that.
void core_graph_changes_finish(struct vg_graph *graph);
