// Defines five macros that may return from the function in which they stand. No other macro of this directory does so.
// Each is a statement in a function that returns enum vg_status. When it returns, it sets the thread's last error.
// Memory that the function has acquired before such a macro must be freed by a cleanup attribute.
//
// GPU_CALL, GPU_ASK and GPU_FIGURE are for functions of "system/gpu.h" with a parameter `gpu`.
#pragma once
#include "base/status.h"

// Returns the expression's status unless that is VG_OK.
#define SYSTEM_TRY(expression)                        \
	do {                                          \
		enum vg_status tried_ = (expression); \
		if (tried_)                           \
			return tried_;                \
	} while (0)
// Returns INVALID if an argument is NULL.
#define SYSTEM_NEEDED(pointer)                                                 \
	do {                                                                   \
		if (!(pointer))                                                \
			return vg_fail(VG_INVALID, 0, "%s is NULL", #pointer); \
	} while (0)
// Declares `call`, which GPU_ASK and GPU_FIGURE use: NVML's functions, and NVML's handle of `gpu`. Returns INVALID if
// `gpu` is NULL, or an error if NVML cannot be used.
#define GPU_CALL(gpu)         \
	struct gpu_call call; \
	SYSTEM_TRY(gpu_call_begin(gpu, &call))
// Calls an NVML function about `gpu`, and returns if that fails: GPU_ASK(nvmlDeviceGetIndex, &index).
#define GPU_ASK(entry, ...)                                                         \
	do {                                                                        \
		nvmlReturn_t asked_ = call.nvml->entry(call.handle, __VA_ARGS__);   \
		if (asked_)                                                         \
			return system_nvml_failed(asked_, #entry, "%s", gpu->uuid); \
	} while (0)
// Calls an NVML function for one figure of a group. The figure becomes -1 if NVML does not know it: see gpu_figure().
#define GPU_FIGURE(ret_figure, value, entry, ...) \
	SYSTEM_TRY(gpu_figure(call.nvml->entry(call.handle, __VA_ARGS__), &(value), gpu, #entry, ret_figure))
