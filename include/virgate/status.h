/* Status codes that public functions return, and the details of a failure. */
#ifndef VIRGATE_STATUS_H
#define VIRGATE_STATUS_H

#include <stdint.h>

#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, text). Values are stable: rows are only added at the end.
 * NO_MEMORY: an allocation of the calling process failed. INSUFFICIENT: not enough free device memory, vGPU limit, host
 * memory for a dump or restore, or disk space for an image. LIMIT: a request above a fixed maximum or a configured
 * limit, or a vGPU's limit that does not fit the GPU. POLICY: a sealed or read-only region, a kernel that a compute
 * unit may not run, or a process that may not be dumped. */
#define VG_STATUS_LIST(X)                                       \
	X(OK, "success")                                        \
	X(INVALID, "invalid argument")                          \
	X(NO_MEMORY, "out of host memory")                      \
	X(NOT_FOUND, "not found")                               \
	X(EXISTS, "already exists")                             \
	X(DENIED, "permission denied")                          \
	X(LIMIT, "over a limit")                                \
	X(BUSY, "in use")                                       \
	X(UNSUPPORTED, "not supported")                         \
	X(NO_DRIVER, "no usable driver")                        \
	X(NO_DAEMON, "the daemon cannot be reached")            \
	X(PROTOCOL, "invalid message")                          \
	X(SYSTEM, "system call failed")                         \
	X(DRIVER, "driver call failed")                         \
	X(CLOSED, "object is closed")                           \
	X(STATE, "not possible in this state")                  \
	X(NOT_READY, "not complete yet")                        \
	X(TOOLCHAIN, "compiler or linker failed")               \
	X(NVML, "NVML call failed")                             \
	X(INSUFFICIENT, "not enough free memory or disk space") \
	X(BOUNDS, "outside the region")                         \
	X(STALE, "the handle is not valid any more")            \
	X(INTEGRITY, "contents are damaged or were changed")    \
	X(POLICY, "forbidden by a policy")

enum vg_status {
#define X(name, text) VG_##name,
	VG_STATUS_LIST(X)
#undef X
};

/* Returns the text of a status in the list above; "unknown status" for other values. Any thread. */
VG_PUBLIC const char *vg_status_text(enum vg_status status);
/* Returns 1 if the same call may succeed later without a change: INSUFFICIENT, NO_MEMORY, BUSY, NOT_READY,
 * NO_DAEMON; else 0. Any thread. */
VG_PUBLIC int vg_status_is_retriable(enum vg_status status);

/* The details of the calling thread's last failed call. Valid until that thread's next call into the library. Never
 * NULL; a field without a value is "" or 0. Any thread. */
struct vg_error {
	enum vg_status status;
	/* DRIVER: the CUresult; TOOLCHAIN, NVML: the tool's result; SYSTEM: errno. Other statuses: errno, the CUresult
	 * or NVML's result if one of these caused the failure, else 0. */
	int code;
	const char *function; /* the public function that failed */
	const char *text;     /* what failed, the values, and what to do */
	const char *log;      /* what the compiler, the linker or the driver wrote; it is not repeated in `text` */
	uint64_t need, have;  /* INSUFFICIENT: bytes needed and available, of memory or disk; else 0 */
};
VG_PUBLIC const struct vg_error *vg_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
