// Executable graphs.
#include "runtime.h"

cudaError_t CUDARTAPI cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags)
{
	RT_CALL(rt_driver.cuGraphInstantiateWithFlags(pGraphExec, graph, flags));
}

cudaError_t CUDARTAPI cudaGraphInstantiateWithFlags(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
						    unsigned long long flags)
{
	RT_CALL(rt_driver.cuGraphInstantiateWithFlags(pGraphExec, graph, flags));
}

cudaError_t CUDARTAPI cudaGraphExecGetFlags(cudaGraphExec_t graphExec, unsigned long long *flags)
{
	RT_CALL(rt_driver.cuGraphExecGetFlags(graphExec, (cuuint64_t *)flags));
}

cudaError_t CUDARTAPI cudaGraphNodeSetEnabled(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, unsigned int isEnabled)
{
	RT_CALL(rt_driver.cuGraphNodeSetEnabled(hGraphExec, hNode, isEnabled));
}

cudaError_t CUDARTAPI cudaGraphNodeGetEnabled(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
					      unsigned int *isEnabled)
{
	RT_CALL(rt_driver.cuGraphNodeGetEnabled(hGraphExec, hNode, isEnabled));
}

_Static_assert(sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo), "passed unchanged");

cudaError_t CUDARTAPI cudaGraphExecUpdate(cudaGraphExec_t hGraphExec, cudaGraph_t hGraph,
					  cudaGraphExecUpdateResultInfo *resultInfo)
{
	RT_CALL(rt_driver.cuGraphExecUpdate_v2(hGraphExec, hGraph, (CUgraphExecUpdateResultInfo *)resultInfo));
}

cudaError_t CUDARTAPI cudaGraphExecDestroy(cudaGraphExec_t graphExec)
{
	RT_CALL(rt_driver.cuGraphExecDestroy(graphExec));
}
