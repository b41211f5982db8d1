// Resources of devices between green_resource.c and green.c. Any thread.
#pragma once

#include "sim.h"

// What CUDA 13.1 added to the ABI, which the toolkit's header may not have yet.
enum {
	SIM_RESOURCE_WORKQUEUE_CONFIG = 1000,
	SIM_RESOURCE_WORKQUEUE = 10000,
	SIM_WORKQUEUE_SCOPE_DEVICE = 0,
	SIM_WORKQUEUE_SCOPE_GREEN_BALANCED = 1,
	SIM_GROUP_BACKFILL = 1,
};

// What cuDevResourceGenerateDesc makes.
struct sim_green_descriptor {
	uint32_t magic, device;
	uint8_t mask[SIM_SMS / 8];
	struct sim_workqueue workqueue;
	struct sim_green_descriptor *next;
};
CUresult sim_green_descriptor_get(CUdevResourceDesc handle, const struct sim_green_descriptor **ret_descriptor);

unsigned sim_green_count(const uint8_t mask[SIM_SMS / 8]);
// The resource of a type that belongs to a green context, or (NULL) to the device.
CUresult sim_green_give(CUdevResource *resource, CUdevResourceType type, const struct sim_device *device,
			const struct sim_green *green);

// cuDevSmResourceSplit of CUDA 13.1, found by cuGetProcAddress alone.
struct sim_split_group { // CU_DEV_SM_RESOURCE_GROUP_PARAMS
	unsigned count, coscheduled, preferred, flags, reserved[12];
};
CUresult CUDAAPI sim_green_split(CUdevResource *result, unsigned groups, const CUdevResource *input,
				 CUdevResource *remainder, unsigned flags, struct sim_split_group *parameters);
CUresult CUDAAPI sim_stream_get_resource(CUstream stream, CUdevResource *resource, CUdevResourceType type);
