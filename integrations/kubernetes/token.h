// Notes which allocations are valid, in files beside the daemon's socket that only the plugin's user can write. The
// hook of the CDI device accepts an allocation on two conditions: its token is in the file, and the kubelet is about to
// start a container with the device. Main thread only.
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum {
	TOKEN_TEXT = 33,  // characters of a token, with the zero byte
	TOKEN_VALID = 64, // the most valid tokens of a device: containers of a pod share it in turn
};

// Makes a token for the vGPU of a device, and withdraws a permission of token_permit(). If `is_first`, also makes the
// vGPU's older tokens invalid. `directory` is that of the daemon's socket. Returns 0 or -errno.
int token_issue(const char *directory, const char *vgpu, bool is_first, char ret_token[TOKEN_TEXT]);
// Permits one start of a container with the vGPU. The permission expires at `until`, a time of CLOCK_MONOTONIC in
// milliseconds. Returns 0 or -errno.
int token_permit(const char *directory, const char *vgpu, uint64_t until);
