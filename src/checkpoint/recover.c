// Recovers the processes of a killed dump or restore, so that they run again. A killed operation leaves no record, so
// the state is read from the processes.
#include "base/descriptor.h"
#include "base/hint.h"
#include "base/status.h"
#include "checkpoint/process/gpu_state.h"
#include "checkpoint/process/hold.h"
#include "checkpoint/process/proc.h"
#include "checkpoint/process/tree.h"
#include "checkpoint/suspend/park.h"
#include "checkpoint/suspend/room.h"
#include "checkpoint/tenant/tenant.h"
#include "core/object.h"
#include "virgate/checkpoint.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { WAIT_MS = 600000 };

// Continues stopped processes, because a stopped process cannot answer the driver. Also cancels a SIGSTOP that has been
// sent but has not stopped the process yet. Returns the number of stopped processes. `ret_stopped` gets a flag for each
// process: true if it was stopped.
static size_t continue_processes(const struct tree *tree, bool *ret_stopped)
{
	size_t stopped = 0;

	for (size_t i = 0; i < tree->count; i++) {
		ret_stopped[i] = proc_let_go_on(tree->processes[i].pid);
		stopped += ret_stopped[i];
		kill(tree->processes[i].pid, SIGCONT);
	}
	return stopped;
}

static void stop_again(const struct tree *tree, const bool *was_stopped)
{
	for (size_t i = 0; i < tree->count; i++)
		if (was_stopped[i] && tree_is_same(&tree->processes[i]))
			kill(tree->processes[i].pid, SIGSTOP);
}

static size_t count_held_back(const struct tree *tree)
{
	enum vg_process_state state;
	size_t count = 0;

	for (size_t i = 0; i < tree->count; i++)
		count += tree->processes[i].cuda && vg_process_state(tree->processes[i].cuda, &state) == VG_OK &&
			 state != VG_PROCESS_RUNNING;
	return count;
}

// Checks that all processes can return to the GPU, before the driver is called for the first of them.
static enum vg_status check_return(const struct tree *tree, const struct tenants *tenants)
{
	char retry[VG_HINT_SIM + 64];

	enum vg_status status = tenants_refuse_slotless(tenants, tree);
	if (status)
		return status;
	snprintf(retry, sizeof retry, "repeat virgate recover%s --pid %d", vg_hint_own_sim(),
		 (int)tree->processes[0].pid);
	return room_check(tree, tenants, retry);
}

static enum vg_status return_to_gpu(const struct tree *tree, const struct tenants *tenants,
				    struct vg_recovery *recovery)
{
	size_t parked = 0;

	recovery->held_back = count_held_back(tree);
	enum vg_status status = gpu_roll_back(tree);
	if (status)
		parking_release_dumped(tenants);
	else
		parked = parking_release(tenants);
	recovery->held_back = recovery->held_back > parked ? recovery->held_back : parked;
	return status;
}

static enum vg_status resume_tenants(struct tree *tree, const struct tenants *tenants, struct vg_recovery *recovery)
{
	bool *was_stopped = calloc(tree->count, sizeof *was_stopped);
	struct vg_kept_error error;

	if (!was_stopped)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu processes", tree->count);
	tenants_restore_slots(tenants);
	// Look before the processes run: those without memory end, and leave no slot behind.
	enum vg_status lost = parking_refuse_lost(tenants);
	vg_error_keep(&error);
	recovery->stopped = continue_processes(tree, was_stopped);
	enum vg_status status = tree_find_cuda(tree);
	if (status == VG_NO_DRIVER || status == VG_UNSUPPORTED) {
		status = VG_OK; // without a driver no process can be locked, so there is nothing to unlock
	} else if (status == VG_OK) {
		status = check_return(tree, tenants);
		if (status == VG_OK) {
			status = return_to_gpu(tree, tenants, recovery);
		} else if (status == VG_INSUFFICIENT) {
			stop_again(tree, was_stopped);
			recovery->stopped = 0;
		}
	}
	free(was_stopped);
	if (status == VG_OK && lost)
		vg_error_restore(&error);
	return status ? status : lost;
}

static enum vg_status resume_tree(struct tree *tree, struct vg_recovery *recovery)
{
	struct tenants tenants;

	// Do not refuse processes without a slot here: they may continue while they are off the GPU. check_return()
	// refuses to return them to the GPU.
	enum vg_status status = tenants_find(tree, &tenants);
	if (status)
		return status;
	status = resume_tenants(tree, &tenants, recovery);
	tenants_free(&tenants);
	return status;
}

enum vg_status vg_checkpoint_recover(pid_t pid, struct vg_recovery *ret_recovery)
{
	VG_ENTRY();
	struct vg_recovery recovery = {0};
	struct tree tree;

	enum vg_status status = tree_find(&pid, 1, &tree);
	if (status)
		return status;
	if (vg_process_is_dead(tree.processes[0].pid, tree.processes[0].start_time)) {
		tree_free(&tree);
		return vg_fail(VG_NOT_FOUND, 0, "process %d has ended", (int)pid);
	}
	recovery.processes = tree.count;
	status = hold_tree(&tree, WAIT_MS);
	if (status == VG_OK)
		status = resume_tree(&tree, &recovery);
	tree_free(&tree);
	if (ret_recovery)
		*ret_recovery = recovery;
	return status;
}
