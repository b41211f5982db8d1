// Lets the interposer make its own driver calls while a stream capture may forbid them. Any thread.
#pragma once
#include "abi/cuda_abi.h"

// A capture in any thread can forbid calls that allocate. Write SHIM_RELAXED; at the start of a block: until the end of
// the block, the thread's capture mode is relaxed.
CUstreamCaptureMode shim_capture_relax(void);
void shim_capture_restore(CUstreamCaptureMode *mode);
#define SHIM_RELAXED                                                                                  \
	__attribute__((cleanup(shim_capture_restore), unused)) CUstreamCaptureMode shim_mode_before = \
		shim_capture_relax()
