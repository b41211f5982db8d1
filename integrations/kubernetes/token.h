// Notes which allocations are valid, in files beside the daemon's socket that only the plugin's user can write. The
// hook of the CDI device accepts an allocation only if its token is there, and if the kubelet is about to start a
// container with the device. Main thread only.
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum {
	TOKEN_TEXT = 33,  // characters, with the zero byte
	TOKEN_VALID = 64, // the latest tokens of a device are valid: containers of a pod share it one after the other
};

// Makes a token for the vGPU of a device. With `is_first`, the tokens that it had before are not valid any more. Undoes
// token_permit(). `directory` has the daemon's socket. Returns 0 or -errno.
int token_issue(const char *directory, const char *vgpu, bool is_first, char ret_token[TOKEN_TEXT]);
// Permits one start of a container with the vGPU, until a time of CLOCK_MONOTONIC in milliseconds. Returns 0 or -errno.
int token_permit(const char *directory, const char *vgpu, uint64_t until);
