// Takes processes of a vGPU off the GPU and back by the driver's checkpoint alone, including what their pagers cannot
// move. Only the processes and a mark in the vGPU's ledger keep the state, so any program of the same user can resume
// them. One thread.
#pragma once
#include "checkpoint/process/phase.h"
#include "checkpoint/suspend/park.h"

struct deep {
	const char *vgpu;
	struct phase *phase;
	struct tree tree; // without descendants
	struct tenants tenants;
};
// Finds the processes and locks them (process/hold.h). Changes nothing else. deep_finish() is needed after every
// outcome.
enum vg_status deep_find(struct deep *deep, const pid_t *pids, size_t count);
// Checks whether they can leave the GPU. `bytes`: what the driver will move to the host. INSUFFICIENT, and all refusals
// of a dump.
enum vg_status deep_check_leaving(const struct deep *deep, uint64_t bytes);
// Takes them off the GPU. A failure is rolled back, but memory that was in the host before stays there.
enum vg_status deep_leave(struct deep *deep, unsigned timeout_ms);
// Checks that the GPU has room for what the driver moves back. DEVICE_MEMORY (with need and have).
enum vg_status deep_check_return(const struct deep *deep, const char *uuid, uint64_t bytes);
// Returns them to the GPU from any state. Their memory stays in the host if they are suspended.
enum vg_status deep_return(struct deep *deep);
void deep_finish(struct deep *deep);
