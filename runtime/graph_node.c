// Implements the functions for graph nodes of kernels, host functions, child graphs and events.
#include "graph.h"

static cudaError_t add_kernel(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
			      size_t numDependencies, const struct cudaKernelNodeParams *params)
{
	CUDA_KERNEL_NODE_PARAMS_v2 made;

	RT_TRY(rt_kernel_node(params, &made));
	return rt_error(rt_driver.cuGraphAddKernelNode_v2(pGraphNode, graph, pDependencies, numDependencies, &made));
}

cudaError_t CUDARTAPI cudaGraphAddKernelNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
					     const cudaGraphNode_t *pDependencies, size_t numDependencies,
					     const struct cudaKernelNodeParams *pNodeParams)
{
	RT_CALL(add_kernel(pGraphNode, graph, pDependencies, numDependencies, pNodeParams));
}

static cudaError_t get_kernel(cudaGraphNode_t node, struct cudaKernelNodeParams *ret_params)
{
	CUDA_KERNEL_NODE_PARAMS_v2 params;

	if (!ret_params)
		return cudaErrorInvalidValue;
	RT_TRY(rt_driver.cuGraphKernelNodeGetParams_v2(node, &params));
	*ret_params = rt_kernel_node_back(&params);
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGraphKernelNodeGetParams(cudaGraphNode_t node, struct cudaKernelNodeParams *pNodeParams)
{
	RT_CALL(get_kernel(node, pNodeParams));
}

static cudaError_t set_kernel(cudaGraphExec_t exec, cudaGraphNode_t node, const struct cudaKernelNodeParams *params)
{
	CUDA_KERNEL_NODE_PARAMS_v2 made;

	RT_TRY(rt_kernel_node(params, &made));
	return rt_error(exec ? rt_driver.cuGraphExecKernelNodeSetParams_v2(exec, node, &made)
			     : rt_driver.cuGraphKernelNodeSetParams_v2(node, &made));
}

cudaError_t CUDARTAPI cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const struct cudaKernelNodeParams *pNodeParams)
{
	RT_CALL(set_kernel(NULL, node, pNodeParams));
}

cudaError_t CUDARTAPI cudaGraphExecKernelNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
						       const struct cudaKernelNodeParams *pNodeParams)
{
	RT_CALL(hGraphExec ? set_kernel(hGraphExec, node, pNodeParams) : cudaErrorInvalidValue);
}

cudaError_t CUDARTAPI cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t hDst, cudaGraphNode_t hSrc)
{
	RT_CALL(rt_driver.cuGraphKernelNodeCopyAttributes(hDst, hSrc));
}

cudaError_t CUDARTAPI cudaGraphKernelNodeGetAttribute(cudaGraphNode_t hNode, cudaLaunchAttributeID attr,
						      cudaLaunchAttributeValue *value_out)
{
	RT_CALL(rt_driver.cuGraphKernelNodeGetAttribute(hNode, (CUlaunchAttributeID)attr,
							(CUlaunchAttributeValue *)value_out));
}

cudaError_t CUDARTAPI cudaGraphKernelNodeSetAttribute(cudaGraphNode_t hNode, cudaLaunchAttributeID attr,
						      const cudaLaunchAttributeValue *value)
{
	RT_CALL(rt_driver.cuGraphKernelNodeSetAttribute(hNode, (CUlaunchAttributeID)attr,
							(const CUlaunchAttributeValue *)value));
}

_Static_assert(sizeof(struct cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS), "passed unchanged");

cudaError_t CUDARTAPI cudaGraphAddHostNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
					   const cudaGraphNode_t *pDependencies, size_t numDependencies,
					   const struct cudaHostNodeParams *pNodeParams)
{
	RT_CALL(rt_driver.cuGraphAddHostNode(pGraphNode, graph, pDependencies, numDependencies,
					     (const CUDA_HOST_NODE_PARAMS *)pNodeParams));
}

cudaError_t CUDARTAPI cudaGraphHostNodeGetParams(cudaGraphNode_t node, struct cudaHostNodeParams *pNodeParams)
{
	RT_CALL(rt_driver.cuGraphHostNodeGetParams(node, (CUDA_HOST_NODE_PARAMS *)pNodeParams));
}

cudaError_t CUDARTAPI cudaGraphHostNodeSetParams(cudaGraphNode_t node, const struct cudaHostNodeParams *pNodeParams)
{
	RT_CALL(rt_driver.cuGraphHostNodeSetParams(node, (const CUDA_HOST_NODE_PARAMS *)pNodeParams));
}

cudaError_t CUDARTAPI cudaGraphExecHostNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
						     const struct cudaHostNodeParams *pNodeParams)
{
	RT_CALL(rt_driver.cuGraphExecHostNodeSetParams(hGraphExec, node, (const CUDA_HOST_NODE_PARAMS *)pNodeParams));
}

cudaError_t CUDARTAPI cudaGraphAddChildGraphNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
						 const cudaGraphNode_t *pDependencies, size_t numDependencies,
						 cudaGraph_t childGraph)
{
	RT_CALL(rt_driver.cuGraphAddChildGraphNode(pGraphNode, graph, pDependencies, numDependencies, childGraph));
}

cudaError_t CUDARTAPI cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t *pGraph)
{
	RT_CALL(rt_driver.cuGraphChildGraphNodeGetGraph(node, pGraph));
}

cudaError_t CUDARTAPI cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
							   cudaGraph_t childGraph)
{
	RT_CALL(rt_driver.cuGraphExecChildGraphNodeSetParams(hGraphExec, node, childGraph));
}

cudaError_t CUDARTAPI cudaGraphAddEmptyNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
					    const cudaGraphNode_t *pDependencies, size_t numDependencies)
{
	RT_CALL(rt_driver.cuGraphAddEmptyNode(pGraphNode, graph, pDependencies, numDependencies));
}

cudaError_t CUDARTAPI cudaGraphAddEventRecordNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
						  const cudaGraphNode_t *pDependencies, size_t numDependencies,
						  cudaEvent_t event)
{
	RT_CALL(rt_driver.cuGraphAddEventRecordNode(pGraphNode, graph, pDependencies, numDependencies, event));
}

cudaError_t CUDARTAPI cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event_out)
{
	RT_CALL(rt_driver.cuGraphEventRecordNodeGetEvent(node, event_out));
}

cudaError_t CUDARTAPI cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event)
{
	RT_CALL(rt_driver.cuGraphEventRecordNodeSetEvent(node, event));
}

cudaError_t CUDARTAPI cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
							   cudaEvent_t event)
{
	RT_CALL(rt_driver.cuGraphExecEventRecordNodeSetEvent(hGraphExec, hNode, event));
}

cudaError_t CUDARTAPI cudaGraphAddEventWaitNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
						const cudaGraphNode_t *pDependencies, size_t numDependencies,
						cudaEvent_t event)
{
	RT_CALL(rt_driver.cuGraphAddEventWaitNode(pGraphNode, graph, pDependencies, numDependencies, event));
}

cudaError_t CUDARTAPI cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event_out)
{
	RT_CALL(rt_driver.cuGraphEventWaitNodeGetEvent(node, event_out));
}

cudaError_t CUDARTAPI cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event)
{
	RT_CALL(rt_driver.cuGraphEventWaitNodeSetEvent(node, event));
}

cudaError_t CUDARTAPI cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
							 cudaEvent_t event)
{
	RT_CALL(rt_driver.cuGraphExecEventWaitNodeSetEvent(hGraphExec, hNode, event));
}
