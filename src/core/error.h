// What the driver refused, in words.
#pragma once
#include "core/return.h"
#include "core/scope.h"

// Sets the thread's last error to VG_DRIVER with "CALL: CUDA_ERROR_X: explanation; …", `format` saying what was
// asked ("" for nothing to add), and what the driver has logged since it was last read or skipped.
// An entry that the driver lacks answers CUDA_ERROR_NOT_SUPPORTED: whoever may call one looks at the version first.
__attribute__((format(printf, 3, 4))) enum vg_status core_driver_failed(CUresult result, const char *call,
									const char *format, ...);

// Leaves what the driver has logged so far out of later errors: it is about calls that the library expected to fail.
void core_log_skip(void);
// The result of a driver call that may be refused, as an answer: what the driver logs about it is skipped.
static inline CUresult core_asked(CUresult result)
{
	if (__builtin_expect(result != CUDA_SUCCESS, 0))
		core_log_skip();
	return result;
}
// The status of a failure that vg_fail() explained better than the driver's log, which is skipped.
static inline enum vg_status core_explained(enum vg_status status)
{
	core_log_skip();
	return status;
}

// The end of a text whose error has this log as well: the log stands in the error's log alone.
static inline const char *core_see_log(const char *log)
{
	return log && *log ? "; see the log" : "";
}
