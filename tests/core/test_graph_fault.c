// Tests failures of every driver call that creates graphs.
#include "core_fault.h"
#include "graph_test.h"

static struct vg_context *context;
static struct vg_stream *stream;
static struct vg_graph_definition *definition, *child;
static struct vg_graph_node *made_node;
static struct vg_graph *graph;
static struct vg_graph_builder *builder, *made_builders[3];
static struct vg_event *event;
static struct vg_kernel *kernel;
static struct vg_object_code *code;

static void clean(void)
{
	vg_graph_destroy(graph);
	for (int i = 0; i < 3; i++)
		if (made_builders[i] != builder)
			vg_graph_builder_destroy(made_builders[i]);
	vg_graph_builder_destroy(builder);
	vg_graph_definition_destroy(child);
	vg_graph_definition_destroy(definition);
	vg_event_destroy(event);
	vg_kernel_destroy(kernel);
	vg_object_code_destroy(code);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
}

static enum vg_status open_context(void)
{
	struct vg_device *device;

	TRY(vg_device_get(0, &device));
	return vg_context_primary(device, &context);
}

static enum vg_status make_definition(void)
{
	return vg_graph_definition_create(context, &definition);
}

static enum vg_status open_definition(void)
{
	TRY(open_context());
	return make_definition();
}

// Checks that a call that failed added nothing to the graph. Returns the call's status.
static enum vg_status check_unchanged(enum vg_status status)
{
	struct vg_error error = *vg_last_error();
	size_t count;

	if (status == VG_OK)
		return status;
	CHECK_INT(error.code, CUDA_ERROR_OPERATING_SYSTEM);
	OK(vg_graph_definition_nodes(definition, NULL, 0, &count));
	CHECK_INT(count, 0);
	CHECK(made_node == NULL);
	return status;
}

static enum vg_status open_event(void)
{
	TRY(open_definition());
	return vg_event_create(context, NULL, &event);
}

static enum vg_status add_event(void)
{
	return check_unchanged(vg_graph_add_event_record(definition, NULL, 0, event, &made_node));
}

static enum vg_status open_kernel(void)
{
	size_t size;

	TRY(open_definition());
	char *data = read_built_file("graph_kernels.ptx", &size);
	enum vg_status status = vg_object_code_create(VG_CODE_PTX, data, size, NULL, &code);
	free(data);
	return status ? status : vg_object_code_kernel(code, "add_one", &kernel);
}

static enum vg_status add_stubborn_kernel(void)
{
	vg_address nowhere = 4096;

	return vg_graph_add_kernel(definition, NULL, 0,
				   KERNEL(kernel, CONFIG(1, 1, .cooperative = 1), VG_ARGUMENT(nowhere)), &made_node);
}

static enum vg_status add_kernel(void)
{
	return check_unchanged(add_stubborn_kernel());
}

static enum vg_status add_switch(void)
{
	struct vg_graph_condition condition;

	TRY(check_unchanged(vg_graph_definition_create_condition(definition, NULL, &condition)));
	return check_unchanged(vg_graph_add_switch(definition, NULL, 0, condition, 3, &made_node));
}

static enum vg_status open_child(void)
{
	TRY(open_event());
	TRY(vg_graph_definition_create(context, &child));
	return vg_graph_add_event_record(child, NULL, 0, event, NULL);
}

static enum vg_status add_child(void)
{
	return check_unchanged(vg_graph_add_child(definition, NULL, 0, child, &made_node));
}

static enum vg_status instantiate(void)
{
	return vg_graph_definition_instantiate(child, NULL, &graph);
}

static enum vg_status open_graph(void)
{
	TRY(open_child());
	return instantiate();
}

static enum vg_status change_node(void)
{
	struct vg_graph_node *node;
	size_t count;

	OK(vg_graph_definition_nodes(child, &node, 1, &count));
	return vg_graph_set_event(graph, node, event);
}

