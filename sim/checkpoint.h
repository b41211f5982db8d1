// Checkpoints: what one process asks the service thread of another. The address is a unix
// socket in the abstract namespace, named by the simulated node and the process.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include "sim.h"

enum sim_service_verb {
	SIM_SERVICE_STATE = 1,
	SIM_SERVICE_THREAD,
	SIM_SERVICE_LOCK,
	SIM_SERVICE_CHECKPOINT,
	SIM_SERVICE_RESTORE,
	SIM_SERVICE_UNLOCK,
};

struct sim_service_request {
	uint32_t verb, timeout_ms, pair_count, reserved;
	CUcheckpointGpuPair pairs[SIM_DEVICES];
};

struct sim_service_reply {
	int32_t result; // a CUresult
	int32_t value;	// the state, or the thread
};

// The service's address for a process of our node; returns its length.
socklen_t sim_service_address(pid_t pid, struct sockaddr_un *ret_address);

// Moves the contents of all device memory into private memory and lets go of the devices.
CUresult sim_evict(void);
// Takes device memory again and puts the contents back. CUDA_ERROR_OUT_OF_MEMORY: as it was.
CUresult sim_return(const CUcheckpointGpuPair *pairs, unsigned count);
