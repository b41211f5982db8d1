// Kernel launches as operations. Any thread.
#pragma once

#include "module.h"

enum { SIM_LAUNCH_INLINE = 192, SIM_LAUNCH_ATTRIBUTES = CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING + 1 };

// The attributes given with a launch or set on a kernel node.
struct sim_launch_attributes {
	uint32_t set; // bit per CUlaunchAttributeID
	CUlaunchAttributeValue values[SIM_LAUNCH_ATTRIBUTES];
};

struct sim_launch_op {
	struct sim_op op;
	struct CUfunc_st *function; // its module is referenced
	unsigned grid[3], block[3], shared, sms;
	bool cooperative;
	struct sim_launch_attributes *attributes; // owned; NULL: none
	void *arguments; // `inlined`, or owned
	_Alignas(16) unsigned char inlined[SIM_LAUNCH_INLINE];
};
extern const struct sim_op_class sim_launch_class;

struct sim_launch_request {
	struct CUfunc_st *function;
	unsigned grid[3], block[3], shared;
	void **parameters, **extra; // as cuLaunchKernel takes them
	const struct sim_launch_attributes *attributes; // may be NULL
	unsigned sms; // it may use; 0: the context's
};
// Checks the request as the driver does at the call.
CUresult sim_launch_op_new(struct sim_context *context, const struct sim_launch_request *request,
			   struct sim_op **ret_op);
// How many blocks a cluster has: by the attributes (may be NULL), the kernel, what was set for it, or 1. Checked
// against the kernel and the grid as at a launch. An axis is 0 when nothing says.
CUresult sim_launch_cluster(const struct CUfunc_st *function, const unsigned grid[3],
			    const struct sim_launch_attributes *attributes, unsigned ret_cluster[3]);
CUresult sim_launch_attributes_add(struct sim_launch_attributes *attributes, CUlaunchAttributeID id,
				   const CUlaunchAttributeValue *value);
