// Declares the linker object, and its two back ends (nvJitLink and the driver). Any thread.
#pragma once
#include "base/mutex.h"
#include "core/program.h"
#include "virgate/linker.h"

enum { CORE_LINKER_JIT = 16 }; // maximum number of the driver's options

struct vg_linker {
	struct core_object object;
	enum vg_backend backend;
	char *name;
	struct vg_object_code **codes; // owns a reference to each
	size_t code_count;
	struct vg_device *device; // the driver links in this device's context; NULL: the first device
	bool link_time_optimization, ptx;
	struct core_arguments arguments; // arguments for the nvJitLink back end
	struct core_jit {		 // options for the driver back end
		unsigned option;	 // CUjit_option
		unsigned value;
	} jit[CORE_LINKER_JIT];
	unsigned jit_count;

	struct vg_mutex linking; // protects the members below, which describe the last link
	char *error_log, *info_log;
	void *native;
	struct core_arguments shown; // returned by vg_linker_arguments()
};

// Checks every option, and makes nvJitLink's arguments or the driver's options for the chosen back end. Fails with
// INVALID or NO_MEMORY. Without an architecture and a device, may also fail like core_open().
enum vg_status core_linker_options(struct vg_linker *linker, const struct vg_linker_options *options);
void core_linker_arguments(const struct vg_linker *linker, enum vg_code_type target,
			   struct core_arguments *ret_arguments);
// Links the inputs. The result is not an object yet: core_object_code_adopt() makes one of it.
enum vg_status core_linker_link(struct vg_linker *linker, enum vg_code_type target, struct core_compiled *ret_compiled);

// Run the link in one back end, and set `native` and the logs. Call with `linking` locked.
enum vg_status core_nvjitlink_link(struct vg_linker *linker, enum vg_code_type target,
				   struct core_compiled *ret_compiled);
void core_nvjitlink_drop(struct vg_linker *linker);
enum vg_status core_driver_link(struct vg_linker *linker, struct core_compiled *ret_compiled);
void core_driver_link_drop(struct vg_linker *linker);
