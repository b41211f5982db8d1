// Declares green contexts and the resources of devices (green.c, green_resource.c). Any thread.
#pragma once

#include "sim.h"

// Features of the ABI that CUDA 13.1 added. The toolkit's header may not have them yet.
enum {
	SIM_RESOURCE_WORKQUEUE_CONFIG = 1000,
	SIM_RESOURCE_WORKQUEUE = 10000,
	SIM_WORKQUEUE_SCOPE_DEVICE = 0,
	SIM_WORKQUEUE_SCOPE_GREEN_BALANCED = 1,
	SIM_GROUP_BACKFILL = 1,
};

struct sim_workqueue { // CUdevWorkqueueConfigResource
	CUdevice device;
	unsigned limit;
	int scope;
};

struct sim_green {
	uint32_t magic;
	struct sim_context *context; // the primary context of the green context's device
	struct sim_context *view;    // of cuCtxFromGreenCtx
	struct sim_device *device;
	unsigned sms;
	unsigned long long id;
	uint8_t mask[SIM_SMS / 8]; // its multiprocessors
	struct sim_workqueue workqueue;
	struct sim_stream *internal; // stream in which events of the green context are recorded
	struct sim_green *next;
};

struct sim_green_descriptor { // of cuDevResourceGenerateDesc
	uint32_t magic, device;
	uint8_t mask[SIM_SMS / 8];
	struct sim_workqueue workqueue;
	struct sim_green_descriptor *next;
};
CUresult sim_green_descriptor_get(CUdevResourceDesc handle, const struct sim_green_descriptor **ret_descriptor);

// Returns the number of multiprocessors in the mask.
unsigned sim_green_count(const uint8_t mask[SIM_SMS / 8]);
// Describes in *resource what `green` has of the given type, such as its multiprocessors. If `green` is NULL, describes
// what the device has.
CUresult sim_green_get_resource(CUdevResource *resource, CUdevResourceType type, const struct sim_device *device,
				const struct sim_green *green);

// The following struct and functions implement cuDevSmResourceSplit and cuStreamGetDevResource of CUDA 13.1. Only
// cuGetProcAddress returns these functions.
struct sim_split_group { // CU_DEV_SM_RESOURCE_GROUP_PARAMS
	unsigned count, coscheduled, preferred, flags, reserved[12];
};
CUresult CUDAAPI sim_green_split(CUdevResource *result, unsigned groups, const CUdevResource *input,
				 CUdevResource *remainder, unsigned flags, struct sim_split_group *parameters);
CUresult CUDAAPI sim_stream_get_resource(CUstream stream, CUdevResource *resource, CUdevResourceType type);
