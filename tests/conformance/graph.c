// Tests graphs: nodes and edges, instantiation, launch, update, memory nodes and when they allocate.
#include "conformance.h"

static CUstream stream;
static CUfunction store;

static void need_graph_parts(void)
{
	need_context();
	if (!stream) {
		NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
		store = need_function(need_module(ptx_basic), "store");
	}
}

CONFORM(structure)
{
	CUgraph graph, copy;
	CUgraphNode first, second, third, found[4], in_copy;
	CUgraphNodeType type;
	size_t count = 4;

	need_graph_parts();
	NEED(cuGraphCreate(&graph, 0));
	GIVES(cuGraphCreate(&graph, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuGraphCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuGraphAddEmptyNode(&first, graph, NULL, 0));
	WORKS(cuGraphAddEmptyNode(&second, graph, &first, 1));
	WORKS(cuGraphAddEmptyNode(&third, graph, NULL, 0));
	WORKS(cuGraphAddDependencies(graph, &second, &third, NULL, 1));
	GIVES(cuGraphAddDependencies(graph, &second, &third, NULL, 1), CUDA_ERROR_INVALID_VALUE); // there already
	GIVES(cuGraphAddDependencies(graph, &third, &third, NULL, 1), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuGraphGetNodes(graph, NULL, &count));
	EQUALS(count, 3);
	count = 4;
	WORKS(cuGraphGetNodes(graph, found, &count));
	EQUALS(count, 3);
	HOLDS(found[3] == NULL);
	WORKS(cuGraphGetRootNodes(graph, NULL, &count));
	EQUALS(count, 1);
	WORKS(cuGraphGetEdges(graph, NULL, NULL, NULL, &count));
	EQUALS(count, 2);
	WORKS(cuGraphNodeGetDependencies(third, NULL, NULL, &count));
	EQUALS(count, 1);
	WORKS(cuGraphNodeGetType(first, &type));
	EQUALS(type, CU_GRAPH_NODE_TYPE_EMPTY);
	WORKS(cuGraphClone(&copy, graph));
	WORKS(cuGraphNodeFindInClone(&in_copy, second, copy));
	HOLDS(in_copy != second);
	WORKS(cuGraphRemoveDependencies(graph, &second, &third, NULL, 1));
	WORKS(cuGraphDestroyNode(second));
	WORKS(cuGraphGetNodes(graph, NULL, &count));
	EQUALS(count, 2);
	WORKS(cuGraphGetNodes(copy, NULL, &count));
	EQUALS(count, 3);
	WORKS(cuGraphDestroy(copy));
	WORKS(cuGraphDestroy(graph));
}

CONFORM(cycles)
{
	CUgraph graph;
	CUgraphNode first, second;
	CUgraphExec exec = NULL;

	need_graph_parts();
	NEED(cuGraphCreate(&graph, 0));
	NEED(cuGraphAddEmptyNode(&first, graph, NULL, 0));
	NEED(cuGraphAddEmptyNode(&second, graph, &first, 1));
	if (cuGraphAddDependencies(graph, &second, &first, NULL, 1) == CUDA_SUCCESS)
		GIVES(cuGraphInstantiate(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuGraphDestroy(graph));
}

static CUDA_KERNEL_NODE_PARAMS kernel_parameters(void **arguments)
{
	return (CUDA_KERNEL_NODE_PARAMS){.func = store,
					 .gridDimX = 1,
					 .gridDimY = 1,
					 .gridDimZ = 1,
					 .blockDimX = 1,
					 .blockDimY = 1,
					 .blockDimZ = 1,
					 .kernelParams = arguments};
}

CONFORM(launch_and_update)
{
	CUgraph graph;
	CUgraphExec exec;
	CUgraphNode set, kernel, copy;
	CUdeviceptr address, next;
	unsigned value = 5, words[2] = {0}, later = 6;
	CUgraphExecUpdateResultInfo information;

	need_graph_parts();
	NEED(cuMemAlloc(&address, 8));
	NEED(cuGraphCreate(&graph, 0));
	CUDA_MEMSET_NODE_PARAMS zero = {.dst = address, .value = 0x11111111, .elementSize = 4, .width = 2, .height = 1};
	WORKS(cuGraphAddMemsetNode(&set, graph, NULL, 0, &zero, context));
	next = address + 4;
	void *arguments[] = {&next, &value};
	CUDA_KERNEL_NODE_PARAMS kernel_node = kernel_parameters(arguments);
	WORKS(cuGraphAddKernelNode(&kernel, graph, &set, 1, &kernel_node));
	CUDA_MEMCPY3D read = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			      .srcDevice = address,
			      .srcPitch = 8,
			      .srcHeight = 1,
			      .dstMemoryType = CU_MEMORYTYPE_HOST,
			      .dstHost = words,
			      .dstPitch = 8,
			      .dstHeight = 1,
			      .WidthInBytes = 8,
			      .Height = 1,
			      .Depth = 1};
	WORKS(cuGraphAddMemcpyNode(&copy, graph, &kernel, 1, &read, context));
	NEED(cuGraphInstantiate(&exec, graph, 0));
	value = 99; // the node has a copy of its arguments, so this has no effect
	WORKS(cuGraphLaunch(exec, stream));
	WORKS(cuStreamSynchronize(stream));
	EQUALS(words[0], 0x11111111);
	EQUALS(words[1], 5);
	arguments[1] = &later;
	kernel_node = kernel_parameters(arguments);
	WORKS(cuGraphExecKernelNodeSetParams(exec, kernel, &kernel_node));
	WORKS(cuGraphLaunch(exec, stream));
	WORKS(cuStreamSynchronize(stream));
	EQUALS(words[1], 6);
	WORKS(cuGraphExecUpdate(exec, graph, &information));
	EQUALS(information.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
	WORKS(cuGraphLaunch(exec, stream));
	WORKS(cuStreamSynchronize(stream));
	EQUALS(words[1], 5);
	CUgraphNode extra;
	NEED(cuGraphAddEmptyNode(&extra, graph, &copy, 1));
	GIVES(cuGraphExecUpdate(exec, graph, &information), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	EQUALS(information.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
	GIVES(cuGraphLaunch(NULL, stream), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuGraphDestroy(graph)); // an executable graph does not need its definition
	WORKS(cuGraphLaunch(exec, stream));
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuGraphExecDestroy(exec));
	WORKS(cuMemFree(address));
}

static cuuint64_t graph_memory(CUgraphMem_attribute which)
{
	cuuint64_t value = 0;

	WORKS(cuDeviceGetGraphMemAttribute(device, which, &value));
	return value;
}

static CUDA_MEM_ALLOC_NODE_PARAMS allocation(size_t bytes)
{
	return (CUDA_MEM_ALLOC_NODE_PARAMS){
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}},
		.bytesize = bytes};
}

CONFORM(memory_nodes)
{
	CUgraph graph;
	CUgraphExec exec;
	CUgraphNode node, freeing;
	size_t before;

	need_graph_parts();
	WORKS(cuDeviceGraphMemTrim(device));
	before = memory_used();
	NEED(cuGraphCreate(&graph, 0));
	CUDA_MEM_ALLOC_NODE_PARAMS wanted = allocation(300 * MiB);
	NEED(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &wanted));
	HOLDS(wanted.dptr != 0); // the address is known at once
	WORKS(cuGraphAddMemFreeNode(&freeing, graph, &node, 1, wanted.dptr));
	EQUALS(memory_used(), before);
	NEED(cuGraphInstantiate(&exec, graph, 0));
	COSTS(memory_used() - before, 0, 320 * MiB);
	WORKS(cuGraphUpload(exec, stream));
	WORKS(cuStreamSynchronize(stream));
	EQUALS(memory_used() - before, 320 * MiB); // now the memory is allocated
	EQUALS(graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 320 * MiB);
	WORKS(cuGraphLaunch(exec, stream));
	WORKS(cuStreamSynchronize(stream));
	EQUALS(memory_used() - before, 320 * MiB);
	WORKS(cuGraphExecDestroy(exec));
	WORKS(cuGraphDestroy(graph));
	EQUALS(memory_used() - before, 320 * MiB); // the driver keeps the memory for other graphs
	WORKS(cuDeviceGraphMemTrim(device));
	EQUALS(memory_used(), before);
	EQUALS(graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0);
	EQUALS(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
	cuuint64_t reset = 0;
	WORKS(cuDeviceSetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &reset));
	EQUALS(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), 0);
	GIVES(cuDeviceSetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &reset),
	      CUDA_ERROR_INVALID_VALUE);
}

