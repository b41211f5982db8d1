#include "core/graph.h"

#include <stdlib.h>

#include "core/graph_builder.h"
#include "core/stream.h"

static enum vg_status close_graph(struct core_object *object)
{
	struct vg_graph *graph = (struct vg_graph *)object;
	CORE_SCOPE scope = {false};

	core_enter(&scope, graph->context->handle); // on failure, destroy the graph without a current context
	CUresult r = core_driver->cuGraphExecDestroy(graph->handle);
	core_graph_changes_finish(graph);
	core_graph_keep_drain();
	return r ? core_driver_failed(r, "cuGraphExecDestroy", "%s", "") : VG_OK;
}

static void free_graph(struct core_object *object)
{
	struct vg_graph *graph = (struct vg_graph *)object;

	core_object_release(&graph->context->object);
	free(graph);
}

static const struct core_class graph_class = {"graph", close_graph, free_graph};

static const char *explain_result(CUgraphInstantiateResult result)
{
	switch (result) {
	case CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE:
		return "the graph has an invalid structure, such as cycles";
	case CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED:
		return "for launches from the device, the graph holds an unsupported operation";
	case CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED:
		return "for launches from the device, all nodes must be of one context";
	case CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED:
		return "one or more conditions have no conditional node: add one for each, or do not create them";
	default:
		return "";
	}
}

static enum vg_status instantiate(struct vg_graph_definition *definition, const struct vg_graph_options *options,
				  struct vg_graph **ret_graph)
{
	struct vg_graph_options o;
	CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};

	CORE_TRY(vg_options_copy(&o, sizeof o, options));
	if (o.upload_stream)
		CORE_USABLE(o.upload_stream, "upload_stream");
	params.flags = (o.auto_free_on_launch ? CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH : 0) |
		       (o.device_launch ? CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH : 0) |
		       (o.use_node_priority ? CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY : 0) |
		       (o.upload_stream ? CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD : 0);
	params.hUploadStream = o.upload_stream ? o.upload_stream->handle : NULL;
	core_graph_keep_drain();
	CORE_ENTER(scope, definition->context->handle);
	struct vg_graph *graph = calloc(1, sizeof *graph);
	if (!graph)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a graph");
	CUresult r = core_driver->cuGraphInstantiateWithParams(&graph->handle, definition->handle, &params);
	if (r) {
		free(graph);
		return core_driver_failed(r, "cuGraphInstantiate", "%s", explain_result(params.result_out));
	}
	core_object_init(&graph->object, &graph_class);
	core_object_retain(&definition->context->object);
	graph->context = definition->context;
	*ret_graph = graph;
	return VG_OK;
}

enum vg_status vg_graph_definition_instantiate(struct vg_graph_definition *definition,
					       const struct vg_graph_options *options, struct vg_graph **ret_graph)
{
	VG_ENTRY();
	CORE_TRY(core_graph_check(definition, "definition"));
	CORE_NEEDED(ret_graph);
	if (definition != definition->root)
		return vg_fail(VG_INVALID, 0, "the graph definition is part of another: instantiate that");
	if (definition->captures)
		return vg_fail(VG_STATE, 0, "the graph is still being captured by %u builder%s: end %s first",
			       definition->captures, definition->captures == 1 ? "" : "s",
			       definition->captures == 1 ? "it" : "them");
	return instantiate(definition, options, ret_graph);
}

enum vg_status vg_graph_close(struct vg_graph *graph)
{
	VG_ENTRY();
	CORE_NEEDED(graph);
	return core_object_close(&graph->object);
}

void vg_graph_destroy(struct vg_graph *graph)
{
	core_object_release(graph ? &graph->object : NULL);
}

enum vg_status vg_graph_launch(struct vg_graph *graph, struct vg_stream *stream)
{
	VG_ENTRY();
	CORE_USABLE(graph, "graph");
	CORE_USABLE(stream, "stream");
	CORE_ENTER(scope, stream->context->handle);
	if (__builtin_expect(stream->builder != NULL,
			     0)) // check here, because a failed driver call would invalidate the stream's capture
		return vg_fail(
			VG_STATE, 0,
			"a graph builder is capturing the stream, and launches of graphs are not captured: embed "
			"the graph's definition");
	CORE_CALL(cuGraphLaunch, graph->handle, stream->handle);
	if (__builtin_expect(graph->launched != NULL, 0))
		core_graph_mark_launch(graph, stream->handle);
	return VG_OK;
}

enum vg_status vg_graph_upload(struct vg_graph *graph, struct vg_stream *stream)
{
	VG_ENTRY();
	CORE_USABLE(graph, "graph");
	CORE_USABLE(stream, "stream");
	CORE_ENTER(scope, stream->context->handle);
	CORE_CALL(cuGraphUpload, graph->handle, stream->handle);
	return VG_OK;
}

struct CUgraphExec_st *vg_graph_handle(const struct vg_graph *graph)
{
	return graph && !graph->object.closed ? graph->handle : NULL;
}
