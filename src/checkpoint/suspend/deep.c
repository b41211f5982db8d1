#include "checkpoint/suspend/deep.h"

#include "base/hint.h"
#include "base/status.h"
#include "checkpoint/process/gpu_state.h"
#include "checkpoint/process/hold.h"
#include "checkpoint/process/host_memory.h"
#include "checkpoint/process/refusal.h"
#include "checkpoint/suspend/room.h"

#include <stdio.h>

// `GATE_MOST_MS`: the longest time for which a daemon opens a gate, where launches wait for a turn. `HOLD_MS`: how long
// to wait until another program unlocks a process (process/hold.h).
enum { GATE_MOST_MS = 60000, HOLD_MS = 2000 };

enum vg_status deep_find(struct deep *deep, const pid_t *pids, size_t count)
{
	enum vg_status status = tree_find_alone(pids, count, &deep->tree);

	if (status)
		return status;
	status = hold_tree(&deep->tree, HOLD_MS);
	if (status)
		return status;
	status = refusal_by_kernel_of_gpu(&deep->tree);
	if (status)
		return status;
	status = tree_find_cuda(&deep->tree);
	if (status)
		return status;
	status = tenants_find(&deep->tree, &deep->tenants);
	if (status)
		return status;
	status = tenants_check_roots(&deep->tenants, &deep->tree, deep->vgpu);
	return status;
}

enum vg_status deep_check_leaving(const struct deep *deep, uint64_t bytes)
{
	enum vg_status status = tenants_refuse_jobs(&deep->tenants);

	if (status == VG_OK)
		status = tenants_refuse_shared(&deep->tenants);
	if (status)
		return status;
	if (deep->tree.cuda_count == 0)
		status = refuse(REFUSE_NO_CUDA, 0, "process %d (%s) does not use CUDA",
				(int)deep->tree.processes[0].pid, deep->tree.processes[0].command);
	if (status)
		return status;
	status = refusal_by_driver(&deep->tree);
	return status ? status
		      : host_memory_check(deep->tree.processes[0].pid, bytes,
					  "what the driver moves off the GPU takes");
}

// Parks the device memory, locks the processes and takes them off the GPU. Opens the gates meanwhile: a process may
// wait at its gate for its turn, while work on the GPU waits for the launch that the gate delays.
static enum vg_status take_off(struct deep *deep, unsigned timeout_ms)
{
	const struct parking_wish wish = {.drain_ms = timeout_ms, .limit = "--drain", .is_deep = true};
	unsigned open_ms = timeout_ms < GATE_MOST_MS ? timeout_ms : GATE_MOST_MS;
	struct parking parking; // has files only of processes that a killed dump has parked; this function makes none

	tenants_open_gates(&deep->tenants, open_ms);
	enum vg_status status = parking_begin(&deep->tenants, &wish, deep->phase, &parking);
	parking_finish(&parking);
	if (status == VG_OK)
		status = phase_begin(deep->phase, VG_CHECKPOINT_LOCK);
	if (status == VG_OK)
		status = gpu_lock(&deep->tree, timeout_ms, deep->phase);
	tenants_open_gates(&deep->tenants, 0);
	status = refusal_of_step(REFUSE_MPS, status);
	if (status == VG_OK)
		status = phase_begin(deep->phase, VG_CHECKPOINT_DEVICE_OUT);
	if (status == VG_OK)
		status = refusal_of_step(REFUSE_MANAGED, gpu_checkpoint(&deep->tree, deep->phase));
	return status;
}

enum vg_status deep_return(struct deep *deep)
{
	enum vg_status status = gpu_roll_back(&deep->tree);

	// After a failure, do not withdraw the request to park: the next attempt finds the process by this request.
	if (status == VG_OK)
		// Release the processes only after gpu_roll_back(). Earlier, their pagers would wait for the driver.
		parking_release(&deep->tenants);
	return status;
}

static enum vg_status roll_back(struct deep *deep, enum vg_status status)
{
	const char *phase = vg_checkpoint_phase_name(deep->phase->now);
	char text[512], problem[256];
	int code = vg_last_error()->code;

	snprintf(text, sizeof text, "%s", vg_last_error()->text);
	if (deep_return(deep) == VG_OK)
		return vg_fail(status, code, "step %s: %s; the processes are as before", phase, text);
	snprintf(problem, sizeof problem, "%s", vg_last_error()->text);
	return vg_fail(
		VG_STATE, code,
		"step %s: %s; the processes could not be brought back: %s (virgate recover%s --pid %d tries again)",
		phase, text, problem, vg_hint_own_sim(), (int)deep->tree.processes[0].pid);
}

enum vg_status deep_leave(struct deep *deep, unsigned timeout_ms)
{
	enum vg_status status = take_off(deep, timeout_ms);
	if (status)
		return roll_back(deep, status);
	parking_mark_deep(&deep->tenants);
	return VG_OK;
}

enum vg_status deep_check_return(const struct deep *deep)
{
	return room_check(&deep->tree, &deep->tenants, "resume them again");
}

void deep_finish(struct deep *deep)
{
	tenants_free(&deep->tenants);
	tree_free(&deep->tree);
}
