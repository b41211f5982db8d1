// Adds host nodes, which call a function of the program, and changes them.
#include "core/graph.h"

enum vg_status core_graph_describe_host(void (*callback)(void *data), const void *data, size_t size,
					struct core_graph_spec *ret_spec)
{
	if (!callback)
		return vg_fail(VG_INVALID, 0, "the callback is NULL");
	if (size && !data)
		return vg_fail(VG_INVALID, 0, "data is NULL, and its size is %zu", size);
	*ret_spec = (struct core_graph_spec){.native.type = CU_GRAPH_NODE_TYPE_HOST};
	ret_spec->native.host.fn = callback;
	ret_spec->native.host.userData = (void *)data;
	if (!size)
		return VG_OK;
	ret_spec->keep = core_graph_keep_create(NULL, NULL, data, size);
	if (!ret_spec->keep)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a copy of %zu bytes", size);
	ret_spec->native.host.userData = ret_spec->keep->data;
	return VG_OK;
}

enum vg_status vg_graph_add_callback(struct vg_graph_definition *definition, struct vg_graph_node *const *after,
				     size_t count, void (*function)(void *data), const void *data, size_t size,
				     struct vg_graph_node **ret_node)
{
	VG_ENTRY();
	struct core_graph_spec spec;

	CORE_TRY(core_graph_describe_host(function, data, size, &spec));
	return core_graph_add(definition, after, count, &spec, ret_node);
}

enum vg_status vg_graph_node_set_callback(struct vg_graph_node *node, void (*function)(void *data), const void *data,
					  size_t size)
{
	VG_ENTRY();
	struct core_graph_spec spec;

	CORE_TRY(core_graph_node_check_type(node, CU_GRAPH_NODE_TYPE_HOST));
	CORE_TRY(core_graph_describe_host(function, data, size, &spec));
	return core_graph_node_set(node, &spec);
}

enum vg_status vg_graph_set_callback(struct vg_graph *graph, struct vg_graph_node *node, void (*function)(void *data),
				     const void *data, size_t size)
{
	VG_ENTRY();
	struct core_graph_spec spec;

	CORE_USABLE(graph, "graph");
	CORE_TRY(core_graph_node_check_type(node, CU_GRAPH_NODE_TYPE_HOST));
	CORE_TRY(core_graph_describe_host(function, data, size, &spec));
	return core_graph_exec_set(graph, node, &spec);
}

enum vg_status vg_graph_node_get_callback(const struct vg_graph_node *node, void (**ret_function)(void *data),
					  void **ret_data)
{
	VG_ENTRY();
	CUDA_HOST_NODE_PARAMS_v1 params;

	CORE_TRY(core_graph_node_check_type(node, CU_GRAPH_NODE_TYPE_HOST));
	CORE_CALL(cuGraphHostNodeGetParams, node->handle, &params);
	if (ret_function)
		*ret_function = params.fn;
	if (ret_data)
		*ret_data = params.userData;
	return VG_OK;
}
