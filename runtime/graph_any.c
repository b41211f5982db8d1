// Implements the functions for nodes of any type (cudaGraphNodeParams). Also implements those for nodes that allocate
// memory or use semaphores of other interfaces.
#include "graph.h"

_Static_assert(sizeof(struct cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS), "passed unchanged");

cudaError_t CUDARTAPI cudaGraphAddMemAllocNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
					       const cudaGraphNode_t *pDependencies, size_t numDependencies,
					       struct cudaMemAllocNodeParams *nodeParams)
{
	RT_CALL(rt_driver.cuGraphAddMemAllocNode(pGraphNode, graph, pDependencies, numDependencies,
						 (CUDA_MEM_ALLOC_NODE_PARAMS *)nodeParams));
}

cudaError_t CUDARTAPI cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, struct cudaMemAllocNodeParams *params_out)
{
	RT_CALL(rt_driver.cuGraphMemAllocNodeGetParams(node, (CUDA_MEM_ALLOC_NODE_PARAMS *)params_out));
}

cudaError_t CUDARTAPI cudaGraphAddMemFreeNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
					      const cudaGraphNode_t *pDependencies, size_t numDependencies, void *dptr)
{
	RT_CALL(rt_driver.cuGraphAddMemFreeNode(pGraphNode, graph, pDependencies, numDependencies, (CUdeviceptr)dptr));
}

cudaError_t CUDARTAPI cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void *dptr_out)
{
	RT_CALL(rt_driver.cuGraphMemFreeNodeGetParams(node, dptr_out));
}

_Static_assert(sizeof(struct cudaExternalSemaphoreSignalNodeParams) == sizeof(CUDA_EXT_SEM_SIGNAL_NODE_PARAMS),
	       "passed unchanged");

cudaError_t CUDARTAPI cudaGraphAddExternalSemaphoresSignalNode(
	cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies, size_t numDependencies,
	const struct cudaExternalSemaphoreSignalNodeParams *nodeParams)
{
	RT_CALL(rt_driver.cuGraphAddExternalSemaphoresSignalNode(pGraphNode, graph, pDependencies, numDependencies,
								 (const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *)nodeParams));
}

cudaError_t CUDARTAPI cudaGraphExternalSemaphoresSignalNodeGetParams(
	cudaGraphNode_t hNode, struct cudaExternalSemaphoreSignalNodeParams *params_out)
{
	RT_CALL(rt_driver.cuGraphExternalSemaphoresSignalNodeGetParams(hNode,
								       (CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *)params_out));
}

cudaError_t CUDARTAPI cudaGraphExternalSemaphoresSignalNodeSetParams(
	cudaGraphNode_t hNode, const struct cudaExternalSemaphoreSignalNodeParams *nodeParams)
{
	RT_CALL(rt_driver.cuGraphExternalSemaphoresSignalNodeSetParams(
		hNode, (const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *)nodeParams));
}

cudaError_t CUDARTAPI
cudaGraphExecExternalSemaphoresSignalNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
						   const struct cudaExternalSemaphoreSignalNodeParams *nodeParams)
{
	RT_CALL(rt_driver.cuGraphExecExternalSemaphoresSignalNodeSetParams(
		hGraphExec, hNode, (const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *)nodeParams));
}

_Static_assert(sizeof(struct cudaExternalSemaphoreWaitNodeParams) == sizeof(CUDA_EXT_SEM_WAIT_NODE_PARAMS),
	       "passed unchanged");

cudaError_t CUDARTAPI cudaGraphAddExternalSemaphoresWaitNode(
	cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies, size_t numDependencies,
	const struct cudaExternalSemaphoreWaitNodeParams *nodeParams)
{
	RT_CALL(rt_driver.cuGraphAddExternalSemaphoresWaitNode(pGraphNode, graph, pDependencies, numDependencies,
							       (const CUDA_EXT_SEM_WAIT_NODE_PARAMS *)nodeParams));
}

cudaError_t CUDARTAPI cudaGraphExternalSemaphoresWaitNodeGetParams(
	cudaGraphNode_t hNode, struct cudaExternalSemaphoreWaitNodeParams *params_out)
{
	RT_CALL(rt_driver.cuGraphExternalSemaphoresWaitNodeGetParams(hNode,
								     (CUDA_EXT_SEM_WAIT_NODE_PARAMS *)params_out));
}

cudaError_t CUDARTAPI cudaGraphExternalSemaphoresWaitNodeSetParams(
	cudaGraphNode_t hNode, const struct cudaExternalSemaphoreWaitNodeParams *nodeParams)
{
	RT_CALL(rt_driver.cuGraphExternalSemaphoresWaitNodeSetParams(
		hNode, (const CUDA_EXT_SEM_WAIT_NODE_PARAMS *)nodeParams));
}

cudaError_t CUDARTAPI cudaGraphExecExternalSemaphoresWaitNodeSetParams(
	cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, const struct cudaExternalSemaphoreWaitNodeParams *nodeParams)
{
	RT_CALL(rt_driver.cuGraphExecExternalSemaphoresWaitNodeSetParams(
		hGraphExec, hNode, (const CUDA_EXT_SEM_WAIT_NODE_PARAMS *)nodeParams));
}

static cudaError_t add_node(cudaGraphNode_t *ret_node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
			    const cudaGraphEdgeData *edges, size_t count, struct cudaGraphNodeParams *params)
{
	CUgraphNodeParams made;

	RT_TRY(rt_node(params, &made));
	RT_TRY(rt_driver.cuGraphAddNode_v2(ret_node, graph, dependencies, (const CUgraphEdgeData *)edges, count,
					   &made));
	rt_node_results(&made, params);
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGraphAddNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
				       const cudaGraphNode_t *pDependencies, const cudaGraphEdgeData *dependencyData,
				       size_t numDependencies, struct cudaGraphNodeParams *nodeParams)
{
	RT_CALL(add_node(pGraphNode, graph, pDependencies, dependencyData, numDependencies, nodeParams));
}

static cudaError_t set_params(cudaGraphExec_t exec, cudaGraphNode_t node, const struct cudaGraphNodeParams *params)
{
	CUgraphNodeParams made;

	RT_TRY(rt_node(params, &made));
	return rt_error(exec ? rt_driver.cuGraphExecNodeSetParams(exec, node, &made)
			     : rt_driver.cuGraphNodeSetParams(node, &made));
}

cudaError_t CUDARTAPI cudaGraphNodeSetParams(cudaGraphNode_t node, struct cudaGraphNodeParams *nodeParams)
{
	RT_CALL(set_params(NULL, node, nodeParams));
}

cudaError_t CUDARTAPI cudaGraphExecNodeSetParams(cudaGraphExec_t graphExec, cudaGraphNode_t node,
						 struct cudaGraphNodeParams *nodeParams)
{
	RT_CALL(graphExec ? set_params(graphExec, node, nodeParams) : cudaErrorInvalidValue);
}
