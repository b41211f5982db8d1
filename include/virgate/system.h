/* The machine's NVIDIA driver as NVML describes it: versions, processes, and NVML's own errors. No function creates a
 * CUDA context. The first call initialises NVML, once in each process, and again after fork. A fork while another
 * thread is in a call is safe for this library, but NVML does not guarantee it.
 *
 * Failures of NVML: UNSUPPORTED (by this GPU, driver or library), DENIED, NOT_FOUND, NOT_READY (timeout), BUSY,
 * NO_DRIVER (no library, or no driver behind it), and NVML for all others; vg_last_error()->code is the nvmlReturn in
 * each case. */
#ifndef VIRGATE_SYSTEM_H
#define VIRGATE_SYSTEM_H

#include <stddef.h>
#include <sys/types.h>

#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NVML's results, as vg_last_error()->code gives them. X(NAME, value). */
#define VG_NVML_ERROR_LIST(X)            \
	X(UNINITIALIZED, 1)              \
	X(INVALID_ARGUMENT, 2)           \
	X(NOT_SUPPORTED, 3)              \
	X(NO_PERMISSION, 4)              \
	X(ALREADY_INITIALIZED, 5)        \
	X(NOT_FOUND, 6)                  \
	X(INSUFFICIENT_SIZE, 7)          \
	X(INSUFFICIENT_POWER, 8)         \
	X(DRIVER_NOT_LOADED, 9)          \
	X(TIMEOUT, 10)                   \
	X(IRQ_ISSUE, 11)                 \
	X(LIBRARY_NOT_FOUND, 12)         \
	X(FUNCTION_NOT_FOUND, 13)        \
	X(CORRUPTED_INFOROM, 14)         \
	X(GPU_IS_LOST, 15)               \
	X(RESET_REQUIRED, 16)            \
	X(OPERATING_SYSTEM, 17)          \
	X(LIB_RM_VERSION_MISMATCH, 18)   \
	X(IN_USE, 19)                    \
	X(MEMORY, 20)                    \
	X(NO_DATA, 21)                   \
	X(VGPU_ECC_NOT_SUPPORTED, 22)    \
	X(INSUFFICIENT_RESOURCES, 23)    \
	X(FREQ_NOT_SUPPORTED, 24)        \
	X(ARGUMENT_VERSION_MISMATCH, 25) \
	X(DEPRECATED, 26)                \
	X(NOT_READY, 27)                 \
	X(GPU_NOT_FOUND, 28)             \
	X(INVALID_STATE, 29)             \
	X(RESET_TYPE_NOT_SUPPORTED, 30)  \
	X(UNKNOWN, 999)

enum vg_nvml_error {
#define X(name, value) VG_NVML_ERROR_##name = value,
	VG_NVML_ERROR_LIST(X)
#undef X
};
/* Returns the name of a result: "NVML_ERROR_GPU_IS_LOST"; "NVML_SUCCESS" for 0; "an unknown NVML error" for other
 * codes. Any thread. */
VG_PUBLIC const char *vg_nvml_error_name(int code);

/* A version: 580.65.06 is {3, {580, 65, 6}}. */
struct vg_system_version {
	unsigned count; /* number of parts */
	unsigned part[6];
};

/* Reads the newest CUDA version that the driver supports, such as 13 and 0 for 13.0. Outputs may be NULL. Any
 * thread. Source: nvmlSystemGetCudaDriverVersion. */
VG_PUBLIC enum vg_status vg_system_user_driver_version(int *ret_major, int *ret_minor);
/* Reads the version of the driver, such as 580.65.06. INVALID. Any thread. Source: nvmlSystemGetDriverVersion. */
VG_PUBLIC enum vg_status vg_system_kernel_driver_version(struct vg_system_version *ret_version);
/* Reads the version of NVML, such as 13.580.65.06. INVALID. Any thread. Source: nvmlSystemGetNVMLVersion. */
VG_PUBLIC enum vg_status vg_system_nvml_version(struct vg_system_version *ret_version);
/* Reads the driver's release branch, such as "r580_00". LIMIT: `capacity` bytes are too few; 80 are enough. Any
 * thread. Source: nvmlSystemGetDriverBranch. */
VG_PUBLIC enum vg_status vg_system_driver_branch(char *ret_branch, size_t capacity);
/* Reads the name of a process. First reads the GPUs' lists of processes, since NVML may know a process only after that.
 * LIMIT: `capacity` bytes are too few; 4096 are enough. INVALID (a pid below 1), NOT_FOUND (NVML knows no such
 * process). Any thread. Source: nvmlSystemGetProcessName. */
VG_PUBLIC enum vg_status vg_system_process_name(pid_t pid, char *ret_name, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
