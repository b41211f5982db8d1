// Implements the functions that launch graphs. Compiled twice, for the legacy and the per-thread default stream.
#include "runtime.h"

_Static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS), "passed unchanged");

cudaError_t CUDARTAPI cudaGraphInstantiateWithParams(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
						     cudaGraphInstantiateParams *instantiateParams)
{
	RT_CALL(RT_PTSZ(cuGraphInstantiateWithParams)(pGraphExec, graph,
						      (CUDA_GRAPH_INSTANTIATE_PARAMS *)instantiateParams));
}

cudaError_t CUDARTAPI cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream)
{
	RT_CALL(RT_PTSZ(cuGraphUpload)(graphExec, stream));
}

cudaError_t CUDARTAPI cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream)
{
	RT_CALL(RT_PTSZ(cuGraphLaunch)(graphExec, stream));
}
