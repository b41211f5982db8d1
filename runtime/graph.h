// Converts parameters of graph nodes between the runtime's and the driver's. Any thread.
#pragma once

#include "copy.h"
#include "register.h"

CUcontext rt_current_context(void);

cudaError_t rt_kernel_node(const struct cudaKernelNodeParams *params, CUDA_KERNEL_NODE_PARAMS_v2 *ret_params);
struct cudaKernelNodeParams rt_kernel_node_back(const CUDA_KERNEL_NODE_PARAMS_v2 *params);

// Converts the parameters of a node of any type. rt_node_results() converts back the fields that the driver sets.
cudaError_t rt_node(const struct cudaGraphNodeParams *params, CUgraphNodeParams *ret_params);
void rt_node_results(const CUgraphNodeParams *from, struct cudaGraphNodeParams *to);
