// Checks a launch before the driver is called. Kernel nodes of graphs use these checks too. Any thread.
#pragma once
#include "core/kernel.h"
#include "virgate/launch.h"

enum { CORE_LAUNCH_ATTRIBUTES = 32 }; // maximum number of attributes that a program may pass; the driver knows fewer

// A configuration in the driver's form. It contains pointers into itself: after a copy, call core_launch_point().
struct core_launch {
	CUlaunchConfig native; // all fields but the stream
	unsigned cluster[3];   // 0: no clusters
	bool cooperative;
	CUlaunchAttribute attributes[CORE_LAUNCH_ATTRIBUTES + 3];
};

static inline void core_launch_point(struct core_launch *launch)
{
	launch->native.attrs = launch->attributes;
}

// Converts a complete configuration, as vg_options_copy() returns it, to the driver's form. Checks it against what
// `device` supports, without a driver call. Fails with INVALID or UNSUPPORTED.
enum vg_status core_launch_configure(struct core_launch *launch, const struct vg_launch_config *config,
				     const struct vg_device *device);
// Checks the number, the sizes and the addresses of the arguments. Stores the addresses in `ret_values`, which must
// have room for all parameters of the kernel. INVALID: the error names the argument.
enum vg_status core_launch_check_arguments(const struct vg_kernel *kernel, const struct vg_argument *arguments,
					   size_t count, void **ret_values);
// Checks one argument. INVALID: no such parameter, wrong size, or no address.
enum vg_status core_launch_check_argument(const struct vg_kernel *kernel, size_t index, const void *value, size_t size);
// Checks that all blocks of a cooperative launch fit on the device at once. Returns VG_OK for other launches. Call with
// `context` current. Fails with LIMIT if the blocks do not fit, or with UNSUPPORTED, INVALID or DRIVER.
enum vg_status core_launch_check_cooperative(const struct core_launch *launch, const struct vg_kernel *kernel,
					     struct vg_context *context);
// Checks a launch against the limits of the device and of the kernel. INVALID: the error names the exceeded limit.
enum vg_status core_launch_check_limits(const struct core_launch *launch, const struct vg_kernel *kernel,
					const struct vg_device *device);
// Sets the error of a failed launch: the limit that core_launch_check_limits() finds exceeded, else the driver's error.
enum vg_status core_launch_failed(CUresult result, const struct core_launch *launch, const struct vg_kernel *kernel,
				  const struct vg_device *device, const char *call);