CONFORM(memory_comes_at_the_first_launch)
{
	CUgraph graph;
	CUgraphExec exec;
	CUgraphNode node;
	size_t before;

	need_graph_parts();
	WORKS(cuDeviceGraphMemTrim(device));
	before = memory_used();
	NEED(cuGraphCreate(&graph, 0));
	CUDA_MEM_ALLOC_NODE_PARAMS wanted = allocation(8 * MiB);
	NEED(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &wanted));
	NEED(cuGraphInstantiate(&exec, graph, 0));
	COSTS(memory_used() - before, 0, 32 * MiB);
	WORKS(cuGraphLaunch(exec, stream));
	WORKS(cuStreamSynchronize(stream));
	EQUALS(memory_used() - before, 32 * MiB);
	GIVES(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE); // memory still allocated
	WORKS(cuMemsetD8(wanted.dptr, 1, 8 * MiB));
	WORKS(cuMemFreeAsync(wanted.dptr, stream)); // frees the memory outside of the graph
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuGraphLaunch(exec, stream));
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuMemFree(wanted.dptr));
	WORKS(cuGraphExecDestroy(exec));
	WORKS(cuGraphDestroy(graph));
	WORKS(cuDeviceGraphMemTrim(device));
	EQUALS(memory_used(), before);
}

