// Checks of a launch before the driver is called, also for kernel nodes of graphs. Any thread.
#pragma once
#include "core/kernel.h"
#include "virgate/launch.h"

enum { CORE_LAUNCH_ATTRIBUTES = 32 }; // of the program; the driver knows fewer

// A configuration in the driver's form. It points into itself: after a copy call core_launch_point().
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

// Converts a configuration that CORE_OPTIONS has copied, and checks it against what `device` supports, without a driver
// call. INVALID, UNSUPPORTED.
enum vg_status core_launch_configure(struct core_launch *launch, const struct vg_launch_config *config,
				     const struct vg_device *device);
// Checks the number, the sizes and the addresses of the arguments, and stores the addresses in `ret_values`, which has
// room for all parameters of the kernel. INVALID, naming the argument.
enum vg_status core_launch_check_arguments(const struct vg_kernel *kernel, const struct vg_argument *arguments,
					   size_t count, void **ret_values);
// Checks one argument. INVALID: no such parameter, another size, no address.
enum vg_status core_launch_check_argument(const struct vg_kernel *kernel, size_t index, const void *value, size_t size);
// Checks that the grid of a cooperative launch can be resident at once; other launches are OK. `context` is current.
// LIMIT, UNSUPPORTED, DRIVER.
enum vg_status core_launch_check_cooperative(const struct core_launch *launch, const struct vg_kernel *kernel,
					     struct vg_context *context);
// Checks a launch against the limits of the device and of the kernel. INVALID, saying which one it exceeds.
enum vg_status core_launch_check_limits(const struct core_launch *launch, const struct vg_kernel *kernel,
					const struct vg_device *device);
// Sets the error of a launch that the driver refused: what core_launch_check_limits() finds, else the driver's error.
enum vg_status core_launch_failed(CUresult result, const struct core_launch *launch, const struct vg_kernel *kernel,
				  const struct vg_device *device, const char *call);
