// Tests graphs: creation, instantiation, updates, launches, conditions, user objects.
#include "program.h"

static CUstream stream;

static void start(void)
{
	load_kernels();
	if (!stream)
		CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static CUDA_KERNEL_NODE_PARAMS node_params(const char *name, unsigned threads, void **arguments)
{
	return (CUDA_KERNEL_NODE_PARAMS){.func = kernel(name),
					 .gridDimX = 1,
					 .gridDimY = 1,
					 .gridDimZ = 1,
					 .blockDimX = threads,
					 .blockDimY = 1,
					 .blockDimZ = 1,
					 .kernelParams = arguments};
}

static CUgraphNode add_node(CUgraph graph, const CUgraphNode *after, size_t count, CUdeviceptr *data, int *n, int *by)
{
	CUgraphNode node;
	void *arguments[] = {data, n, by};
	CUDA_KERNEL_NODE_PARAMS params = node_params("add", 32, arguments);
	CU(cuGraphAddKernelNode_v2(&node, graph, after, count, &params));
	return node;
}

static void launch(CUgraphExec exec)
{
	CU(cuGraphLaunch(exec, stream));
	CU(cuStreamSynchronize(stream));
}

static void count_call(void *counter)
{
	++*(int *)counter;
}

TEST(every_kind_of_node_runs)
{
	start();
	CUgraph graph, child;
	CUgraphExec exec;
	CUgraphNode set, first, copy, host, nested, empty, record, wait;
	CUdeviceptr data = words(32);
	CUevent event;
	int n = 32, one = 1, ten = 10, calls = 0, result[32] = {0};

	CU(cuEventCreate(&event, 0));
	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphCreate(&child, 0));
	add_node(child, NULL, 0, &data, &n, &ten);
	CUDA_MEMSET_NODE_PARAMS_v1 fill = {.dst = data, .value = 5, .elementSize = 4, .width = 32, .height = 1};
	CU(cuGraphAddMemsetNode(&set, graph, NULL, 0, &fill, NULL));
	first = add_node(graph, &set, 1, &data, &n, &one);
	CU(cuGraphAddChildGraphNode(&nested, graph, &first, 1, child));
	CU(cuGraphAddEmptyNode(&empty, graph, &nested, 1));
	CU(cuGraphAddEventRecordNode(&record, graph, &empty, 1, event));
	CU(cuGraphAddEventWaitNode(&wait, graph, &record, 1, event));
	CUDA_MEMCPY3D back = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			      .srcDevice = data,
			      .dstMemoryType = CU_MEMORYTYPE_HOST,
			      .dstHost = result,
			      .WidthInBytes = sizeof result,
			      .Height = 1,
			      .Depth = 1};
	CU(cuGraphAddMemcpyNode(&copy, graph, &wait, 1, &back, NULL));
	CUDA_HOST_NODE_PARAMS_v1 call = {.fn = count_call, .userData = &calls};
	CU(cuGraphAddHostNode(&host, graph, &copy, 1, &call));
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 1; i <= 3; i++) {
		launch(exec);
		CHECK_INT(result[31], 16);
		CHECK_INT(calls, i);
		CU(cuEventQuery(event));
	}
	// The graphs from which the executable graph was created are not needed any more.
	CU(cuGraphDestroy(child));
	CU(cuGraphDestroy(graph));
	launch(exec);
	CHECK_INT(calls, 4);
	CU(cuGraphExecDestroy(exec));
	CU(cuEventDestroy_v2(event));
}

TEST(edges_can_be_listed_and_graphs_cloned)
{
	start();
	CUgraph graph, clone;
	CUgraphNode nodes[4], found[8], from[8], to[8];
	CUgraphExec exec;
	size_t count;
	CUdeviceptr data = words(32);
	int n = 32, by = 1;

	CU(cuGraphCreate(&graph, 0));
	for (int i = 0; i < 4; i++)
		nodes[i] = add_node(graph, NULL, 0, &data, &n, &by);
	CU(cuGraphAddDependencies(graph, (CUgraphNode[]){nodes[0], nodes[0], nodes[1], nodes[2]},
				  (CUgraphNode[]){nodes[1], nodes[2], nodes[3], nodes[3]}, 4));
	CHECK_INT(cuGraphAddDependencies(graph, &nodes[0], &nodes[1], 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuGraphAddDependencies(graph, &nodes[0], &nodes[0], 1), CUDA_ERROR_INVALID_VALUE);
	CU(cuGraphGetRootNodes(graph, NULL, &count));
	CHECK_INT(count, 1);
	count = 8;
	CU(cuGraphGetEdges(graph, from, to, &count));
	CHECK_INT(count, 4);
	count = 8;
	CU(cuGraphNodeGetDependencies(nodes[3], found, &count));
	CHECK_INT(count, 2);
	CHECK(found[2] == NULL);
	CU(cuGraphClone(&clone, graph));
	CU(cuGraphNodeFindInClone(&found[0], nodes[3], clone));
	CHECK(found[0] != nodes[3]);
	// this edge makes a cycle, so the instantiation must fail
	CU(cuGraphAddDependencies(graph, &nodes[3], &nodes[0], 1));
	CHECK_INT(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
	CU(cuGraphDestroyNode(nodes[3]));
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	launch(exec);
	CHECK_INT(word(data), 3);
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphInstantiateWithFlags(&exec, clone, 0));
	launch(exec);
	CHECK_INT(word(data), 7);
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(clone));
	CU(cuGraphDestroy(graph));
}

