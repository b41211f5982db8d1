// Declares how one process locks, checkpoints and restores another. It sends requests to a thread of the driver in that
// process, the service. The service listens on a Unix socket in the abstract namespace, whose name contains the
// simulated node and the pid. Any thread.
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
	int32_t value;	// the state for SIM_SERVICE_STATE; the id of the service thread for SIM_SERVICE_THREAD
};

// Starts the service thread. cuInit calls it before any other driver call can run.
void sim_service_start(void);
// Waits while another process has locked this one. Does not wait if the call works in a locked process. Call it only if
// SIM_GATE_LOCKED (entry.h) is set.
CUresult sim_checkpoint_enter(enum vg_entry entry);
// Computes the service's address for a process of this simulated node. Returns the length of the address.
socklen_t sim_service_address(pid_t pid, struct sockaddr_un *ret_address);

// Moves the contents of all device memory into private memory, and frees the device memory.
CUresult sim_evict_memory(void);
// Allocates device memory again and copies the contents back. CUDA_ERROR_OUT_OF_MEMORY: nothing has changed.
CUresult sim_restore_memory(const CUcheckpointGpuPair *pairs, unsigned count);
