/* What public functions return, and the details of a failure. */
#ifndef VIRGATE_STATUS_H
#define VIRGATE_STATUS_H

#include <stdint.h>

#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, text). Values are stable: rows are only ever added at the end. */
#define VG_STATUS_LIST(X)                                                                          \
	X(OK, "success")                                                                           \
	X(INVALID, "invalid argument")                                                             \
	X(NO_MEMORY, "out of host memory")                                                         \
	X(NOT_FOUND, "not found")                                                                  \
	X(EXISTS, "already exists")                                                                \
	X(DENIED, "permission denied")                                                             \
	X(LIMIT, "over a limit")                                                                   \
	X(BUSY, "in use")                                                                          \
	X(UNSUPPORTED, "not supported")                                                            \
	X(NO_DRIVER, "no usable driver")                                                           \
	X(NO_DAEMON, "the daemon cannot be reached")                                               \
	X(PROTOCOL, "unintelligible message")                                                      \
	X(SYSTEM, "system call failed")                                                            \
	X(DRIVER, "driver call failed")                                                            \
	X(CLOSED, "object is closed")                                                              \
	X(STATE, "not possible in this state")                                                     \
	X(NOT_READY, "not complete yet")                                                           \
	X(TOOLCHAIN, "compiler or linker failed")                                                  \
	X(NVML, "NVML call failed")                                                                \
	X(INSUFFICIENT, "not enough device memory")                                                \
	X(BOUNDS, "outside the region")                                                            \
	X(STALE, "the handle is dead")                                                             \
	X(INTEGRITY, "contents are not what they should be")                                       \
	X(POLICY, "against the region's policy")

enum vg_status {
#define X(name, text) VG_##name,
	VG_STATUS_LIST(X)
#undef X
};

/* The text of a status in the list above; "unknown status" for other values. Any thread. */
VG_PUBLIC const char *vg_status_text(enum vg_status status);
/* 1 if the same call may succeed later without a change: INSUFFICIENT, NO_MEMORY, BUSY, NOT_READY, NO_DAEMON; else 0.
 * Any thread. */
VG_PUBLIC int vg_status_is_retriable(enum vg_status status);

/* The details of the calling thread's last failed call. Valid until that thread's next call into the library. Never
 * NULL; a field without a value is "" or 0. Any thread. */
struct vg_error {
	enum vg_status status;
	int code;	      /* DRIVER: the CUresult; TOOLCHAIN, NVML: the tool's result; SYSTEM: errno */
	const char *function; /* the public function that failed */
	const char *text;     /* what failed, the values, and what to do */
	const char *log;      /* what the compiler, the linker or the driver wrote; it is not repeated in `text` */
	uint64_t need, have;  /* INSUFFICIENT: bytes of device memory needed, and available; else 0 */
};
VG_PUBLIC const struct vg_error *vg_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
