// Hooks launches. Most launches jump directly to the driver. Launches are checked only while a noted kernel
// (shim/local.h) may make the driver allocate local memory.
#include "shim/raise.h"

#define LAUNCH(abi, function, stream, ...)                                                                  \
	do {                                                                                                \
		struct shim_raise raise;                                                                    \
		CUresult result;                                                                            \
		if (!SHIM_LAUNCH_WATCHED)                                                                   \
			return REAL(abi)(__VA_ARGS__);                                                      \
		result = shim_raise_for_launch(VG_ENTRY_##abi, function, stream, NULL, &raise);             \
		return result != CUDA_SUCCESS ? result : shim_raise_finish(REAL(abi)(__VA_ARGS__), &raise); \
	} while (0)

#define KERNEL(abi)                                                                                              \
	SHIM_EXPORT CUresult CUDAAPI abi(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,        \
					 unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared, \
					 CUstream stream, void **parameters, void **extra)                       \
	{                                                                                                        \
		LAUNCH(abi, f, stream, f, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra);            \
	}
KERNEL(cuLaunchKernel)
KERNEL(cuLaunchKernel_ptsz)

#define COOPERATIVE(abi)                                                                                         \
	SHIM_EXPORT CUresult CUDAAPI abi(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,        \
					 unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared, \
					 CUstream stream, void **parameters)                                     \
	{                                                                                                        \
		LAUNCH(abi, f, stream, f, gx, gy, gz, bx, by, bz, shared, stream, parameters);                   \
	}
COOPERATIVE(cuLaunchCooperativeKernel)
COOPERATIVE(cuLaunchCooperativeKernel_ptsz)

#define EXTENDED(abi)                                                                                                 \
	SHIM_EXPORT CUresult CUDAAPI abi(const CUlaunchConfig *config, CUfunction f, void **parameters, void **extra) \
	{                                                                                                             \
		LAUNCH(abi, f, config ? config->hStream : NULL, config, f, parameters, extra);                        \
	}
EXTENDED(cuLaunchKernelEx)
EXTENDED(cuLaunchKernelEx_ptsz)

SHIM_EXPORT CUresult CUDAAPI cuLaunch(CUfunction f)
{
	LAUNCH(cuLaunch, f, NULL, f);
}

SHIM_EXPORT CUresult CUDAAPI cuLaunchGrid(CUfunction f, int width, int height)
{
	LAUNCH(cuLaunchGrid, f, NULL, f, width, height);
}

SHIM_EXPORT CUresult CUDAAPI cuLaunchGridAsync(CUfunction f, int width, int height, CUstream stream)
{
	LAUNCH(cuLaunchGridAsync, f, stream, f, width, height, stream);
}

// If one of several launches fails, the local memory for the others stays charged: their contexts may have allocated it
// already.
SHIM_EXPORT CUresult CUDAAPI cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned int count,
								  unsigned int flags)
{
	struct shim_raise raise;
	CUresult result = CUDA_SUCCESS;

	for (unsigned int i = 0; SHIM_LAUNCH_WATCHED && list && i < count && result == CUDA_SUCCESS; i++)
		result = shim_raise_for_launch(VG_ENTRY_cuLaunchCooperativeKernelMultiDevice, list[i].function,
					       list[i].hStream, NULL, &raise);
	return result != CUDA_SUCCESS ? result : REAL(cuLaunchCooperativeKernelMultiDevice)(list, count, flags);
}

#define NODE(abi, function, context, ...)                                                        \
	do {                                                                                     \
		CUresult result = shim_raise_for_kernel_node(VG_ENTRY_##abi, function, context); \
		return result != CUDA_SUCCESS ? result : REAL(abi)(__VA_ARGS__);                 \
	} while (0)
#define FUNCTION_V1(parameters) ((parameters) ? (parameters)->func : NULL)
#define FUNCTION_V2(parameters) \
	(!(parameters) ? NULL : (parameters)->func ? (parameters)->func : (CUfunction)(parameters)->kern)
#define CONTEXT_V2(parameters) ((parameters) ? (parameters)->ctx : NULL)

SHIM_EXPORT CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
						  size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *parameters)
{
	NODE(cuGraphAddKernelNode, FUNCTION_V1(parameters), NULL, node, graph, dependencies, count, parameters);
}

SHIM_EXPORT CUresult CUDAAPI cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
						     size_t count, const CUDA_KERNEL_NODE_PARAMS *parameters)
{
	NODE(cuGraphAddKernelNode_v2, FUNCTION_V2(parameters), CONTEXT_V2(parameters), node, graph, dependencies, count,
	     parameters);
}

SHIM_EXPORT CUresult CUDAAPI cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *parameters)
{
	NODE(cuGraphKernelNodeSetParams, FUNCTION_V1(parameters), NULL, node, parameters);
}

SHIM_EXPORT CUresult CUDAAPI cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *parameters)
{
	NODE(cuGraphKernelNodeSetParams_v2, FUNCTION_V2(parameters), CONTEXT_V2(parameters), node, parameters);
}

SHIM_EXPORT CUresult CUDAAPI cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node,
							    const CUDA_KERNEL_NODE_PARAMS_v1 *parameters)
{
	NODE(cuGraphExecKernelNodeSetParams, FUNCTION_V1(parameters), NULL, executable, node, parameters);
}

SHIM_EXPORT CUresult CUDAAPI cuGraphExecKernelNodeSetParams_v2(CUgraphExec executable, CUgraphNode node,
							       const CUDA_KERNEL_NODE_PARAMS *parameters)
{
	NODE(cuGraphExecKernelNodeSetParams_v2, FUNCTION_V2(parameters), CONTEXT_V2(parameters), executable, node,
	     parameters);
}

SHIM_EXPORT CUresult CUDAAPI cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *parameters)
{
	CUresult result = shim_raise_for_node(VG_ENTRY_cuGraphNodeSetParams, parameters);

	return result != CUDA_SUCCESS ? result : REAL(cuGraphNodeSetParams)(node, parameters);
}

SHIM_EXPORT CUresult CUDAAPI cuGraphExecNodeSetParams(CUgraphExec executable, CUgraphNode node,
						      CUgraphNodeParams *parameters)
{
	CUresult result = shim_raise_for_node(VG_ENTRY_cuGraphExecNodeSetParams, parameters);

	return result != CUDA_SUCCESS ? result : REAL(cuGraphExecNodeSetParams)(executable, node, parameters);
}
