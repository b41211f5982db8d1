#include "core/graph_builder.h"

#include <stdlib.h>

#include "core/graph.h"
#include "core/pending.h"
#include "core/stream.h"

static void free_builder(struct core_object *object)
{
	struct vg_graph_builder *builder = (struct vg_graph_builder *)object;

	core_object_release(&builder->stream->object);
	vg_graph_definition_destroy(builder->definition);
	if (builder->origin != builder)
		core_object_release(&builder->origin->object);
	free(builder);
}

static const struct core_class builder_class = {"graph builder", NULL, free_builder};

struct vg_graph_builder *core_builder_new(struct vg_stream *stream, enum vg_status *ret_status)
{
	struct vg_graph_builder *builder = calloc(1, sizeof *builder);

	if (!builder) {
		*ret_status = vg_fail(VG_NO_MEMORY, 0, "no memory for a graph builder");
		return NULL;
	}
	core_object_init(&builder->object, &builder_class);
	core_object_retain(&stream->object);
	builder->stream = stream;
	builder->origin = builder;
	return builder;
}

enum vg_status vg_graph_builder_create(struct vg_context *context, struct vg_graph_builder **ret_builder)
{
	VG_ENTRY();
	struct vg_stream *stream;

	CORE_USABLE(context, "context");
	CORE_NEEDED(ret_builder);
	CORE_TRY(vg_stream_create(context, NULL, &stream));
	enum vg_status status = vg_graph_builder_create_on(stream, ret_builder);
	vg_stream_destroy(stream);
	return status;
}

enum vg_status vg_graph_builder_create_on(struct vg_stream *stream, struct vg_graph_builder **ret_builder)
{
	VG_ENTRY();
	enum vg_status status = VG_OK;

	CORE_USABLE(stream, "stream");
	CORE_NEEDED(ret_builder);
	if (!stream->handle || stream->handle == CU_STREAM_LEGACY)
		return vg_fail(VG_INVALID, 0, "the legacy default stream cannot be captured: create a stream");
	struct vg_graph_builder *builder = core_builder_new(stream, &status);
	if (builder)
		*ret_builder = builder;
	return status;
}

// ---- the capture --------------------------------------------------------------------------------

enum vg_status core_builder_check(const struct vg_graph_builder *builder, const char *needed)
{
	CORE_USABLE(builder, "builder");
	if (builder->origin->state != CORE_BUILDER_BUILDING || builder->joined)
		return vg_fail(VG_STATE, 0, "the graph builder %s", needed);
	return VG_OK;
}

static enum vg_status begin_capture(struct vg_graph_builder *builder, struct vg_graph_definition *definition,
				    enum vg_graph_capture_mode mode)
{
	CORE_ENTER(scope, builder->stream->context->handle);
	core_pending_lock();
	CUresult r = core_driver->cuStreamBeginCaptureToGraph(builder->stream->handle, definition->handle, NULL, NULL,
							      0, (CUstreamCaptureMode)mode);
	core_pending_unlock();
	if (r)
		return core_driver_failed(r, "cuStreamBeginCapture", "%s", "");
	definition->capturing = true;
	definition->root->captures++;
	builder->definition = definition;
	builder->state = CORE_BUILDER_BUILDING;
	builder->mode = mode;
	builder->thread = pthread_self();
	builder->stream->builder = builder;
	return VG_OK;
}

enum vg_status vg_graph_builder_begin(struct vg_graph_builder *builder, enum vg_graph_capture_mode mode)
{
	VG_ENTRY();
	struct vg_graph_definition *definition;

	CORE_USABLE(builder, "builder");
	if ((unsigned)mode > VG_GRAPH_CAPTURE_RELAXED)
		return vg_fail(VG_INVALID, 0, "capture mode %d: there are 0 (global), 1 (thread-local) and 2 (relaxed)",
			       (int)mode);
	if (builder->origin->state == CORE_BUILDER_BUILDING)
		return vg_fail(VG_STATE, 0, "the graph builder is already building");
	if (builder->origin->state != CORE_BUILDER_NEW)
		return vg_fail(VG_STATE, 0, "the graph builder has ended and cannot resume: create another");
	if (builder->stream->builder)
		return vg_fail(VG_STATE, 0, "another graph builder is capturing the stream: end that first");
	if (builder->body) {
		CORE_TRY(core_graph_check(builder->definition, "builder->definition"));
		return begin_capture(builder, builder->definition, mode);
	}
	CORE_TRY(vg_graph_definition_create(builder->stream->context, &definition));
	enum vg_status status = begin_capture(builder, definition, mode);
	if (status)
		vg_graph_definition_destroy(definition);
	return status;
}