CONFORM(memory_freed_at_launch)
{
	CUgraph graph;
	CUgraphExec exec;
	CUgraphNode node;
	size_t before;

	need_graph_parts();
	before = memory_used();
	NEED(cuGraphCreate(&graph, 0));
	CUDA_MEM_ALLOC_NODE_PARAMS wanted = allocation(8 * MiB);
	NEED(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &wanted));
	NEED(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
	WORKS(cuGraphLaunch(exec, stream));
	WORKS(cuGraphLaunch(exec, stream));
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuMemFree(wanted.dptr));
	WORKS(cuGraphExecDestroy(exec));
	WORKS(cuGraphDestroy(graph));
	WORKS(cuDeviceGraphMemTrim(device));
	EQUALS(memory_used(), before);
}

CONFORM(invalid_memory_nodes)
{
	CUgraph graph, copy = NULL;
	CUgraphExec first, second = NULL;
	CUgraphNode node, freeing, again;

	need_graph_parts();
	NEED(cuGraphCreate(&graph, 0));
	CUDA_MEM_ALLOC_NODE_PARAMS wanted = allocation(0);
	GIVES(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &wanted), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuGraphAddMemFreeNode(&freeing, graph, NULL, 0, 0x1000), CUDA_ERROR_INVALID_VALUE);
	wanted = allocation(4096);
	NEED(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &wanted));
	NEED(cuGraphAddMemFreeNode(&freeing, graph, &node, 1, wanted.dptr));
	GIVES(cuGraphAddMemFreeNode(&again, graph, &node, 1, wanted.dptr), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuGraphClone(&copy, graph), CUDA_ERROR_NOT_SUPPORTED);
	GIVES(cuGraphDestroyNode(node), CUDA_ERROR_NOT_SUPPORTED);
	NEED(cuGraphInstantiate(&first, graph, 0));
	GIVES(cuGraphInstantiate(&second, graph, 0), CUDA_ERROR_NOT_SUPPORTED); // once only
	WORKS(cuGraphExecDestroy(first));
	WORKS(cuGraphDestroy(graph));
}

// Adds a condition that is true at every launch, and its node. Returns the body.
static CUgraph add_condition(CUgraph graph)
{
	CUgraphNodeParams wanted = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
	CUgraphNode node;

	NEED(cuGraphConditionalHandleCreate(&wanted.conditional.handle, graph, context, 1,
					    CU_GRAPH_COND_ASSIGN_DEFAULT));
	wanted.conditional.type = CU_GRAPH_COND_TYPE_IF;
	wanted.conditional.size = 1;
	wanted.conditional.ctx = context;
	NEED(cuGraphAddNode(&node, graph, NULL, NULL, 0, &wanted));
	HOLDS(wanted.conditional.phGraph_out != NULL);
	return wanted.conditional.phGraph_out[0];
}