TEST(definitions_and_nodes)
{
	FAULT_EVERY_CALL(&((struct fault_subject){open_context, make_definition, clean}), "cuCtxPushCurrent_v2",
			 "cuGraphCreate");
	FAULT_EVERY_CALL(&((struct fault_subject){open_event, add_event, clean}), "cuCtxPushCurrent_v2",
			 "cuUserObjectCreate", "cuGraphRetainUserObject", "cuGraphAddNode_v2");
	FAULT_EVERY_CALL(&((struct fault_subject){open_kernel, add_kernel, clean}), "cuUserObjectCreate",
			 "cuGraphRetainUserObject", "cuGraphAddNode_v2", "cuGraphKernelNodeSetAttribute");
	// If the cleanup after a failure also fails, the first error is reported.
	FAULT_EVERY_CALL(&((struct fault_subject){open_kernel, add_stubborn_kernel, clean}),
			 "cuGraphDestroyNode=CUDA_ERROR_INVALID_VALUE;cuGraphKernelNodeSetAttribute");
	FAULT_EVERY_CALL(&((struct fault_subject){open_definition, add_switch, clean}),
			 "cuGraphConditionalHandleCreate", "cuGraphAddNode_v2");
	FAULT_EVERY_CALL(&((struct fault_subject){open_child, add_child, clean}), "cuGraphAddNode_v2");
}

static struct vg_graph_node *nodes[3];

static enum vg_status open_edge(void)
{
	TRY(open_definition());
	TRY(vg_graph_add_empty(definition, NULL, 0, &nodes[0]));
	TRY(vg_graph_add_empty(definition, NULL, 0, &nodes[1]));
	return vg_graph_add_empty(definition, &nodes[0], 1, &nodes[2]);
}

// Replaces the edge of a node. On success the node has the new edge, on failure the old one.
static enum vg_status assign(void)
{
	struct vg_graph_node *before;
	size_t count;

	enum vg_status status = vg_graph_node_set_predecessors(nodes[2], &nodes[1], 1);
	struct vg_error error = *vg_last_error();
	OK(vg_graph_node_predecessors(nodes[2], &before, 1, &count));
	CHECK_INT(count, 1);
	CHECK(before == nodes[status ? 0 : 1]);
	if (status)
		CHECK_INT(error.code, CUDA_ERROR_OPERATING_SYSTEM);
	return status;
}

TEST(edges)
{
	FAULT_EVERY_CALL(&((struct fault_subject){open_edge, assign, clean}), "cuGraphAddDependencies_v2",
			 "cuGraphRemoveDependencies_v2");
}

TEST(executables)
{
	FAULT_EVERY_CALL(&((struct fault_subject){open_child, instantiate, clean}), "cuCtxPushCurrent_v2",
			 "cuGraphInstantiateWithParams");
	FAULT_EVERY_CALL(&((struct fault_subject){open_graph, change_node, clean}), "cuEventCreate",
			 "cuGraphExecNodeSetParams");
}

// ---- builders -----------------------------------------------------------------------------

static enum vg_status make_builder(void)
{
	return vg_graph_builder_create(context, &builder);
}

static enum vg_status open_builder(void)
{
	TRY(open_context());
	return make_builder();
}

static enum vg_status begin(void)
{
	return vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_RELAXED);
}

static enum vg_status open_capture(void)
{
	TRY(open_builder());
	return begin();
}

// Checks that after a failure the capture is unchanged and can end.
static enum vg_status check_still_building(enum vg_status status)
{
	struct vg_graph_definition *captured;
	size_t count;

	if (status == VG_OK)
		return status;
	struct vg_error error = *vg_last_error();
	CHECK_INT(error.code, CUDA_ERROR_OPERATING_SYSTEM);
	for (int i = 0; i < 3; i++)
		CHECK(made_builders[i] == NULL);
	OK(vg_graph_builder_end(builder));
	OK(vg_graph_builder_definition(builder, &captured));
	OK(vg_graph_definition_nodes(captured, NULL, 0, &count));
	CHECK_INT(count, 0);
	vg_graph_definition_destroy(captured);
	return status;
}

static enum vg_status split(void)
{
	return check_still_building(vg_graph_builder_split(builder, 3, made_builders));
}

static enum vg_status open_split(void)
{
	TRY(open_capture());
	return vg_graph_builder_split(builder, 3, made_builders);
}

static enum vg_status join(void)
{
	enum vg_status status = vg_graph_builder_join(made_builders, 3, NULL);

	if (status) {
		// Checks that after a failure all builders are unchanged, and can be joined.
		struct vg_error error = *vg_last_error();
		CHECK_INT(error.code, CUDA_ERROR_OPERATING_SYSTEM);
		OK(vg_graph_builder_join(made_builders, 3, NULL));
		OK(vg_graph_builder_end(builder));
	}
	return status;
}

static void do_nothing(void *data)
{
}