enum vg_status vg_graph_builder_is_building(struct vg_graph_builder *builder, int *ret_building)
{
	VG_ENTRY();
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	CORE_USABLE(builder, "builder");
	CORE_NEEDED(ret_building);
	CORE_ENTER(scope, builder->stream->context->handle);
	if (builder->origin->state == CORE_BUILDER_BUILDING && !builder->joined)
		CORE_CALL(cuStreamIsCapturing, builder->stream->handle, &status);
	if (status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
		return vg_fail(
			VG_STATE, 0,
			"the capture was invalidated by something that cannot be part of it: close the graph builder");
	*ret_building = status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
	return VG_OK;
}

// Resets the definition, the streams and the forks (builders split off) after a capture has ended or failed.
static void finish_capture(struct vg_graph_builder *builder, enum core_builder_state state)
{
	builder->state = state;
	builder->stream->builder = NULL;
	builder->definition->capturing = false;
	builder->definition->root->captures--;
	if (state == CORE_BUILDER_FAILED)
		core_graph_mark_lost(builder->definition);
	for (struct vg_graph_builder *fork = builder->forks, *next; fork; fork = next) {
		next = fork->next_fork;
		fork->stream->builder = NULL;
		core_object_release(&fork->object);
	}
	builder->forks = NULL;
	builder->unjoined = 0;
}

static CUresult end_capture(struct vg_graph_builder *builder)
{
	CUstreamCaptureStatus status;
	CUgraph graph;
	CUresult r = core_driver->cuStreamEndCapture(builder->stream->handle, &graph);

	// After some failures the capture continues. Then the thread that began the capture can end it.
	if (r == CUDA_SUCCESS || core_driver->cuStreamIsCapturing(builder->stream->handle, &status) ||
	    status == CU_STREAM_CAPTURE_STATUS_NONE)
		finish_capture(builder, r ? CORE_BUILDER_FAILED : CORE_BUILDER_ENDED);
	return r;
}

enum vg_status vg_graph_builder_end(struct vg_graph_builder *builder)
{
	VG_ENTRY();
	CORE_TRY(core_builder_check(builder, "is not building"));
	if (builder->origin != builder)
		return vg_fail(VG_STATE, 0, "the graph builder was split off: join it, and end the one that began");
	if (builder->unjoined)
		return vg_fail(VG_STATE, 0, "%u graph builder%s split off %s not been joined", builder->unjoined,
			       builder->unjoined == 1 ? "" : "s", builder->unjoined == 1 ? "has" : "have");
	if (builder->mode != VG_GRAPH_CAPTURE_RELAXED && !pthread_equal(builder->thread, pthread_self()))
		return vg_fail(VG_STATE, 0,
			       "another thread began the capture, whose mode is not relaxed: end it there");
	CORE_ENTER(scope, builder->stream->context->handle);
	CUresult r = end_capture(builder);
	if (r)
		return core_driver_failed(r, "cuStreamEndCapture", "%s", "");
	// The capture of this graph succeeded. But the driver destroys the body of a conditional node if the capture
	// into that body fails.
	enum vg_status status = core_graph_check(builder->definition, "");
	if (status)
		builder->state = CORE_BUILDER_FAILED;
	return status;
}

// Removes all nodes of a discarded capture from the body of a conditional node. Does not destroy the body, because the
// driver destroys it together with the conditional node.
static enum vg_status remove_nodes(struct vg_graph_definition *body)
{
	size_t count;

	CORE_TRY(vg_graph_definition_nodes(body, NULL, 0, &count));
	if (!count)
		return VG_OK;
	struct vg_graph_node **nodes = calloc(count, sizeof *nodes);
	if (!nodes)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of %zu nodes", count);
	enum vg_status status = vg_graph_definition_nodes(body, nodes, count, &count);
	for (size_t i = 0; i < count && status == VG_OK; i++)
		status = vg_graph_node_remove(nodes[i]);
	free(nodes);
	return status;
}

static enum vg_status discard_capture(struct vg_graph_builder *builder)
{
	CORE_SCOPE scope = {false};

