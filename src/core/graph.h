// Declares the executable graph object. Only one thread at a time may use an object.
#pragma once
#include "core/context.h"
#include "core/graph_definition.h"
#include "virgate/graph.h"

// References to the objects that the new parameters of one changed node use. This library owns the references itself,
// because the driver attaches user objects to graph definitions only, not to executable graphs.
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
	// References of earlier changes. They are kept until all launches that were queued before the last change have
	// ended.
	struct core_graph_change *outdated;
	CUevent launched; // recorded after the last launch; NULL until a node is changed
};

// Sets new parameters of one node of the executable graph. Consumes spec->keep, also on failure.
enum vg_status core_graph_exec_set(struct vg_graph *graph, struct vg_graph_node *node, struct core_graph_spec *spec);
// Records an event after the launch that was just queued, so that core_graph_changes_finish() can wait for the launch.
// Needed only for graphs with changed nodes.
void core_graph_mark_launch(struct vg_graph *graph, CUstream stream);
// Waits for the last launch if it may use the references of earlier changes, and releases these.
void core_graph_changes_finish(struct vg_graph *graph);
