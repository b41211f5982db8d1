// Sends signals to the processes of a vGPU. Main thread only.
#pragma once
#include "daemon/node.h"

struct signals_result {
	unsigned int sent, failed;
	pid_t pid; // one of the processes that got no signal; `error` is the reason
	int error;
};
// Sends the signal to every tenant of the vGPU, but not to guests, which have only opened memory of the vGPU. Call it
// only after tenant_are_proven() returned true.
struct signals_result signals_send(const struct vgpu *vgpu, int signal);
