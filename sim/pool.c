#include "memory.h"
bool sim_pool_find(struct sim_range *range, CUdeviceptr address, struct sim_pointer *ret_pointer) { return false; }
bool sim_pool_free(CUdeviceptr address) { return false; }
CUresult sim_pool_trim_all(struct sim_device *device) { return CUDA_SUCCESS; }
void sim_pool_synchronized(struct sim_context *context) {}
CUresult sim_array_get(CUarray handle, struct sim_array **ret_array) { return CUDA_ERROR_INVALID_HANDLE; }
