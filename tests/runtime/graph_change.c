// Tests changes of graphs: parameters of nodes, in a graph and in an executable graph; edges; and capture into an
// existing graph.
#include "cudart.h"

struct made {
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	cudaGraphNode_t set, copy;
	int *device, host[4];
};

// Makes a graph that sets four words to 0x01010101, and copies them to the host. Instantiates it.
static void make(struct made *made)
{
	made->device = need_ints(4);
	const struct cudaMemsetParams set = {
		.dst = made->device, .value = 1, .elementSize = 1, .width = 16, .height = 1};
	memset(made->host, 0, sizeof made->host);
	NEED(cudaGraphCreate(&made->graph, 0));
	WORKS(cudaGraphAddMemsetNode(&made->set, made->graph, NULL, 0, &set));
	struct cudaMemcpy3DParms copy = {.srcPtr = {made->device, 16, 16, 1},
					 .dstPtr = {made->host, 16, 16, 1},
					 .extent = {16, 1, 1},
					 .kind = cudaMemcpyDeviceToHost};
	WORKS(cudaGraphAddMemcpyNode(&made->copy, made->graph, &made->set, 1, &copy));
	cudaGraphInstantiateParams params = {.flags = cudaGraphInstantiateFlagAutoFreeOnLaunch};
	NEED(cudaGraphInstantiateWithParams(&made->exec, made->graph, &params));
	EQUALS(params.result_out, cudaGraphInstantiateSuccess);
}

static void run(struct made *made)
{
	WORKS(cudaGraphLaunch(made->exec, NULL));
	WORKS(cudaStreamSynchronize(NULL));
}

static void end(struct made *made)
{
	WORKS(cudaGraphExecDestroy(made->exec));
	WORKS(cudaGraphDestroy(made->graph));
	WORKS(cudaFree(made->device));
}

CONFORM(memory_nodes_are_updated)
{
	struct made made;
	int other[4] = {0}, value = 70;
	struct cudaMemcpy3DParms copy;

	make(&made);
	run(&made);
	EQUALS(made.host[3], 0x01010101);
	struct cudaMemsetParams set = {.dst = made.device, .value = 9, .elementSize = 4, .width = 4, .height = 1};
	WORKS(cudaGraphExecMemsetNodeSetParams(made.exec, made.set, &set));
	run(&made);
	EQUALS(made.host[3], 9);
	set.value = 8;
	// changes the parameters only in the graph, not in the executable one
	WORKS(cudaGraphMemsetNodeSetParams(made.set, &set));
	run(&made);
	EQUALS(made.host[3], 9);
	WORKS(cudaGraphExecMemcpyNodeSetParams1D(made.exec, made.copy, other, made.device, 16, cudaMemcpyDeviceToHost));
	run(&made);
	EQUALS(other[0], 9);
	WORKS(cudaGraphMemcpyNodeSetParams1D(made.copy, other, made.device, 8, cudaMemcpyDeviceToHost));
	WORKS(cudaGraphMemcpyNodeGetParams(made.copy, &copy));
	EQUALS(copy.extent.width, 8);
	copy.extent.width = 4;
	WORKS(cudaGraphMemcpyNodeSetParams(made.copy, &copy));
	WORKS(cudaGraphMemcpyNodeGetParams(made.copy, &copy));
	EQUALS(copy.extent.width, 4);
	copy.extent.width = 16;
	copy.dstPtr.ptr = made.host;
	WORKS(cudaGraphExecMemcpyNodeSetParams(made.exec, made.copy, &copy));
	run(&made);
	EQUALS(made.host[0], 9);
	WORKS(cudaGraphExecMemcpyNodeSetParamsFromSymbol(made.exec, made.copy, made.host, symbol_numbers(), 4, 4,
							 cudaMemcpyDeviceToHost));
	run(&made);
	EQUALS(made.host[0], 2);
	WORKS(cudaGraphMemcpyNodeSetParamsFromSymbol(made.copy, made.host, symbol_numbers(), 4, 0,
						     cudaMemcpyDeviceToHost));
	WORKS(cudaGraphMemcpyNodeSetParamsToSymbol(made.copy, symbol_counter(), &value, 4, 0, cudaMemcpyHostToDevice));
	GIVES_LAST(cudaGraphExecMemcpyNodeSetParamsFromSymbol(made.exec, made.copy, made.host, symbol_numbers(), 20, 0,
							      cudaMemcpyDeviceToHost),
		   cudaErrorInvalidValue);
	end(&made);
}

static void CUDART_CB add_one(void *data)
{
	++*(int *)data;
}

