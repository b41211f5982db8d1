// Declares kernel launches as operations (launch*.c). Any thread.
#pragma once

#include "module.h"
#include "op.h"

enum { SIM_LAUNCH_INLINE = 192, SIM_LAUNCH_ATTRIBUTES = CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING + 1 };

// The attributes given with a launch or set on a kernel node.
struct sim_launch_attributes {
	uint32_t set; // a bit for each CUlaunchAttributeID that is set
	CUlaunchAttributeValue values[SIM_LAUNCH_ATTRIBUTES];
};

struct sim_launch_op {
	struct sim_op op;
	struct CUfunc_st *function; // the kernel, whose module is not freed while the operation exists
	unsigned grid[3], block[3], shared, sms;
	bool cooperative;
	struct sim_launch_attributes *attributes; // owned; NULL: none
	void *arguments; // parameters of the kernel; points to `inlined` or to allocated memory
	_Alignas(16) unsigned char inlined[SIM_LAUNCH_INLINE];
};
extern const struct sim_op_class sim_launch_class;

struct sim_launch_request {
	struct CUfunc_st *function;
	unsigned grid[3], block[3], shared;
	void **parameters, **extra;			// the parameters of the kernel, as cuLaunchKernel takes them
	const struct sim_launch_attributes *attributes; // may be NULL
	unsigned sms; // multiprocessors that the kernel may use; 0: those of the context
};
// Checks the request as the driver does during the call, and creates the operation.
CUresult sim_launch_op_new(struct sim_context *context, const struct sim_launch_request *request,
			   struct sim_op **ret_op);
// Computes the size of a cluster in blocks, and checks it against the kernel and the grid. The size comes from the
// attributes (may be NULL), the kernel's code or its settings. If none of these has a size, stores zeros.
CUresult sim_launch_cluster(const struct CUfunc_st *function, const unsigned grid[3],
			    const struct sim_launch_attributes *attributes, unsigned ret_cluster[3]);
CUresult sim_launch_attributes_add(struct sim_launch_attributes *attributes, CUlaunchAttributeID id,
				   const CUlaunchAttributeValue *value);
