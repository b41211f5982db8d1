// How the library's rooms set the calling thread's last error.
#pragma once
#include <stddef.h>

#include "virgate/status.h"

// Returns `status`, so that a failing function can end in `return vg_fail(…)`. Any thread.
__attribute__((format(printf, 4, 5))) enum vg_status vg_fail(enum vg_status status, int code, const char *function,
							     const char *format, ...);
// Adds to an INSUFFICIENT just set how many bytes it takes, and how many there were.
void vg_fail_amounts(uint64_t need, uint64_t have);
// Adds a tool's log to the error just set; cut at 16 KiB.
void vg_fail_log(const char *log);

// For what may fail on the way out without being what the caller asked about: keeps the calling thread's last error,
// and brings it back to the same thread.
struct vg_kept_error {
	struct vg_error error;
	char text[1024];
	char log[16384];
};
void vg_error_keep(struct vg_kept_error *ret_kept);
void vg_error_restore(const struct vg_kept_error *kept);

// Copies a caller's options, which begin with their size, into a structure of `size` bytes: zero where the caller has
// none, or is of an older version (NULL: no options). INVALID: the size field is not set. UNSUPPORTED: a field that is
// not known here is given.
enum vg_status vg_options_copy(void *copy, size_t size, const void *options, const char *function);