CONFORM(host_and_kernel_nodes_are_updated)
{
	int first = 0, second = 0, *to = need_ints(1), value = 1;
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	cudaGraphNode_t host, kernel, twin;
	struct cudaHostNodeParams params = {add_one, &first};
	void *arguments[] = {&to, &value};
	struct cudaKernelNodeParams store_params = {
		.func = store, .gridDim = {1, 1, 1}, .blockDim = {1, 1, 1}, .kernelParams = arguments};
	cudaLaunchAttributeValue priority = {.priority = 0};

	NEED(cudaGraphCreate(&graph, 0));
	WORKS(cudaGraphAddHostNode(&host, graph, NULL, 0, &params));
	WORKS(cudaGraphAddKernelNode(&kernel, graph, &host, 1, &store_params));
	WORKS(cudaGraphAddKernelNode(&twin, graph, &kernel, 1, &store_params));
	WORKS(cudaGraphKernelNodeSetAttribute(kernel, cudaLaunchAttributePriority, &priority));
	priority.priority = 99;
	WORKS(cudaGraphKernelNodeCopyAttributes(twin, kernel));
	WORKS(cudaGraphKernelNodeGetAttribute(twin, cudaLaunchAttributePriority, &priority));
	EQUALS(priority.priority, 0);
	WORKS(cudaGraphDestroyNode(twin));
	value = 5;
	WORKS(cudaGraphKernelNodeSetParams(kernel, &store_params));
	NEED(cudaGraphInstantiate(&exec, graph, 0));
	params.userData = &second;
	WORKS(cudaGraphExecHostNodeSetParams(exec, host, &params));
	WORKS(cudaGraphLaunch(exec, NULL));
	WORKS(cudaStreamSynchronize(NULL));
	EQUALS(first, 0);
	EQUALS(second, 1);
	EQUALS(read_int(to), 5);
	WORKS(cudaGraphHostNodeSetParams(host, &params));
	store_params.func = &first;
	GIVES_LAST(cudaGraphKernelNodeSetParams(kernel, &store_params), cudaErrorInvalidResourceHandle);
	struct cudaGraphNodeParams any = {.type = cudaGraphNodeTypeKernel};
	value = 6;
	any.kernel.func = store;
	any.kernel.gridDim = any.kernel.blockDim = (dim3){1, 1, 1};
	any.kernel.kernelParams = arguments;
	WORKS(cudaGraphExecNodeSetParams(exec, kernel, &any));
	WORKS(cudaGraphLaunch(exec, NULL));
	WORKS(cudaStreamSynchronize(NULL));
	EQUALS(read_int(to), 6);
	WORKS(cudaGraphExecDestroy(exec));
	WORKS(cudaGraphDestroy(graph));
	WORKS(cudaFree(to));
}

CONFORM(edges)
{
	cudaGraph_t graph;
	cudaGraphNode_t nodes[3], found[3];
	size_t count = 3;

	NEED(cudaGraphCreate(&graph, 0));
	for (int i = 0; i < 3; i++)
		NEED(cudaGraphAddEmptyNode(&nodes[i], graph, NULL, 0));
	WORKS(cudaGraphAddDependencies(graph, &nodes[0], &nodes[1], NULL, 1));
	WORKS(cudaGraphAddDependencies(graph, &nodes[1], &nodes[2], NULL, 1));
	WORKS(cudaGraphNodeGetDependencies(nodes[2], found, NULL, &count));
	EQUALS(count, 1);
	HOLDS(found[0] == nodes[1]);
	count = 3;
	WORKS(cudaGraphNodeGetDependentNodes(nodes[0], found, NULL, &count));
	EQUALS(count, 1);
	HOLDS(found[0] == nodes[1]);
	WORKS(cudaGraphRemoveDependencies(graph, &nodes[0], &nodes[1], NULL, 1));
	WORKS(cudaGraphNodeGetDependencies(nodes[1], NULL, NULL, &count));
	EQUALS(count, 0);
	GIVES_LAST(cudaGraphAddDependencies(graph, &nodes[2], &nodes[2], NULL, 1), cudaErrorInvalidValue);
	WORKS(cudaGraphDestroy(graph));
}

