// How the library's rooms set the calling thread's last error.
#pragma once
#include <stddef.h>

#include "virgate/status.h"

// The public function that the program called in this thread; NULL: none.
extern _Thread_local const char *vg_entry;

static inline void vg_entry_leave(const char *const *before)
{
	vg_entry = *before;
}
// The first statement of a public function that can fail: its name stands in the errors of all that it calls, other
// public functions included.
#define VG_ENTRY()                                                                                   \
	__attribute__((cleanup(vg_entry_leave), unused)) const char *const entry_before_ = vg_entry; \
	vg_entry = entry_before_ ? entry_before_ : __func__

// Sets the calling thread's last error, and returns `status`: a failing function ends in `return vg_fail(…)`. `code`: as
// in struct vg_error. Any thread.
__attribute__((format(printf, 3, 4))) enum vg_status vg_fail(enum vg_status status, int code, const char *format, ...);
// Adds to an INSUFFICIENT just set how many bytes it takes, and how many there were.
void vg_fail_amounts(uint64_t need, uint64_t have);
// Adds a tool's log to the error just set; cut at 16 KiB.
void vg_fail_log(const char *log);

// Keep the calling thread's last error over a cleanup that may fail, and restore it in the same thread.
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
enum vg_status vg_options_copy(void *copy, size_t size, const void *options);
