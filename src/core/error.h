// Sets errors that describe why a driver call failed. Any thread.
#pragma once
#include "core/return.h"
#include "core/scope.h"

// Sets the thread's last error to DRIVER with "CALL: CUDA_ERROR_X: explanation; …". `format` and its arguments describe
// the request; pass "%s" and "" for no description. Adds what the driver has logged since its log was last read or
// skipped. A function that the driver lacks also returns an error, CUDA_ERROR_NOT_SUPPORTED. So check the driver's
// version before you call a newer function.
__attribute__((format(printf, 3, 4))) enum vg_status core_driver_failed(CUresult result, const char *call,
									const char *format, ...);

// Skips what the driver has logged so far, so that later errors do not contain it. Call after a driver call that was
// expected to fail.
void core_log_skip(void);
// Returns the result of a driver call that may fail in normal operation. After a failure, skips the driver's log.
static inline CUresult core_asked(CUresult result)
{
	if (__builtin_expect(result != CUDA_SUCCESS, 0))
		core_log_skip();
	return result;
}
// Skips the driver's log, and returns `status`. Call it after vg_fail() has set a better error than the driver's.
static inline enum vg_status core_explained(enum vg_status status)
{
	core_log_skip();
	return status;
}

// Returns text for the end of an error message: it points to the driver's log, or is "" if there is no log.
static inline const char *core_see_log(const char *log)
{
	return log && *log ? "; see the log" : "";
}