TEST(executable_graphs_can_be_updated)
{
	start();
	CUgraph graph, other;
	CUgraphNode node, extra;
	CUgraphExec exec;
	CUgraphExecUpdateResultInfo info;
	CUDA_KERNEL_NODE_PARAMS params;
	CUdeviceptr data = words(32);
	int n = 32, one = 1, hundred = 100;
	unsigned enabled;

	CU(cuGraphCreate(&graph, 0));
	node = add_node(graph, NULL, 0, &data, &n, &one);
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphKernelNodeGetParams_v2(node, &params));
	CHECK_INT(*(int *)params.kernelParams[2], 1);
	void *arguments[] = {&data, &n, &hundred};
	params.kernelParams = arguments;
	CU(cuGraphLaunch(exec, stream)); // the executable graph must still have the old parameters
	CU(cuGraphExecKernelNodeSetParams_v2(exec, node, &params));
	launch(exec);
	CHECK_INT(word(data), 101);
	CU(cuGraphNodeSetEnabled(exec, node, 0));
	CU(cuGraphNodeGetEnabled(exec, node, &enabled));
	CHECK_INT(enabled, 0);
	launch(exec);
	CHECK_INT(word(data), 101);
	CU(cuGraphNodeSetEnabled(exec, node, 1));
	// Updates the executable graph from a graph of the same topology, and then from graphs of another topology.
	CU(cuGraphCreate(&other, 0));
	extra = add_node(other, NULL, 0, &data, &n, &one);
	CU(cuGraphExecUpdate_v2(exec, other, &info));
	CHECK_INT(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
	launch(exec);
	CHECK_INT(word(data), 102);
	CU(cuGraphAddEmptyNode(&extra, other, &extra, 1));
	CHECK_INT(cuGraphExecUpdate_v2(exec, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	CHECK_INT(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
	CU(cuGraphDestroy(other));
	CU(cuGraphCreate(&other, 0));
	CU(cuGraphAddEmptyNode(&extra, other, NULL, 0));
	CHECK_INT(cuGraphExecUpdate_v2(exec, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	CHECK_INT(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
	CHECK(info.errorNode == extra);
	CU(cuGraphDestroy(other));
	CU(cuGraphDestroy(graph));
	CU(cuGraphExecDestroy(exec));
}

TEST(a_while_node_loops)
{
	start();
	CUgraphConditionalHandle condition;
	CUgraph graph;
	CUgraphNode node, inner;
	CUgraphExec exec;
	CUdeviceptr data = words(2);
	int n = 1, by = 3, five = 5;
	CUdeviceptr sum = data + 4;

	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphConditionalHandleCreate(&condition, graph, NULL, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
	CUgraphNodeParams loop = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
	loop.conditional.handle = condition;
	loop.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
	loop.conditional.size = 1;
	CU(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &loop));
	CUgraph body = loop.conditional.phGraph_out[0];
	inner = add_node(body, NULL, 0, &sum, &n, &by);
	void *arguments[] = {&condition, &data};
	CUDA_KERNEL_NODE_PARAMS params = node_params("countdown", 1, arguments);
	CU(cuGraphAddKernelNode_v2(&inner, body, &inner, 1, &params));
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 1; i <= 2; i++) {
		CU(cuMemsetD32_v2(data, (unsigned)five, 1));
		launch(exec);
		CHECK_INT(word(data), 0);
		CHECK_INT(word(sum), 15 * i);
	}
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
}

TEST(a_switch_node_selects_a_body)
{
	start();
	CUgraphConditionalHandle condition;
	CUgraph graph;
	CUgraphNode chooser, node;
	CUgraphExec exec;
	CUdeviceptr data = words(1);
	int n = 1, by[3] = {1, 10, 100};
	unsigned value = 0;

	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphConditionalHandleCreate(&condition, graph, NULL, 0, 0));
	void *arguments[] = {&condition, &value};
	CUDA_KERNEL_NODE_PARAMS params = node_params("choose", 1, arguments);
	CU(cuGraphAddKernelNode_v2(&chooser, graph, NULL, 0, &params));
	CUgraphNodeParams choice = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
	choice.conditional.handle = condition;
	choice.conditional.type = CU_GRAPH_COND_TYPE_SWITCH;
	choice.conditional.size = 3;
	CU(cuGraphAddNode_v2(&node, graph, &chooser, NULL, 1, &choice));
	for (int i = 0; i < 3; i++)
		add_node(choice.conditional.phGraph_out[i], NULL, 0, &data, &n, &by[i]);
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	int want = 0;
	for (value = 0; value < 4; value++) { // with the value 3, no body runs
		CU(cuGraphExecKernelNodeSetParams_v2(exec, chooser, &params));
		launch(exec);
		want += value < 3 ? by[value] : 0;
		CHECK_INT(word(data), want);
	}
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
}

// Uses a condition in another graph than the one for which it was created. That must fail, also after that graph was
// destroyed.
TEST(conditions_of_other_graphs_are_refused)
{
	start();
	CUgraphConditionalHandle condition;
	CUgraph owner, graph;
	CUgraphNode node;

	CU(cuGraphCreate(&owner, 0));
	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphConditionalHandleCreate(&condition, owner, NULL, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
	CUgraphNodeParams loop = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
	loop.conditional.handle = condition;
	loop.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
	loop.conditional.size = 1;
	CHECK_INT(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &loop), CUDA_ERROR_INVALID_VALUE);
	CU(cuGraphDestroy(owner));
	CHECK_INT(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &loop), CUDA_ERROR_INVALID_VALUE);
	CU(cuGraphDestroy(graph));
}

// A condition has a word of memory in the context. If the context is destroyed before the graph, the graph must not
// free the word again: other memory may be there.
TEST(a_context_may_end_before_its_condition)
{
	start();
	CUgraphConditionalHandle condition;
	CUcontext ended, next;
	CUdeviceptr taken, again;
	CUgraph graph;

	CU(cuCtxCreate_v4(&ended, NULL, 0, 0));
	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphConditionalHandleCreate(&condition, graph, NULL, 0, 0));
	CU(cuCtxDestroy_v2(ended));
	CU(cuCtxCreate_v4(&next, NULL, 0, 0));
	CU(cuMemAlloc_v2(&taken, 4));
	CHECK(taken == condition); // the allocator gives out the address of the freed word first
	CU(cuGraphDestroy(graph));
	CU(cuMemAlloc_v2(&again, 4));
	CHECK(again != taken);
	CU(cuCtxDestroy_v2(next));
}

TEST(user_objects_live_as_long_as_their_graphs)
{
	start();
	CUuserObject object;
	CUgraph graph, clone;
	CUgraphExec exec;
	CUgraphNode node;
	int destroyed = 0;

	CU(cuUserObjectCreate(&object, &destroyed, count_call, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphAddEmptyNode(&node, graph, NULL, 0));
	CU(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
	CU(cuGraphClone(&clone, graph));
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphDestroy(graph));
	CU(cuGraphDestroy(clone));
	CHECK_INT(destroyed, 0);
	CU(cuGraphExecDestroy(exec));
	CHECK_INT(destroyed, 1);
}

static CUgraph create_graph_with_object(int *destroyed)
{
	CUuserObject object;
	CUgraph graph;
	CUgraphNode node;

	CU(cuUserObjectCreate(&object, destroyed, count_call, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphAddEmptyNode(&node, graph, NULL, 0));
	CU(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
	return graph;
}

TEST(executable_graphs_reference_objects_of_child_graphs_and_updates)
{
	start();
	int destroyed[3] = {0};
	CUgraph graph = create_graph_with_object(&destroyed[0]), child = create_graph_with_object(&destroyed[1]);
	CUgraph other = create_graph_with_object(&destroyed[2]), none;
	CUgraphExecUpdateResultInfo info;
	CUgraphExec exec;
	CUgraphNode node;

	CU(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
	CU(cuGraphCreate(&none, 0));
	CU(cuGraphAddEmptyNode(&node, none, NULL, 0));
	CU(cuGraphAddChildGraphNode(&node, other, NULL, 0, none));
	CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cuGraphDestroy(graph));
	CU(cuGraphDestroy(child));
	CHECK_INT(destroyed[1], 0);
	CU(cuGraphExecUpdate_v2(exec, other, &info));
	CHECK(destroyed[0] == 1 && destroyed[1] == 1);
	CU(cuGraphDestroy(other));
	CU(cuGraphDestroy(none));
	CHECK_INT(destroyed[2], 0);
	CU(cuGraphExecDestroy(exec));
	CHECK_INT(destroyed[2], 1);
}

TEST(graphs_can_be_printed)
{
	start();
	CUgraph graph;
	CUdeviceptr data = words(32);
	int n = 32, by = 1;
	char path[128], text[4096] = "";

	CU(cuGraphCreate(&graph, 0));
	CUgraphNode first = add_node(graph, NULL, 0, &data, &n, &by);
	add_node(graph, &first, 1, &data, &n, &by);
	snprintf(path, sizeof path, "%s/graph.dot", node_directory);
	CU(cuGraphDebugDotPrint(graph, path, CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
	FILE *file = fopen(path, "r");
	CHECK(file != NULL);
	CHECK(fread(text, 1, sizeof text - 1, file) > 0);
	fclose(file);
	CHECK_CONTAINS(text, "digraph");
	CHECK_CONTAINS(text, "add");
	CHECK_CONTAINS(text, "->");
	CU(cuGraphDestroy(graph));
}
