// Implements the functions for graph nodes that copy or set memory.
#include "graph.h"

static cudaError_t add_copy(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
			    size_t numDependencies, const CUDA_MEMCPY3D_v2 *copy)
{
	return rt_error(rt_driver.cuGraphAddMemcpyNode(pGraphNode, graph, pDependencies, numDependencies, copy,
						       rt_current_context()));
}

static cudaError_t set_copy(cudaGraphExec_t exec, cudaGraphNode_t node, const CUDA_MEMCPY3D_v2 *copy)
{
	return rt_error(exec ? rt_driver.cuGraphExecMemcpyNodeSetParams(exec, node, copy, rt_current_context())
			     : rt_driver.cuGraphMemcpyNodeSetParams(node, copy));
}

static cudaError_t describe_symbol_copy(bool writes, const void *symbol, size_t offset, void *other, size_t size,
					enum cudaMemcpyKind kind, CUDA_MEMCPY3D_v2 *ret_copy)
{
	void *address;

	if (kind != cudaMemcpyDefault && kind != cudaMemcpyDeviceToDevice &&
	    kind != (writes ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost))
		return cudaErrorInvalidMemcpyDirection;
	RT_TRY(rt_variable_range(symbol, offset, size, &address));
	return rt_copy_1d(writes ? address : other, writes ? other : address, size, kind, ret_copy);
}

// Is the body of an entry point: makes the description `copy` by `describe`, and calls `use`.
#define WITH_COPY(describe, use)                                    \
	do {                                                        \
		CUDA_MEMCPY3D_v2 copy;                              \
		cudaError_t made = rt_enter();                      \
		if (made == cudaSuccess)                            \
			made = describe;                            \
		return rt_record(made == cudaSuccess ? use : made); \
	} while (0)

cudaError_t CUDARTAPI cudaGraphAddMemcpyNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
					     const cudaGraphNode_t *pDependencies, size_t numDependencies,
					     const struct cudaMemcpy3DParms *pCopyParams)
{
	WITH_COPY(rt_copy_3d(pCopyParams, &copy), add_copy(pGraphNode, graph, pDependencies, numDependencies, &copy));
}

cudaError_t CUDARTAPI cudaGraphAddMemcpyNode1D(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
					       const cudaGraphNode_t *pDependencies, size_t numDependencies, void *dst,
					       const void *src, size_t count, enum cudaMemcpyKind kind)
{
	WITH_COPY(rt_copy_1d(dst, src, count, kind, &copy),
		  add_copy(pGraphNode, graph, pDependencies, numDependencies, &copy));
}

cudaError_t CUDARTAPI cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
						     const cudaGraphNode_t *pDependencies, size_t numDependencies,
						     const void *symbol, const void *src, size_t count, size_t offset,
						     enum cudaMemcpyKind kind)
{
	WITH_COPY(describe_symbol_copy(true, symbol, offset, (void *)src, count, kind, &copy),
		  add_copy(pGraphNode, graph, pDependencies, numDependencies, &copy));
}

cudaError_t CUDARTAPI cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
						       const cudaGraphNode_t *pDependencies, size_t numDependencies,
						       void *dst, const void *symbol, size_t count, size_t offset,
						       enum cudaMemcpyKind kind)
{
	WITH_COPY(describe_symbol_copy(false, symbol, offset, dst, count, kind, &copy),
		  add_copy(pGraphNode, graph, pDependencies, numDependencies, &copy));
}

cudaError_t CUDARTAPI cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const struct cudaMemcpy3DParms *pCopyParams)
{
	WITH_COPY(rt_copy_3d(pCopyParams, &copy), set_copy(NULL, node, &copy));
}

cudaError_t CUDARTAPI cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *dst, const void *src, size_t count,
						     enum cudaMemcpyKind kind)
{
	WITH_COPY(rt_copy_1d(dst, src, count, kind, &copy), set_copy(NULL, node, &copy));
}

