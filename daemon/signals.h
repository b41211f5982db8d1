// Sends signals to the processes of a vGPU. Main thread only.
#pragma once
#include "daemon/node.h"

struct signals_result {
	unsigned int sent, failed;
	pid_t pid; // one of those that failed, and its error
	int error;
};
// Sends the signal to every tenant of the vGPU, but not to guests. tenant_are_proven() must be true.
struct signals_result signals_send(const struct vgpu *vgpu, int signal);
