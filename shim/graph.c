// Hooks the functions of graphs. Charges a graph when it is instantiated or launched, and charges for the nodes that
// allocate memory when they are added.
#include "shim/graph_charge.h"
#include "shim/raise.h"

#define INSTANTIATE(abi, executable, graph, ...)                                                                 \
	do {                                                                                                     \
		uint64_t bytes;                                                                                  \
		CUresult result = shim_graph_begin_instantiate(VG_ENTRY_##abi, graph, &bytes);                   \
		if (result != CUDA_SUCCESS)                                                                      \
			return result;                                                                           \
		return shim_graph_end_instantiate(REAL(abi)(executable, graph, __VA_ARGS__), executable, bytes); \
	} while (0)

SHIM_EXPORT CUresult CUDAAPI cuGraphInstantiate(CUgraphExec *executable, CUgraph graph, CUgraphNode *node, char *log,
						size_t size)
{
	INSTANTIATE(cuGraphInstantiate, executable, graph, node, log, size);
}

SHIM_EXPORT CUresult CUDAAPI cuGraphInstantiate_v2(CUgraphExec *executable, CUgraph graph, CUgraphNode *node, char *log,
						   size_t size)
{
	INSTANTIATE(cuGraphInstantiate_v2, executable, graph, node, log, size);
}

SHIM_EXPORT CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph,
							 unsigned long long flags)
{
	INSTANTIATE(cuGraphInstantiateWithFlags, executable, graph, flags);
}

SHIM_EXPORT CUresult CUDAAPI cuGraphInstantiateWithParams(CUgraphExec *executable, CUgraph graph,
							  CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)
{
	INSTANTIATE(cuGraphInstantiateWithParams, executable, graph, parameters);
}

SHIM_EXPORT CUresult CUDAAPI cuGraphInstantiateWithParams_ptsz(CUgraphExec *executable, CUgraph graph,
							       CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)
{
	INSTANTIATE(cuGraphInstantiateWithParams_ptsz, executable, graph, parameters);
}

SHIM_EXPORT CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec executable)
{
	struct shim_record record;
	CUresult result;

	if (!shim_counting() || !shim_record_remove(SHIM_GRAPH_EXEC, (uintptr_t)executable, &record))
		return REAL(cuGraphExecDestroy)(executable);
	result = REAL(cuGraphExecDestroy)(executable);
	if (result == CUDA_SUCCESS)
		shim_graph_forget(&record);
	else
		shim_record_put(&record);
	return result;
}

// Sets the charges of graphs after a launch or upload: for a graph that allocates, the driver may have reserved more
// memory.
static inline CUresult reconcile_after(CUresult result)
{
	if (__builtin_expect(shim_graph_count != 0, 0))
		shim_graphs_reconcile();
	return result;
}

#define RUN(abi)                                                                  \
	SHIM_EXPORT CUresult CUDAAPI abi(CUgraphExec executable, CUstream stream) \
	{                                                                         \
		return reconcile_after(REAL(abi)(executable, stream));            \
	}
RUN(cuGraphLaunch)
RUN(cuGraphLaunch_ptsz)
RUN(cuGraphUpload)
RUN(cuGraphUpload_ptsz)

SHIM_EXPORT CUresult CUDAAPI cuDeviceGraphMemTrim(CUdevice device)
{
	CUresult result = REAL(cuDeviceGraphMemTrim)(device);

	if (result == CUDA_SUCCESS && shim_counting())
		shim_graphs_reconcile();
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
						    size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *parameters)
{
	shim_may_have_graph_memory = true;
	return REAL(cuGraphAddMemAllocNode)(node, graph, dependencies, count, parameters);
}

// The body of a hook that adds a graph node of any type: charges what the launch of the node will need, and then adds
// the node.
#define ADD_NODE(abi, parameters, ...)                                                       \
	do {                                                                                 \
		CUresult result = shim_raise_for_node(VG_ENTRY_##abi, parameters);           \
		if (parameters && parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)          \
			shim_may_have_graph_memory = true;                                   \
		return result != CUDA_SUCCESS ? result : REAL(abi)(__VA_ARGS__, parameters); \
	} while (0)

SHIM_EXPORT CUresult CUDAAPI cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
					    size_t count, CUgraphNodeParams *parameters)
{
	ADD_NODE(cuGraphAddNode, parameters, node, graph, dependencies, count);
}

SHIM_EXPORT CUresult CUDAAPI cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
					       const CUgraphEdgeData *edges, size_t count,
					       CUgraphNodeParams *parameters)
{
	ADD_NODE(cuGraphAddNode_v2, parameters, node, graph, dependencies, edges, count);
}
