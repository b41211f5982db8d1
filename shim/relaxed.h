// Lets the interposer make its own driver calls while a stream capture may forbid them. Any thread.
#pragma once
#include "abi/cuda_abi.h"

// Sets the thread's capture mode to relaxed, because a capture in any thread can forbid calls that allocate. A block
// that begins with `SHIM_RELAXED;` runs in that mode, and restores the previous mode at its end.
CUstreamCaptureMode shim_capture_relax(void);
void shim_capture_restore(CUstreamCaptureMode *mode);
#define SHIM_RELAXED                                                                                  \
	__attribute__((cleanup(shim_capture_restore), unused)) CUstreamCaptureMode shim_mode_before = \
		shim_capture_relax()
