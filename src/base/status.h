// Sets the last error of the calling thread, which the program reads with vg_last_error(). Any thread.
#pragma once
#include <stddef.h>

#include "virgate/status.h"

// The name of the public function that this thread runs for the program; NULL: the thread runs none.
extern _Thread_local const char *vg_entry;

static inline void vg_entry_leave(const char *const *before)
{
	vg_entry = *before;
}
// Use this as the first statement of a public function that can fail. Errors of everything that the function calls then
// have this function's name, even if it calls other public functions.
#define VG_ENTRY()                                                                                   \
	__attribute__((cleanup(vg_entry_leave), unused)) const char *const entry_before_ = vg_entry; \
	vg_entry = entry_before_ ? entry_before_ : __func__

// Sets the calling thread's last error, and returns `status`, so that a failing function ends in `return vg_fail(…)`.
// `code`: as in struct vg_error. Any thread.
__attribute__((format(printf, 3, 4))) enum vg_status vg_fail(enum vg_status status, int code, const char *format, ...);
// Adds two amounts to the INSUFFICIENT error that was just set: bytes needed and bytes available.
void vg_fail_amounts(uint64_t need, uint64_t have);
// Adds the log of a tool, such as a compiler, to the error just set. The log is cut at 16 KiB.
void vg_fail_log(const char *log);

// Save the calling thread's last error before a cleanup that may fail, and restore it afterwards in the same thread.
struct vg_kept_error {
	struct vg_error error;
	char text[1024];
	char log[16384];
};
void vg_error_keep(struct vg_kept_error *ret_kept);
void vg_error_restore(const struct vg_kept_error *kept);

// Copies a caller's options into a structure of `size` bytes. The options begin with their own size. Fields beyond that
// size become zero; if the options are NULL, all fields do. INVALID: the size field is not set. UNSUPPORTED: a field
// that this version does not know is set.
enum vg_status vg_options_copy(void *copy, size_t size, const void *options);