static enum vg_status callback(void)
{
	return check_still_building(vg_graph_builder_callback(builder, do_nothing, "text", 5));
}

static enum vg_status stubborn_callback(void)
{
	return vg_graph_builder_callback(builder, do_nothing, "text", 5);
}

static enum vg_status while_loop(void)
{
	struct vg_graph_condition condition;

	TRY(check_still_building(vg_graph_builder_create_condition(builder, NULL, &condition)));
	return check_still_building(vg_graph_builder_switch(builder, condition, 3, made_builders));
}

static enum vg_status open_body(void)
{
	struct vg_graph_condition condition;

	TRY(open_capture());
	TRY(vg_graph_builder_create_condition(builder, NULL, &condition));
	return vg_graph_builder_while_loop(builder, condition, &made_builders[0]);
}

static enum vg_status begin_body(void)
{
	return vg_graph_builder_begin(made_builders[0], VG_GRAPH_CAPTURE_RELAXED);
}

static enum vg_status end(void)
{
	return vg_graph_builder_end(builder);
}

static enum vg_status open_ended(void)
{
	TRY(open_capture());
	return end();
}

static enum vg_status complete(void)
{
	return vg_graph_builder_complete(builder, NULL, &graph);
}

TEST(builders)
{
	FAULT_EVERY_CALL(&((struct fault_subject){open_context, make_builder, clean}), "cuStreamCreateWithPriority");
	FAULT_EVERY_CALL(&((struct fault_subject){open_builder, begin, clean}), "cuGraphCreate",
			 "cuStreamBeginCaptureToGraph");
	FAULT_EVERY_CALL(&((struct fault_subject){open_capture, split, clean}), "cuEventCreate", "cuEventRecord",
			 "cuStreamCreateWithPriority", "cuStreamWaitEvent");
	FAULT_EVERY_CALL(&((struct fault_subject){open_split, join, clean}), "cuEventCreate", "cuEventRecord",
			 "cuStreamWaitEvent");
	FAULT_EVERY_CALL(&((struct fault_subject){open_capture, end, clean}), "cuStreamEndCapture");
	FAULT_EVERY_CALL(&((struct fault_subject){open_ended, complete, clean}), "cuGraphInstantiateWithParams");
}

TEST(nodes_added_by_builders)
{
	FAULT_EVERY_CALL(&((struct fault_subject){open_capture, callback, clean}), "cuStreamGetCaptureInfo_v3",
			 "cuUserObjectCreate", "cuGraphRetainUserObject", "cuGraphAddNode_v2",
			 "cuStreamUpdateCaptureDependencies_v2");
	FAULT_EVERY_CALL(&((struct fault_subject){open_capture, stubborn_callback, clean}),
			 "cuGraphDestroyNode=CUDA_ERROR_INVALID_VALUE;cuStreamUpdateCaptureDependencies_v2");
	FAULT_EVERY_CALL(&((struct fault_subject){open_capture, while_loop, clean}), "cuGraphConditionalHandleCreate",
			 "cuStreamCreateWithPriority", "cuStreamGetCaptureInfo_v3", "cuGraphAddNode_v2",
			 "cuStreamUpdateCaptureDependencies_v2");
	FAULT_EVERY_CALL(&((struct fault_subject){open_body, begin_body, clean}), "cuStreamBeginCaptureToGraph");
}

static void old_driver(void)
{
	struct vg_device *device;
	vg_address address = 7;

	OK(vg_device_get(0, &device));
	OK(vg_context_primary(device, &context));
	OK(vg_graph_definition_create(context, &definition));
	REFUSED(vg_graph_add_allocation(definition, NULL, 0, ALLOCATION(.bytes = 64, .type = VG_GRAPH_MEMORY_MANAGED),
					&address, NULL),
		VG_UNSUPPORTED, "managed memory of a graph: unsupported: needs driver 13.0, have 12.8");
	CHECK_INT(address, 7);
	OK(vg_graph_add_allocation(definition, NULL, 0, ALLOCATION(.bytes = 64), &address, NULL));
	clean();
}

TEST(managed_memory_needs_a_driver_of_13_0)
{
	if (!getenv("VIRGATE_SIM"))
		SKIP("only the simulated driver has a version to choose");
	pid_t child = fork();
	if (child == 0) {
		setenv("VIRGATE_SIM", "driver=12080", 1);
		old_driver();
		exit(0);
	}
	CHECK_CHILD(child);
}
