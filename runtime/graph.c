// Implements the functions for graphs: nodes and edges, clones, user objects.
#include "runtime.h"

_Static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData), "edges are passed unchanged");

cudaError_t CUDARTAPI cudaGraphCreate(cudaGraph_t *pGraph, unsigned int flags)
{
	RT_CALL(rt_driver.cuGraphCreate(pGraph, flags));
}

cudaError_t CUDARTAPI cudaGraphDestroy(cudaGraph_t graph)
{
	RT_CALL(rt_driver.cuGraphDestroy(graph));
}

cudaError_t CUDARTAPI cudaGraphClone(cudaGraph_t *pGraphClone, cudaGraph_t originalGraph)
{
	RT_CALL(rt_driver.cuGraphClone(pGraphClone, originalGraph));
}

cudaError_t CUDARTAPI cudaGraphNodeFindInClone(cudaGraphNode_t *pNode, cudaGraphNode_t originalNode,
					       cudaGraph_t clonedGraph)
{
	RT_CALL(rt_driver.cuGraphNodeFindInClone(pNode, originalNode, clonedGraph));
}

cudaError_t CUDARTAPI cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *pType)
{
	RT_CALL(rt_driver.cuGraphNodeGetType(node, (CUgraphNodeType *)pType));
}

cudaError_t CUDARTAPI cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes)
{
	RT_CALL(rt_driver.cuGraphGetNodes(graph, nodes, numNodes));
}

cudaError_t CUDARTAPI cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *pRootNodes, size_t *pNumRootNodes)
{
	RT_CALL(rt_driver.cuGraphGetRootNodes(graph, pRootNodes, pNumRootNodes));
}

cudaError_t CUDARTAPI cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
					cudaGraphEdgeData *edgeData, size_t *numEdges)
{
	RT_CALL(rt_driver.cuGraphGetEdges_v2(graph, from, to, (CUgraphEdgeData *)edgeData, numEdges));
}

cudaError_t CUDARTAPI cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *pDependencies,
						   cudaGraphEdgeData *edgeData, size_t *pNumDependencies)
{
	RT_CALL(rt_driver.cuGraphNodeGetDependencies_v2(node, pDependencies, (CUgraphEdgeData *)edgeData,
							pNumDependencies));
}

cudaError_t CUDARTAPI cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *pDependentNodes,
						     cudaGraphEdgeData *edgeData, size_t *pNumDependentNodes)
{
	RT_CALL(rt_driver.cuGraphNodeGetDependentNodes_v2(node, pDependentNodes, (CUgraphEdgeData *)edgeData,
							  pNumDependentNodes));
}

cudaError_t CUDARTAPI cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
					       const cudaGraphNode_t *to, const cudaGraphEdgeData *edgeData,
					       size_t numDependencies)
{
	RT_CALL(rt_driver.cuGraphAddDependencies_v2(graph, from, to, (const CUgraphEdgeData *)edgeData,
						    numDependencies));
}

cudaError_t CUDARTAPI cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
						  const cudaGraphNode_t *to, const cudaGraphEdgeData *edgeData,
						  size_t numDependencies)
{
	RT_CALL(rt_driver.cuGraphRemoveDependencies_v2(graph, from, to, (const CUgraphEdgeData *)edgeData,
						       numDependencies));
}

cudaError_t CUDARTAPI cudaGraphDestroyNode(cudaGraphNode_t node)
{
	RT_CALL(rt_driver.cuGraphDestroyNode(node));
}

cudaError_t CUDARTAPI cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned int flags)
{
	RT_CALL(rt_driver.cuGraphDebugDotPrint(graph, path, flags));
}

static cudaError_t create_handle(cudaGraphConditionalHandle *ret_handle, cudaGraph_t graph, unsigned value,
				 unsigned flags)
{
	CUcontext context;

	RT_TRY(rt_driver.cuCtxGetCurrent(&context));
	return rt_error(rt_driver.cuGraphConditionalHandleCreate((CUgraphConditionalHandle *)ret_handle, graph, context,
								 value, flags));
}

cudaError_t CUDARTAPI cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *pHandle_out, cudaGraph_t graph,
						       unsigned int defaultLaunchValue, unsigned int flags)
{
	RT_CALL(create_handle(pHandle_out, graph, defaultLaunchValue, flags));
}

cudaError_t CUDARTAPI cudaUserObjectCreate(cudaUserObject_t *object_out, void *ptr, cudaHostFn_t destroy,
					   unsigned int initialRefcount, unsigned int flags)
{
	RT_CALL(rt_driver.cuUserObjectCreate(object_out, ptr, destroy, initialRefcount, flags));
}

cudaError_t CUDARTAPI cudaUserObjectRetain(cudaUserObject_t object, unsigned int count)
{
	RT_CALL(rt_driver.cuUserObjectRetain(object, count));
}

cudaError_t CUDARTAPI cudaUserObjectRelease(cudaUserObject_t object, unsigned int count)
{
	RT_CALL(rt_driver.cuUserObjectRelease(object, count));
}

cudaError_t CUDARTAPI cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count,
						unsigned int flags)
{
	RT_CALL(rt_driver.cuGraphRetainUserObject(graph, object, count, flags));
}

cudaError_t CUDARTAPI cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count)
{
	RT_CALL(rt_driver.cuGraphReleaseUserObject(graph, object, count));
}