// Checks that an executable graph works after its definition was destroyed.
CONFORM(a_condition_outlives_its_definition)
{
	CUgraph graph;
	CUgraphNode inside;
	CUgraphExec exec;
	CUdeviceptr address, other;
	unsigned value = 5, word = 0;

	need_graph_parts();
	NEED(cuMemAlloc(&address, 4));
	NEED(cuGraphCreate(&graph, 0));
	CUgraph body = add_condition(graph);
	void *arguments[] = {&address, &value};
	CUDA_KERNEL_NODE_PARAMS kernel_node = kernel_parameters(arguments);
	NEED(cuGraphAddKernelNode(&inside, body, NULL, 0, &kernel_node));
	NEED(cuGraphInstantiate(&exec, graph, 0));
	WORKS(cuGraphDestroy(graph));
	NEED(cuMemAlloc(&other, 4)); // may get memory that the destroyed graph used
	WORKS(cuMemsetD32(other, 7, 1));
	for (int launch = 0; launch < 2; launch++) {
		WORKS(cuMemsetD32(address, 0, 1));
		WORKS(cuCtxSynchronize());
		WORKS(cuGraphLaunch(exec, stream));
		WORKS(cuStreamSynchronize(stream));
		WORKS(cuMemcpyDtoH(&word, address, 4));
		EQUALS(word, 5);
	}
	WORKS(cuMemcpyDtoH(&word, other, 4));
	EQUALS(word, 7);
	WORKS(cuGraphExecDestroy(exec));
	WORKS(cuMemFree(other));
	WORKS(cuMemFree(address));
}

CONFORM(conditionals)
{
	CUgraph graph;
	CUgraphNode inside;
	CUgraphExec exec;
	CUdeviceptr address;
	unsigned value = 3, word = 0;

	need_graph_parts();
	NEED(cuMemAlloc(&address, 4));
	NEED(cuMemsetD32(address, 0, 1));
	NEED(cuCtxSynchronize());
	NEED(cuGraphCreate(&graph, 0));
	CUgraph body = add_condition(graph);
	void *arguments[] = {&address, &value};
	CUDA_KERNEL_NODE_PARAMS kernel_node = kernel_parameters(arguments);
	NEED(cuGraphAddKernelNode(&inside, body, NULL, 0, &kernel_node));
	CUgraph other;
	CUgraphNode copy;
	NEED(cuGraphCreate(&other, 0));
	GIVES(cuGraphAddChildGraphNode(&copy, other, NULL, 0, body), CUDA_ERROR_NOT_SUPPORTED);
	WORKS(cuGraphDestroy(other));
	NEED(cuGraphInstantiate(&exec, graph, 0));
	WORKS(cuGraphLaunch(exec, stream));
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuMemcpyDtoH(&word, address, 4));
	EQUALS(word, 3);
	WORKS(cuGraphExecDestroy(exec));
	WORKS(cuGraphDestroy(graph));
	WORKS(cuMemFree(address));
}

CONFORM(graphs_with_memory_lose_nothing)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {
		.bytesize = 64,
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}}};
	CUgraphNode first, allocation, last;
	CUmemorytype type;
	CUgraphExec exec;
	CUgraph graph;

	need_graph_parts();
	NEED(cuGraphCreate(&graph, 0));
	NEED(cuGraphAddEmptyNode(&first, graph, NULL, 0));
	NEED(cuGraphAddMemAllocNode(&allocation, graph, NULL, 0, &params));
	NEED(cuGraphAddEmptyNode(&last, graph, &allocation, 1));
	GIVES(cuGraphDestroyNode(first), CUDA_ERROR_NOT_SUPPORTED);
	GIVES(cuGraphRemoveDependencies(graph, &allocation, &last, NULL, 1), CUDA_ERROR_NOT_SUPPORTED);
	WORKS(cuGraphAddDependencies(graph, &first, &last, NULL, 1));
	// The memory's address is fixed (params.dptr), but queries of the address fail until a launch allocates the
	// memory.
	NEED(cuGraphInstantiate(&exec, graph, 0));
	GIVES(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, params.dptr), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuGraphLaunch(exec, stream));
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, params.dptr));
	EQUALS(type, CU_MEMORYTYPE_DEVICE);
	WORKS(cuMemFreeAsync(params.dptr, stream));
	WORKS(cuStreamSynchronize(stream));
	GIVES(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, params.dptr), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuGraphExecDestroy(exec));
	WORKS(cuGraphDestroy(graph));
}

