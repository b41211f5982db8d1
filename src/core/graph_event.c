// Adds event record and event wait nodes and changes them.
#include "core/event.h"
#include "core/graph.h"

static enum vg_status describe_event(CUgraphNodeType type, struct vg_event *event, struct core_graph_spec *ret_spec)
{
	CORE_USABLE(event, "event");
	*ret_spec = (struct core_graph_spec){.native.type = type};
	if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
		ret_spec->native.eventRecord.event = event->handle;
	else
		ret_spec->native.eventWait.event = event->handle;
	ret_spec->keep = core_graph_keep_create(&event->object, NULL, NULL, 0);
	return ret_spec->keep ? VG_OK : vg_fail(VG_NO_MEMORY, 0, "no memory for a graph node");
}

static enum vg_status add_event_node(struct vg_graph_definition *definition, struct vg_graph_node *const *after,
				     size_t count, CUgraphNodeType type, struct vg_event *event,
				     struct vg_graph_node **ret_node)
{
	struct core_graph_spec spec;

	CORE_TRY(describe_event(type, event, &spec));
	return core_graph_add(definition, after, count, &spec, ret_node);
}

enum vg_status vg_graph_add_event_record(struct vg_graph_definition *definition, struct vg_graph_node *const *after,
					 size_t count, struct vg_event *event, struct vg_graph_node **ret_node)
{
	VG_ENTRY();
	return add_event_node(definition, after, count, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, ret_node);
}

enum vg_status vg_graph_add_event_wait(struct vg_graph_definition *definition, struct vg_graph_node *const *after,
				       size_t count, struct vg_event *event, struct vg_graph_node **ret_node)
{
	VG_ENTRY();
	return add_event_node(definition, after, count, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, ret_node);
}

// Checks that a node is an event record or an event wait node.
static enum vg_status check_event_node(const struct vg_graph_node *node)
{
	bool waits = node && node->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT;

	return core_graph_node_check_type(node,
					  waits ? CU_GRAPH_NODE_TYPE_WAIT_EVENT : CU_GRAPH_NODE_TYPE_EVENT_RECORD);
}

enum vg_status vg_graph_node_set_event(struct vg_graph_node *node, struct vg_event *event)
{
	VG_ENTRY();
	struct core_graph_spec spec;

	CORE_TRY(check_event_node(node));
	CORE_TRY(describe_event(node->type, event, &spec));
	return core_graph_node_set(node, &spec);
}

enum vg_status vg_graph_set_event(struct vg_graph *graph, struct vg_graph_node *node, struct vg_event *event)
{
	VG_ENTRY();
	struct core_graph_spec spec;

	CORE_USABLE(graph, "graph");
	CORE_TRY(check_event_node(node));
	CORE_TRY(describe_event(node->type, event, &spec));
	return core_graph_exec_set(graph, node, &spec);
}

enum vg_status vg_graph_node_get_event(const struct vg_graph_node *node, struct vg_event **ret_event,
				       struct CUevent_st **ret_handle)
{
	VG_ENTRY();
	CUevent handle;

	CORE_TRY(check_event_node(node));
	if (node->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
		CORE_CALL(cuGraphEventRecordNodeGetEvent, node->handle, &handle);
	else
		CORE_CALL(cuGraphEventWaitNodeGetEvent, node->handle, &handle);
	if (ret_event)
		*ret_event = node->keep ? (struct vg_event *)node->keep->objects[0] : NULL;
	if (ret_handle)
		*ret_handle = handle;
	return VG_OK;
}
