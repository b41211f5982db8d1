// A linker, as this room sees it.
#pragma once
#include "base/mutex.h"
#include "core/program.h"
#include "virgate/linker.h"

enum { CORE_LINKER_JIT = 16 }; // options of the driver's, at most

struct vg_linker {
	struct core_object object;
	enum vg_backend backend;
	char *name;
	struct vg_object_code **codes; // held
	size_t code_count;
	struct vg_device *device; // whose driver's linker it is
	bool link_time_optimization, ptx;
	struct core_arguments arguments; // nvJitLink's
	struct core_jit {		 // the driver's
		unsigned option;	 // CUjit_option
		unsigned value;
	} jit[CORE_LINKER_JIT];
	unsigned jit_count;

	struct vg_mutex linking; // what follows is of the last link
	char *error_log, *info_log;
	void *native;
	struct core_arguments shown; // by vg_linker_arguments()
};

// Checks every option and makes nvJitLink's arguments or the driver's options. The back end is known. INVALID,
// NO_DRIVER, NO_MEMORY.
enum vg_status core_linker_options(struct vg_linker *linker, const struct vg_linker_options *options);
void core_linker_arguments(const struct vg_linker *linker, enum vg_code_type target,
			   struct core_arguments *ret_arguments);
// What vg_linker_link() does, but for the object.
enum vg_status core_linker_link(struct vg_linker *linker, enum vg_code_type target, struct core_compiled *ret_compiled);

// Links into `native` and the logs; the linker is locked.
enum vg_status core_nvjitlink_link(struct vg_linker *linker, enum vg_code_type target,
				   struct core_compiled *ret_compiled);
void core_nvjitlink_drop(struct vg_linker *linker);
enum vg_status core_driver_link(struct vg_linker *linker, struct core_compiled *ret_compiled);
void core_driver_link_drop(struct vg_linker *linker);
