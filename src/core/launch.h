// What of a launch is checked before the driver sees it; also for kernel nodes of graphs.
#pragma once
#include "core/kernel.h"
#include "virgate/launch.h"

enum { CORE_LAUNCH_ATTRIBUTES = 32 }; // a program's own; the driver knows fewer

// A configuration in the driver's words. It points into itself: not to be copied without core_launch_point().
struct core_launch {
	CUlaunchConfig native; // without its stream
	unsigned cluster[3];   // 0: none
	bool cooperative;
	CUlaunchAttribute attributes[CORE_LAUNCH_ATTRIBUTES + 3];
};

static inline void core_launch_point(struct core_launch *launch)
{
	launch->native.attrs = launch->attributes;
}

// Checks a configuration, already copied by CORE_OPTIONS, by itself and by what `device` can do, without a driver call.
// INVALID, UNSUPPORTED.
enum vg_status core_launch_config(struct core_launch *launch, const struct vg_launch_config *config,
				  const struct vg_device *device);
// Checks number and sizes, and fills as many pointers as the kernel has parameters. `ret_values` must have room
// for them. INVALID, naming the argument.
enum vg_status core_launch_arguments(const struct vg_kernel *kernel, const struct vg_argument *arguments, size_t count,
				     void **ret_values);
// One argument by itself. INVALID: no such parameter, another size, no address.
enum vg_status core_launch_argument(const struct vg_kernel *kernel, size_t index, const void *value, size_t size);
// For a cooperative launch, whether its grid can be resident at once; others are OK. `context` is current. LIMIT,
// UNSUPPORTED, DRIVER.
enum vg_status core_launch_cooperative(const struct core_launch *launch, const struct vg_kernel *kernel,
				       struct vg_context *context);
// What of the device's and the kernel's limits a launch misses, in words. INVALID, or OK if nothing is found.
enum vg_status core_launch_limits(const struct core_launch *launch, const struct vg_kernel *kernel,
				  const struct vg_device *device);
// The driver refused: core_launch_limits() if that finds out why, else the driver's words.
enum vg_status core_launch_failed(CUresult result, const struct core_launch *launch, const struct vg_kernel *kernel,
				  const struct vg_device *device, const char *call);