CONFORM(graphs_of_nodes_are_not_embedded)
{
	CUgraph graph, child, other, own, copy;
	CUgraphExecUpdateResultInfo info;
	CUgraphExec exec;
	CUgraphNode node;

	need_graph_parts();
	NEED(cuGraphCreate(&graph, 0));
	NEED(cuGraphCreate(&child, 0));
	NEED(cuGraphCreate(&other, 0));
	WORKS(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
	WORKS(cuGraphChildGraphNodeGetGraph(node, &own));
	GIVES(cuGraphAddChildGraphNode(&node, other, NULL, 0, own), CUDA_ERROR_NOT_SUPPORTED);
	GIVES(cuGraphAddChildGraphNode(&node, graph, NULL, 0, own), CUDA_ERROR_NOT_SUPPORTED);
	WORKS(cuGraphAddChildGraphNode(&node, own, NULL, 0, other));
	GIVES(cuGraphInstantiate(&exec, own, 0), CUDA_ERROR_NOT_SUPPORTED);
	GIVES(cuGraphDestroy(own), CUDA_ERROR_INVALID_VALUE);
	NEED(cuGraphInstantiate(&exec, graph, 0));
	GIVES(cuGraphExecUpdate(exec, own, &info), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuGraphExecDestroy(exec));
	WORKS(cuGraphClone(&copy, own)); // the clone has no parent graph
	WORKS(cuGraphAddChildGraphNode(&node, other, NULL, 0, copy));
	WORKS(cuGraphDestroy(copy));
	WORKS(cuGraphDestroy(graph));
	WORKS(cuGraphDestroy(child));
	WORKS(cuGraphDestroy(other));
}

CONFORM(out_of_memory_at_launch)
{
	CUgraph graph;
	CUgraphExec exec = NULL;
	CUgraphNode node;
	size_t available, total;

	need_graph_parts();
	NEED(cuMemGetInfo(&available, &total));
	NEED(cuGraphCreate(&graph, 0));
	CUDA_MEM_ALLOC_NODE_PARAMS wanted = allocation(total + GiB);
	CUresult added = cuGraphAddMemAllocNode(&node, graph, NULL, 0, &wanted);
	if (added == CUDA_SUCCESS) {
		CUresult made = cuGraphInstantiate(&exec, graph, 0);
		if (made == CUDA_SUCCESS) {
			GIVES(cuGraphLaunch(exec, stream), CUDA_ERROR_OUT_OF_MEMORY);
			WORKS(cuGraphExecDestroy(exec));
		} else {
			GIVES(made, CUDA_ERROR_OUT_OF_MEMORY);
		}
	} else {
		GIVES(added, CUDA_ERROR_OUT_OF_MEMORY);
	}
	WORKS(cuGraphDestroy(graph));
	WORKS(cuCtxSynchronize());
}

static long printed(CUgraph graph, const char *path, unsigned flags)
{
	char text[64] = "";
	long size;

	WORKS(cuGraphDebugDotPrint(graph, path, flags));
	FILE *file = fopen(path, "r");
	if (!file)
		return -1;
	HOLDS(fread(text, 1, sizeof text - 1, file) > 0 && strncmp(text, "digraph", 7) == 0);
	fseek(file, 0, SEEK_END);
	size = ftell(file);
	fclose(file);
	return size;
}

CONFORM(printed_for_people)
{
	CUDA_MEMSET_NODE_PARAMS set = {.value = 1, .elementSize = 4, .width = 4, .height = 1};
	CUDA_KERNEL_NODE_PARAMS launch = {
		.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1};
	char path[] = "/tmp/virgate-dot-XXXXXX";
	CUgraphNode first, second;
	CUdeviceptr address;
	CUgraph graph;

	need_context();
	close(mkstemp(path));
	launch.func = need_function(need_module(ptx_basic), "empty");
	NEED(cuMemAlloc(&address, 64));
	set.dst = address;
	NEED(cuGraphCreate(&graph, 0));
	NEED(cuGraphAddMemsetNode(&first, graph, NULL, 0, &set, context));
	NEED(cuGraphAddKernelNode(&second, graph, &first, 1, &launch));
	long plain = printed(graph, path, 0);
	HOLDS(plain > 0);
	for (unsigned bit = 0; bit < 16; bit++)
		HOLDS(printed(graph, path, 1u << bit) > 0);
	HOLDS(printed(graph, path, CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE) > plain);
	HOLDS(printed(graph, path, CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS) > plain);
	HOLDS(printed(graph, path, CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS) > plain);
	HOLDS(printed(graph, path, CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES) > plain);
	FAILS(cuGraphDebugDotPrint(graph, NULL, 0));
	FAILS(cuGraphDebugDotPrint(graph, "/nowhere/at/all", 0));
	WORKS(cuGraphDestroy(graph));
	WORKS(cuMemFree(address));
	unlink(path);
}
