// An executable graph, as this room sees it.
#pragma once
#include "core/context.h"
#include "core/graph_definition.h"
#include "virgate/graph.h"

struct vg_graph {
	struct core_object object;
	struct vg_context *context; // held
	CUgraphExec handle;
};

enum vg_status core_graph_instantiate(struct vg_graph_definition *definition, const struct vg_graph_options *options,
				      const char *function, struct vg_graph **ret_graph);
