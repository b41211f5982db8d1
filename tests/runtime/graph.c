// Tests graphs: captured and built from nodes, updates, conditions.
#include "cudart.h"

static int run_graph(cudaGraph_t graph)
{
	cudaGraphExec_t exec = NULL;

	WORKS(cudaGraphInstantiate(&exec, graph, 0));
	WORKS(cudaGraphLaunch(exec, NULL));
	WORKS(cudaStreamSynchronize(NULL));
	WORKS(cudaGraphExecDestroy(exec));
	return exec != NULL;
}

CONFORM(stream_capture)
{
	int *to = need_ints(1), value = 31, got = 0;
	cudaStream_t stream;
	cudaGraph_t graph = NULL;
	enum cudaStreamCaptureStatus status;
	unsigned long long id = 0;
	size_t nodes = 0, dependencies = 9;

	NEED(cudaStreamCreate(&stream));
	WORKS(cudaStreamIsCapturing(stream, &status));
	EQUALS(status, cudaStreamCaptureStatusNone);
	WORKS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	WORKS(cudaStreamIsCapturing(stream, &status));
	EQUALS(status, cudaStreamCaptureStatusActive);
	launch_store(to, value, stream);
	WORKS(cudaMemcpyAsync(&got, to, sizeof got, cudaMemcpyDeviceToHost, stream));
	WORKS(cudaStreamGetCaptureInfo(stream, &status, &id, &graph, NULL, NULL, &dependencies));
	HOLDS(id != 0 && graph != NULL);
	EQUALS(dependencies, 1);
	WORKS(cudaStreamEndCapture(stream, &graph));
	WORKS(cudaGraphGetNodes(graph, NULL, &nodes));
	EQUALS(nodes, 2);
	EQUALS(got, 0);
	HOLDS(run_graph(graph));
	EQUALS(got, 31);
	cudaGraph_t none;
	GIVES_LAST(cudaStreamEndCapture(stream, &none), cudaErrorIllegalState);
	WORKS(cudaGraphDestroy(graph));
	WORKS(cudaStreamDestroy(stream));
	WORKS(cudaFree(to));
}