cudaError_t CUDARTAPI cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void *symbol, const void *src,
							   size_t count, size_t offset, enum cudaMemcpyKind kind)
{
	WITH_COPY(describe_symbol_copy(true, symbol, offset, (void *)src, count, kind, &copy),
		  set_copy(NULL, node, &copy));
}

cudaError_t CUDARTAPI cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void *dst, const void *symbol,
							     size_t count, size_t offset, enum cudaMemcpyKind kind)
{
	WITH_COPY(describe_symbol_copy(false, symbol, offset, dst, count, kind, &copy), set_copy(NULL, node, &copy));
}

cudaError_t CUDARTAPI cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
						       const struct cudaMemcpy3DParms *pCopyParams)
{
	WITH_COPY(rt_copy_3d(pCopyParams, &copy),
		  (hGraphExec ? set_copy(hGraphExec, node, &copy) : cudaErrorInvalidValue));
}

cudaError_t CUDARTAPI cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t hGraphExec, cudaGraphNode_t node, void *dst,
							 const void *src, size_t count, enum cudaMemcpyKind kind)
{
	WITH_COPY(rt_copy_1d(dst, src, count, kind, &copy),
		  (hGraphExec ? set_copy(hGraphExec, node, &copy) : cudaErrorInvalidValue));
}

cudaError_t CUDARTAPI cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
							       const void *symbol, const void *src, size_t count,
							       size_t offset, enum cudaMemcpyKind kind)
{
	WITH_COPY(describe_symbol_copy(true, symbol, offset, (void *)src, count, kind, &copy),
		  (hGraphExec ? set_copy(hGraphExec, node, &copy) : cudaErrorInvalidValue));
}

cudaError_t CUDARTAPI cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
								 void *dst, const void *symbol, size_t count,
								 size_t offset, enum cudaMemcpyKind kind)
{
	WITH_COPY(describe_symbol_copy(false, symbol, offset, dst, count, kind, &copy),
		  (hGraphExec ? set_copy(hGraphExec, node, &copy) : cudaErrorInvalidValue));
}

static cudaError_t get_copy(cudaGraphNode_t node, struct cudaMemcpy3DParms *ret_copy)
{
	CUDA_MEMCPY3D_v2 copy;

	if (!ret_copy)
		return cudaErrorInvalidValue;
	RT_TRY(rt_driver.cuGraphMemcpyNodeGetParams(node, &copy));
	return rt_copy_3d_back(&copy, ret_copy);
}

cudaError_t CUDARTAPI cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, struct cudaMemcpy3DParms *pNodeParams)
{
	RT_CALL(get_copy(node, pNodeParams));
}

_Static_assert(sizeof(struct cudaMemsetParams) == sizeof(CUDA_MEMSET_NODE_PARAMS), "passed unchanged");

cudaError_t CUDARTAPI cudaGraphAddMemsetNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
					     const cudaGraphNode_t *pDependencies, size_t numDependencies,
					     const struct cudaMemsetParams *pMemsetParams)
{
	RT_CALL(rt_driver.cuGraphAddMemsetNode(pGraphNode, graph, pDependencies, numDependencies,
					       (const CUDA_MEMSET_NODE_PARAMS *)pMemsetParams, rt_current_context()));
}

cudaError_t CUDARTAPI cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, struct cudaMemsetParams *pNodeParams)
{
	RT_CALL(rt_driver.cuGraphMemsetNodeGetParams(node, (CUDA_MEMSET_NODE_PARAMS *)pNodeParams));
}

cudaError_t CUDARTAPI cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const struct cudaMemsetParams *pNodeParams)
{
	RT_CALL(rt_driver.cuGraphMemsetNodeSetParams(node, (const CUDA_MEMSET_NODE_PARAMS *)pNodeParams));
}

cudaError_t CUDARTAPI cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
						       const struct cudaMemsetParams *pNodeParams)
{
	RT_CALL(rt_driver.cuGraphExecMemsetNodeSetParams(hGraphExec, node, (const CUDA_MEMSET_NODE_PARAMS *)pNodeParams,
							 rt_current_context()));
}
