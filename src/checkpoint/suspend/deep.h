// Processes of a vGPU off the GPU and back, by the driver's checkpoint alone: what their pagers cannot move goes, too.
// Nothing but the processes themselves, and a mark in the vGPU's ledger, holds the state, so any program of their user
// can bring them back. One thread.
#pragma once
#include "checkpoint/process/phase.h"
#include "checkpoint/suspend/park.h"

struct deep {
	const char *vgpu;
	struct phase *phase;
	struct tree tree; // without those who descend from them
	struct tenants tenants;
};
// Finds the processes, and holds them (hold.h). Nothing is touched. deep_finish() is needed after every outcome.
enum vg_status deep_find(struct deep *deep, const pid_t *pids, size_t count);
// Whether they can leave. `bytes`: what the driver will move to the host. INSUFFICIENT, and what a dump refuses.
enum vg_status deep_check_leaving(const struct deep *deep, uint64_t bytes);
// Takes them off the GPU. A failure is taken back, but memory that was in the host before stays there.
enum vg_status deep_leave(struct deep *deep, unsigned timeout_ms);
// Whether the GPU has room for what the driver has to bring back. DEVICE_MEMORY (with need and have).
enum vg_status deep_check_return(const struct deep *deep, const char *uuid, uint64_t bytes);
// Brings them back to the GPU, whatever state each is in. Their memory stays in the host if they are suspended.
enum vg_status deep_return(struct deep *deep);
void deep_finish(struct deep *deep);