CONFORM(invalid_calls_end_a_capture)
{
	cudaStream_t stream;
	cudaGraph_t graph = (cudaGraph_t)1;

	NEED(cudaStreamCreate(&stream));
	WORKS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	GIVES(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
	GIVES(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
	HOLDS(graph == NULL);
	cudaGetLastError();
	WORKS(cudaStreamDestroy(stream));
}

struct parts {
	cudaGraph_t graph;
	cudaGraphNode_t kernel, set, copy;
	int *device, host[2], value;
	struct cudaKernelNodeParams kernel_params;
};

static void build(struct parts *parts)
{
	void *arguments[] = {&parts->device, &parts->value};
	const struct cudaMemsetParams set = {
		.dst = parts->device, .value = 0, .elementSize = 4, .width = 2, .height = 1};

	parts->kernel_params =
		(struct cudaKernelNodeParams){.func = store, .gridDim = {1, 1, 1}, .blockDim = {1, 1, 1}};
	parts->kernel_params.kernelParams = arguments;
	NEED(cudaGraphCreate(&parts->graph, 0));
	WORKS(cudaGraphAddMemsetNode(&parts->set, parts->graph, NULL, 0, &set));
	WORKS(cudaGraphAddKernelNode(&parts->kernel, parts->graph, &parts->set, 1, &parts->kernel_params));
	WORKS(cudaGraphAddMemcpyNode1D(&parts->copy, parts->graph, &parts->kernel, 1, parts->host, parts->device,
				       sizeof parts->host, cudaMemcpyDeviceToHost));
	parts->kernel_params.kernelParams = NULL;
}

CONFORM(graph_is_built_from_nodes)
{
	struct parts parts = {.device = need_ints(2), .value = 17, .host = {-1, -1}};
	enum cudaGraphNodeType type;
	size_t count = 0;
	struct cudaKernelNodeParams kernel;
	struct cudaMemsetParams set;
	struct cudaMemcpy3DParms copy;
	cudaGraph_t clone;
	cudaGraphNode_t node, from[4], to[4];

	build(&parts);
	HOLDS(run_graph(parts.graph));
	EQUALS(parts.host[0], 17);
	EQUALS(parts.host[1], 0);
	WORKS(cudaGraphNodeGetType(parts.kernel, &type));
	EQUALS(type, cudaGraphNodeTypeKernel);
	WORKS(cudaGraphNodeGetType(parts.copy, &type));
	EQUALS(type, cudaGraphNodeTypeMemcpy);
	WORKS(cudaGraphGetRootNodes(parts.graph, NULL, &count));
	EQUALS(count, 1);
	count = 4;
	WORKS(cudaGraphGetEdges(parts.graph, from, to, NULL, &count));
	EQUALS(count, 2);
	WORKS(cudaGraphKernelNodeGetParams(parts.kernel, &kernel));
	HOLDS(kernel.func == (void *)store);
	EQUALS(kernel.gridDim.x, 1);
	EQUALS(*(int *)kernel.kernelParams[1], 17);
	WORKS(cudaGraphMemsetNodeGetParams(parts.set, &set));
	EQUALS(set.width, 2);
	HOLDS(set.dst == parts.device);
	WORKS(cudaGraphMemcpyNodeGetParams(parts.copy, &copy));
	EQUALS(copy.kind, cudaMemcpyDeviceToHost);
	EQUALS(copy.extent.width, sizeof parts.host);
	HOLDS(copy.srcPtr.ptr == parts.device && copy.dstPtr.ptr == parts.host);
	WORKS(cudaGraphClone(&clone, parts.graph));
	WORKS(cudaGraphNodeFindInClone(&node, parts.kernel, clone));
	HOLDS(node != parts.kernel);
	WORKS(cudaGraphDestroyNode(node));
	WORKS(cudaGraphGetNodes(clone, NULL, &count));
	EQUALS(count, 2);
	WORKS(cudaGraphDestroy(clone));
	WORKS(cudaGraphDestroy(parts.graph));
	WORKS(cudaFree(parts.device));
}

CONFORM(executable_graph_is_updated)
{
	struct parts parts = {.device = need_ints(2), .value = 1}, other;
	cudaGraphExec_t exec;
	cudaGraphExecUpdateResultInfo result = {.result = cudaGraphExecUpdateError};
	unsigned enabled = 9;
	unsigned long long flags = 9;

	build(&parts);
	NEED(cudaGraphInstantiateWithFlags(&exec, parts.graph, 0));
	parts.value = 2;
	parts.kernel_params.kernelParams = (void *[]){&parts.device, &parts.value};
	WORKS(cudaGraphExecKernelNodeSetParams(exec, parts.kernel, &parts.kernel_params));
	WORKS(cudaGraphLaunch(exec, NULL));
	WORKS(cudaStreamSynchronize(NULL));
	EQUALS(parts.host[0], 2);
	other = (struct parts){.device = parts.device, .value = 3};
	build(&other);
	WORKS(cudaGraphExecUpdate(exec, other.graph, &result));
	EQUALS(result.result, cudaGraphExecUpdateSuccess);
	WORKS(cudaGraphUpload(exec, NULL));
	WORKS(cudaGraphLaunch(exec, NULL));
	WORKS(cudaStreamSynchronize(NULL));
	EQUALS(other.host[0], 3);
	WORKS(cudaGraphNodeGetEnabled(exec, parts.kernel, &enabled));
	EQUALS(enabled, 1);
	WORKS(cudaGraphNodeSetEnabled(exec, parts.kernel, 0));
	WORKS(cudaGraphLaunch(exec, NULL));
	WORKS(cudaStreamSynchronize(NULL));
	EQUALS(other.host[0], 0);
	WORKS(cudaGraphExecGetFlags(exec, &flags));
	EQUALS(flags, 0);
	WORKS(cudaGraphDestroyNode(other.copy));
	GIVES_LAST(cudaGraphExecUpdate(exec, other.graph, &result), cudaErrorGraphExecUpdateFailure);
	EQUALS(result.result, cudaGraphExecUpdateErrorTopologyChanged);
	WORKS(cudaGraphExecDestroy(exec));
	WORKS(cudaGraphDestroy(parts.graph));
	WORKS(cudaGraphDestroy(other.graph));
	WORKS(cudaFree(parts.device));
}

static void CUDART_CB add_ten(void *data)
{
	*(int *)data += 10;
}

CONFORM(nodes_of_other_types)
{
	int count = 1, value = 5;
	cudaGraph_t graph, child, got;
	cudaGraphNode_t host, nested, empty_node, record;
	const struct cudaHostNodeParams params = {add_ten, &count};
	struct cudaHostNodeParams read;
	cudaEvent_t event, read_event;
	cudaGraphNode_t to_symbol, from_symbol;
	int back = 0;

	NEED(cudaEventCreate(&event));
	NEED(cudaGraphCreate(&graph, 0));
	NEED(cudaGraphCreate(&child, 0));
	WORKS(cudaGraphAddHostNode(&host, child, NULL, 0, &params));
	WORKS(cudaGraphHostNodeGetParams(host, &read));
	HOLDS(read.fn == add_ten && read.userData == &count);
	WORKS(cudaGraphAddEmptyNode(&empty_node, graph, NULL, 0));
	WORKS(cudaGraphAddChildGraphNode(&nested, graph, &empty_node, 1, child));
	WORKS(cudaGraphChildGraphNodeGetGraph(nested, &got));
	HOLDS(got != NULL);
	WORKS(cudaGraphAddEventRecordNode(&record, graph, &nested, 1, event));
	WORKS(cudaGraphEventRecordNodeGetEvent(record, &read_event));
	HOLDS(read_event == event);
	WORKS(cudaGraphAddMemcpyNodeToSymbol(&to_symbol, graph, NULL, 0, symbol_counter(), &value, sizeof value, 0,
					     cudaMemcpyHostToDevice));
	WORKS(cudaGraphAddMemcpyNodeFromSymbol(&from_symbol, graph, &to_symbol, 1, &back, symbol_counter(), sizeof back,
					       0, cudaMemcpyDeviceToHost));
	GIVES_LAST(cudaGraphAddMemcpyNodeToSymbol(&to_symbol, graph, NULL, 0, symbol_counter(), &value, 8, 0,
						  cudaMemcpyHostToDevice),
		   cudaErrorInvalidValue);
	HOLDS(run_graph(graph));
	EQUALS(count, 11);
	EQUALS(back, 5);
	WORKS(cudaEventQuery(event));
	value = 7;
	WORKS(cudaMemcpyToSymbol(symbol_counter(), &value, sizeof value, 0, cudaMemcpyHostToDevice));
	WORKS(cudaGraphDestroy(child));
	WORKS(cudaGraphDestroy(graph));
	WORKS(cudaEventDestroy(event));
}

CONFORM(nodes_by_general_parameters)
{
	int *to = need_ints(1), value = 23, last = 5;
	cudaGraph_t graph;
	cudaGraphNode_t node, loop, body;
	void *arguments[] = {&to, &value};
	struct cudaGraphNodeParams params = {.type = cudaGraphNodeTypeKernel};
	cudaGraphConditionalHandle handle;

	NEED(cudaGraphCreate(&graph, 0));
	params.kernel.func = store;
	params.kernel.gridDim = params.kernel.blockDim = (dim3){1, 1, 1};
	params.kernel.kernelParams = arguments;
	WORKS(cudaGraphAddNode(&node, graph, NULL, NULL, 0, &params));
	HOLDS(run_graph(graph));
	EQUALS(read_int(to), 23);
	value = 0;
	WORKS(cudaGraphNodeSetParams(node, &params));
	WORKS(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
	struct cudaGraphNodeParams condition = {.type = cudaGraphNodeTypeConditional};
	condition.conditional.handle = handle;
	condition.conditional.type = cudaGraphCondTypeWhile;
	condition.conditional.size = 1;
	WORKS(cudaGraphAddNode(&loop, graph, &node, NULL, 1, &condition));
	HOLDS(condition.conditional.phGraph_out != NULL);
	void *counting[] = {&handle, &to, &last};
	params.kernel.func = count_up;
	params.kernel.kernelParams = counting;
	if (condition.conditional.phGraph_out) {
		WORKS(cudaGraphAddNode(&body, condition.conditional.phGraph_out[0], NULL, NULL, 0, &params));
		HOLDS(run_graph(graph));
		EQUALS(read_int(to), 5);
	}
	WORKS(cudaGraphDestroy(graph));
	WORKS(cudaFree(to));
}

CONFORM(graphs_own_memory)
{
	struct cudaMemAllocNodeParams allocation = {
		.poolProps = {.allocType = cudaMemAllocationTypePinned, .location = {cudaMemLocationTypeDevice, 0}},
		.bytesize = 4096};
	cudaGraph_t graph;
	cudaGraphNode_t made, set, freed;
	unsigned long long used = 9;

	NEED(cudaGraphCreate(&graph, 0));
	WORKS(cudaGraphAddMemAllocNode(&made, graph, NULL, 0, &allocation));
	HOLDS(allocation.dptr != NULL);
	const struct cudaMemsetParams params = {
		.dst = allocation.dptr, .value = 1, .elementSize = 1, .width = 4096, .height = 1};
	WORKS(cudaGraphAddMemsetNode(&set, graph, &made, 1, &params));
	WORKS(cudaGraphAddMemFreeNode(&freed, graph, &set, 1, allocation.dptr));
	HOLDS(run_graph(graph));
	WORKS(cudaGraphDestroy(graph));
	WORKS(cudaDeviceGraphMemTrim(0));
	WORKS(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
	EQUALS(used, 0);
}

static void CUDART_CB end_object(void *data)
{
	*(volatile int *)data = 1;
}

CONFORM(user_objects)
{
	int ended = 0;
	cudaUserObject_t object;
	cudaGraph_t graph;

	NEED(cudaGraphCreate(&graph, 0));
	WORKS(cudaUserObjectCreate(&object, &ended, end_object, 1, cudaUserObjectNoDestructorSync));
	WORKS(cudaUserObjectRetain(object, 1));
	WORKS(cudaGraphRetainUserObject(graph, object, 1, 0));
	WORKS(cudaUserObjectRelease(object, 1));
	WORKS(cudaGraphReleaseUserObject(graph, object, 1));
	WORKS(cudaGraphDestroy(graph));
	WORKS(cudaUserObjectRelease(object, 1));
	EQUALS(ended, 1);
}
