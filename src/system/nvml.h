// NVML in use: initialised, and its results in words. Any thread; also in a child after fork.
#pragma once
#include "driver/nvml.h"
#include "system/return.h"
#include "virgate/status.h"

// Loads and initialises NVML unless this process has done so; a failure is not remembered.
enum vg_status system_nvml_open(const struct vg_nvml **ret_nvml);

// VG_OK for NVML_SUCCESS.
enum vg_status system_nvml_status(nvmlReturn_t result);

// Sets the thread's last error from a result that is not NVML_SUCCESS; `format` says what was asked ("": nothing
// to add).
__attribute__((format(printf, 3, 4))) enum vg_status system_nvml_failed(nvmlReturn_t result, const char *call,
									const char *format, ...);

// Copies a text with its NUL, or VG_LIMIT, saying how many bytes it needs.
enum vg_status system_text(char *to, size_t capacity, const char *text);

// Whether a result only says that there is nothing to know, so that one figure of a group is missing. Our arguments are
// checked: an invalid one is one that this NVML does not know.
static inline bool system_nvml_unknown(nvmlReturn_t result)
{
	return result == NVML_ERROR_NOT_SUPPORTED || result == NVML_ERROR_FUNCTION_NOT_FOUND ||
	       result == NVML_ERROR_NO_PERMISSION || result == NVML_ERROR_NO_DATA ||
	       result == NVML_ERROR_ARGUMENT_VERSION_MISMATCH || result == NVML_ERROR_INVALID_ARGUMENT;
}
