// An executable graph, as this room sees it.
#pragma once
#include "core/context.h"
#include "core/graph_definition.h"
#include "virgate/graph.h"

// What one node was changed to needs, which the driver's own references know nothing of.
struct core_graph_change {
	struct core_graph_change *next;
	CUgraphNode node;
	struct core_graph_keep *keep;
};

struct vg_graph {
	struct core_object object;
	struct vg_context *context; // held
	CUgraphExec handle;
	struct core_graph_change *changes;
	// What earlier changes needed, until the launches that were queued before have run.
	struct core_graph_change *outdated;
	CUevent launched; // the last launch; NULL until a node is changed
};

// New parameters for one node of the executable. Takes spec->keep, also on failure.
enum vg_status core_graph_exec_set(struct vg_graph *graph, struct vg_graph_node *node, struct core_graph_spec *spec);
// Marks a launch just queued, where nodes were changed.
void core_graph_launched(struct vg_graph *graph, CUstream stream);
// Waits for the last launch if it may use what changes need, and lets go of that.
void core_graph_changes_finish(struct vg_graph *graph);