CONFORM(event_nodes_are_updated)
{
	cudaGraph_t graph, child;
	cudaGraphExec_t exec;
	cudaGraphNode_t record, wait, nested, empty_node;
	cudaEvent_t first, second, got;

	NEED(cudaEventCreate(&first));
	NEED(cudaEventCreate(&second));
	NEED(cudaGraphCreate(&graph, 0));
	NEED(cudaGraphCreate(&child, 0));
	NEED(cudaGraphAddEmptyNode(&empty_node, child, NULL, 0));
	WORKS(cudaGraphAddEventRecordNode(&record, graph, NULL, 0, first));
	WORKS(cudaGraphAddEventWaitNode(&wait, graph, &record, 1, first));
	WORKS(cudaGraphAddChildGraphNode(&nested, graph, &wait, 1, child));
	WORKS(cudaGraphEventRecordNodeSetEvent(record, second));
	WORKS(cudaGraphEventRecordNodeGetEvent(record, &got));
	HOLDS(got == second);
	WORKS(cudaGraphEventWaitNodeSetEvent(wait, second));
	WORKS(cudaGraphEventWaitNodeGetEvent(wait, &got));
	HOLDS(got == second);
	NEED(cudaGraphInstantiate(&exec, graph, 0));
	WORKS(cudaGraphExecEventRecordNodeSetEvent(exec, record, first));
	WORKS(cudaGraphExecEventWaitNodeSetEvent(exec, wait, first));
	WORKS(cudaGraphExecChildGraphNodeSetParams(exec, nested, child));
	WORKS(cudaGraphLaunch(exec, NULL));
	WORKS(cudaEventSynchronize(first));
	WORKS(cudaGraphExecDestroy(exec));
	WORKS(cudaGraphDestroy(child));
	WORKS(cudaGraphDestroy(graph));
	WORKS(cudaEventDestroy(first));
	WORKS(cudaEventDestroy(second));
}

CONFORM(capture_into_a_graph)
{
	int *to = need_ints(1);
	cudaGraph_t graph, ended;
	cudaGraphNode_t node;
	cudaStream_t stream;
	size_t count = 0;
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;

	NEED(cudaStreamCreate(&stream));
	NEED(cudaGraphCreate(&graph, 0));
	NEED(cudaGraphAddEmptyNode(&node, graph, NULL, 0));
	WORKS(cudaStreamBeginCaptureToGraph(stream, graph, &node, NULL, 1, cudaStreamCaptureModeRelaxed));
	launch_store(to, 3, stream);
	WORKS(cudaStreamUpdateCaptureDependencies(stream, &node, NULL, 1, cudaStreamSetCaptureDependencies));
	launch_store(to, 4, stream);
	WORKS(cudaStreamEndCapture(stream, &ended));
	HOLDS(ended == graph);
	WORKS(cudaGraphNodeGetDependentNodes(node, NULL, NULL, &count));
	EQUALS(count, 2);
	// Captures into a graph that the program has already created.
	WORKS(cudaStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, cudaStreamCaptureModeRelaxed));
	launch_store(to, 5, stream);
	WORKS(cudaStreamEndCapture(stream, NULL));
	WORKS(cudaGraphGetNodes(graph, NULL, &count));
	EQUALS(count, 4);
	WORKS(cudaThreadExchangeStreamCaptureMode(&mode));
	EQUALS(mode, cudaStreamCaptureModeGlobal);
	WORKS(cudaThreadExchangeStreamCaptureMode(&mode));
	EQUALS(mode, cudaStreamCaptureModeRelaxed);
	char path[] = "/tmp/virgate-runtime-XXXXXX";
	int fd = mkstemp(path);
	WORKS(cudaGraphDebugDotPrint(graph, path, 0));
	HOLDS(lseek(fd, 0, SEEK_END) > 0);
	unlink(path);
	close(fd);
	WORKS(cudaGraphDestroy(graph));
	WORKS(cudaStreamDestroy(stream));
	WORKS(cudaFree(to));
}

CONFORM(parameters_of_memory_nodes)
{
	struct cudaMemAllocNodeParams allocation = {.poolProps = {.allocType = cudaMemAllocationTypePinned,
								  .location = {cudaMemLocationTypeDevice, 0}},
						    .bytesize = 64},
				      read;
	cudaGraph_t graph;
	cudaGraphNode_t made, freed;
	void *pointer = NULL;

	NEED(cudaGraphCreate(&graph, 0));
	NEED(cudaGraphAddMemAllocNode(&made, graph, NULL, 0, &allocation));
	WORKS(cudaGraphMemAllocNodeGetParams(made, &read));
	EQUALS(read.bytesize, 64);
	HOLDS(read.dptr == allocation.dptr);
	NEED(cudaGraphAddMemFreeNode(&freed, graph, &made, 1, allocation.dptr));
	WORKS(cudaGraphMemFreeNodeGetParams(freed, &pointer));
	HOLDS(pointer == allocation.dptr);
	WORKS(cudaGraphDestroy(graph));
	unsigned long long zero = 0;
	WORKS(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &zero));
}
