// Adds nodes to the graph that a graph builder captures from a stream. Also keeps objects alive that the captured work
// uses.
#include "core/graph.h"
#include "core/graph_builder.h"
#include "core/stream.h"

static enum vg_status append_node(struct vg_graph_builder *builder, struct core_graph_spec *spec,
				  struct vg_graph_node **ret_node)
{
	CUstream stream = builder->stream->handle;
	struct vg_graph_definition *definition = builder->origin->definition;
	CUstreamCaptureStatus status;
	const CUgraphNode *after;
	const CUgraphEdgeData *data;
	struct vg_graph_node *node;
	CUgraph graph;
	size_t count;

	CORE_ENTER(scope, builder->stream->context->handle);
	CUresult r = core_driver->cuStreamGetCaptureInfo_v3(stream, &status, NULL, &graph, &after, &data, &count);
	if (r)
		return core_driver_failed(r, "cuStreamGetCaptureInfo", "%s", "");
	if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return vg_fail(VG_STATE, 0, "the capture was invalidated: close the graph builder");
	enum vg_status added = core_graph_add_native(definition, after, data, count, spec, &node);
	if (added)
		return added;
	CUgraphNode handle = node->handle;
	r = core_driver->cuStreamUpdateCaptureDependencies_v2(stream, &handle, NULL, 1,
							      CU_STREAM_SET_CAPTURE_DEPENDENCIES);
	if (r) {
		added = core_driver_failed(r, "cuStreamUpdateCaptureDependencies", "%s", "");
		core_graph_remove_added(node);
		return added;
	}
	if (ret_node)
		*ret_node = node;
	return VG_OK;
}

enum vg_status core_builder_append(struct vg_graph_builder *builder, struct core_graph_spec *spec,
				   struct vg_graph_node **ret_node)
{
	enum vg_status status = append_node(builder, spec, ret_node);

	core_graph_spec_finish(spec); // frees nothing if a call has consumed the references
	return status;
}

enum vg_status core_builder_keep(struct vg_graph_builder *builder, struct core_object *object)
{
	struct vg_graph_builder *origin = builder->origin;

	// Consecutive launches usually use the same kernel. Keep only one reference for them.
	if (origin->kept == object)
		return VG_OK;
	struct core_graph_keep *keep = core_graph_keep_create(object, NULL, NULL, 0);
	if (!keep)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for the references of a graph");
	CUresult r = core_graph_keep_attach(keep, origin->definition->root->handle);
	if (r)
		return core_driver_failed(r, "cuGraphRetainUserObject", "%s", "");
	origin->kept = object;
	return VG_OK;
}

enum vg_status vg_graph_builder_callback(struct vg_graph_builder *builder, void (*function)(void *data),
					 const void *data, size_t size)
{
	VG_ENTRY();
	struct core_graph_spec spec;

	CORE_TRY(core_builder_check(builder, "is not building"));
	CORE_TRY(core_graph_describe_host(function, data, size, &spec));
	return core_builder_append(builder, &spec, NULL);
}
