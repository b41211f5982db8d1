// Parameters of graph nodes in the driver's words. Any thread.
#pragma once

#include "copy.h"
#include "register.h"

CUcontext rt_current_context(void);

cudaError_t rt_kernel_node(const struct cudaKernelNodeParams *params, CUDA_KERNEL_NODE_PARAMS_v2 *ret_params);
struct cudaKernelNodeParams rt_kernel_node_back(const CUDA_KERNEL_NODE_PARAMS_v2 *params);

// Any node's parameters, and what the driver wrote into them.
cudaError_t rt_node(const struct cudaGraphNodeParams *params, CUgraphNodeParams *ret_params);
void rt_node_results(const CUgraphNodeParams *from, struct cudaGraphNodeParams *to);