	core_enter(&scope, builder->stream->context->handle); // on failure, continue without a current context
	CUresult r = end_capture(builder);
	if (builder->state == CORE_BUILDER_BUILDING)
		return core_driver_failed(r, "cuStreamEndCapture", "%s", "");
	builder->state = CORE_BUILDER_FAILED;
	if (!builder->body || !vg_graph_definition_handle(builder->definition))
		return VG_OK;
	return remove_nodes(builder->definition);
}

enum vg_status vg_graph_builder_close(struct vg_graph_builder *builder)
{
	VG_ENTRY();
	CORE_NEEDED(builder);
	if (atomic_load(&builder->object.closed))
		return VG_OK;
	if (builder->origin == builder && builder->state == CORE_BUILDER_BUILDING)
		CORE_TRY(discard_capture(builder));
	else if (builder->origin != builder && !builder->joined && builder->origin->state == CORE_BUILDER_BUILDING)
		// Closing a builder that was not joined is no error here. When the capture ends, the driver reports
		// that the work was not joined.
		builder->origin->unjoined--;
	return core_object_close(&builder->object);
}

void vg_graph_builder_destroy(struct vg_graph_builder *builder)
{
	struct vg_kept_error kept;

	if (!builder)
		return;
	vg_error_keep(&kept);
	vg_graph_builder_close(builder);
	vg_error_restore(&kept);
	if (builder->origin == builder && builder->state == CORE_BUILDER_BUILDING)
		// This thread cannot end the capture, because another thread began it. Destroying the stream ends the
		// capture.
		finish_capture(builder, CORE_BUILDER_FAILED);
	core_object_release(&builder->object);
}

// ---- results ------------------------------------------------------------------------------------

enum vg_status vg_graph_builder_complete(struct vg_graph_builder *builder, const struct vg_graph_options *options,
					 struct vg_graph **ret_graph)
{
	VG_ENTRY();
	CORE_USABLE(builder, "builder");
	CORE_NEEDED(ret_graph);
	if (builder->origin != builder || builder->body)
		return vg_fail(VG_STATE, 0, "the graph builder fills a part of a graph: complete the one that began");
	if (builder->state == CORE_BUILDER_FAILED)
		return vg_fail(VG_STATE, 0, "the capture was invalidated, and there is no graph");
	if (builder->state != CORE_BUILDER_ENDED)
		return vg_fail(VG_STATE, 0, "the graph builder has not finished building: end it first");
	return vg_graph_definition_instantiate(builder->definition, options, ret_graph);
}

enum vg_status vg_graph_builder_definition(struct vg_graph_builder *builder,
					   struct vg_graph_definition **ret_definition)
{
	VG_ENTRY();
	CORE_USABLE(builder, "builder");
	CORE_NEEDED(ret_definition);
	if (builder->origin != builder)
		return vg_fail(VG_STATE, 0, "the graph builder was split off: ask the one that began");
	if (builder->state == CORE_BUILDER_BUILDING)
		return vg_fail(VG_STATE, 0, "the graph builder is still building: end it first");
	if (builder->state == CORE_BUILDER_FAILED)
		return vg_fail(VG_STATE, 0, "the capture was invalidated, and there is no graph");
	if (!builder->definition)
		return vg_fail(VG_STATE, 0, "the graph builder has not begun: there is no graph yet");
	core_object_retain(&builder->definition->root->object);
	*ret_definition = builder->definition;
	return VG_OK;
}

enum vg_status vg_graph_builder_dot(struct vg_graph_builder *builder, const char *path,
				    const struct vg_graph_dot_options *options)
{
	VG_ENTRY();
	CORE_USABLE(builder, "builder");
	if (builder->origin->state != CORE_BUILDER_ENDED)
		return vg_fail(VG_STATE, 0, "the graph builder has not finished building: end it first");
	return vg_graph_definition_dot(builder->origin->definition, path, options);
}

struct vg_stream *vg_graph_builder_stream(const struct vg_graph_builder *builder)
{
	return builder && !builder->object.closed ? builder->stream : NULL;
}
