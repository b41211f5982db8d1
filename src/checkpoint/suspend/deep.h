// Suspends processes of a vGPU with --deep: the driver's checkpoint takes them off the GPU, including the memory that
// their pagers cannot move. Only the processes themselves and their slots in the vGPU's ledger show that they are
// suspended. So any program of the same user can resume them. One thread.
#pragma once
#include "checkpoint/process/phase.h"
#include "checkpoint/suspend/park.h"

struct deep {
	const char *vgpu;
	struct phase *phase;
	struct tree tree; // the processes, without their descendants
	struct tenants tenants;
};
// Finds the processes and locks them (process/hold.h), without changing them. The caller must call deep_finish() after
// every outcome.
enum vg_status deep_find(struct deep *deep, const pid_t *pids, size_t count);
// Checks whether the processes can leave the GPU. `bytes`: how much the driver will move to the host. INSUFFICIENT, and
// all refusals of a dump.
enum vg_status deep_check_leaving(const struct deep *deep, uint64_t bytes);
// Takes the processes off the GPU. A failure is rolled back; only memory that was in the host before stays in the host.
enum vg_status deep_leave(struct deep *deep, unsigned timeout_ms);
// Checks that the GPU has room for what the driver moves back. DEVICE_MEMORY (with need and have).
enum vg_status deep_check_return(const struct deep *deep);
// Returns the processes to the GPU, from any state. If they are also suspended by their pagers, the memory that the
// pagers have moved stays in the host.
enum vg_status deep_return(struct deep *deep);
void deep_finish(struct deep *deep);
