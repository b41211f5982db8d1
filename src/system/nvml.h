// Initialises NVML, and makes errors from its results. Any thread, also in a child after fork.
#pragma once
#include "driver/nvml.h"
#include "system/return.h"
#include "virgate/status.h"

// Loads and initialises NVML, unless this process has already done that. After a failure the next call tries again.
enum vg_status system_nvml_open(const struct vg_nvml **ret_nvml);

// Converts an NVML result to a status: VG_OK for NVML_SUCCESS.
enum vg_status system_nvml_status(nvmlReturn_t result);

// Sets the thread's last error from a result that is not NVML_SUCCESS. `call`: the NVML function. `format`: describes
// the request, and follows the result in the error's text. Pass "%s" and "" for an error without a description.
__attribute__((format(printf, 3, 4))) enum vg_status system_nvml_failed(nvmlReturn_t result, const char *call,
									const char *format, ...);

// Copies a text with its zero byte. Fails with LIMIT if there is no room; the error says how many bytes are needed.
enum vg_status system_copy_text(char *to, size_t capacity, const char *text);

// Returns whether the result only means that NVML does not know a figure. "Invalid argument" has that meaning too: the
// arguments were checked, so this version of NVML does not know the argument.
static inline bool system_nvml_is_unknown(nvmlReturn_t result)
{
	return result == NVML_ERROR_NOT_SUPPORTED || result == NVML_ERROR_FUNCTION_NOT_FOUND ||
	       result == NVML_ERROR_NO_PERMISSION || result == NVML_ERROR_NO_DATA ||
	       result == NVML_ERROR_ARGUMENT_VERSION_MISMATCH || result == NVML_ERROR_INVALID_ARGUMENT;
}
