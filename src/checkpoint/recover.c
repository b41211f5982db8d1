// Recovers the processes of a killed dump or restore, so that they run again. A killed operation leaves no record, so
// the state is read from the processes.
#include "base/descriptor.h"
#include "base/status.h"
#include "checkpoint/process/gpu_state.h"
#include "checkpoint/process/hold.h"
#include "checkpoint/process/proc.h"
#include "checkpoint/process/tree.h"
#include "checkpoint/suspend/park.h"
#include "checkpoint/tenant/tenant.h"
#include "core/object.h"
#include "virgate/checkpoint.h"

#include <signal.h>

enum { WAIT_MS = 600000 };

// Continues stopped processes, because a stopped process cannot answer the driver. Also cancels a SIGSTOP that has been
// sent but has not stopped the process yet.
static size_t continue_processes(const struct tree *tree)
{
	size_t stopped = 0;

	for (size_t i = 0; i < tree->count; i++) {
		stopped += proc_let_go_on(tree->processes[i].pid);
		kill(tree->processes[i].pid, SIGCONT);
	}
	return stopped;
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

static enum vg_status resume_tree(struct tree *tree, struct vg_recovery *recovery)
{
	struct tenants tenants;

	// A process without a slot may be continued while it is off the GPU, but must not return to the GPU.
	enum vg_status found = tenants_find(tree, &tenants);
	if (found)
		return found;
	tenants_restore_slots(&tenants);
	recovery->stopped = continue_processes(tree);
	enum vg_status status = tree_find_cuda(tree);
	if (status == VG_OK)
		status = tenants_refuse_slotless(&tenants, tree);
	// Without a driver no process can be locked, so there is nothing to unlock.
	if (status == VG_OK) {
		recovery->held_back = count_held_back(tree);
		status = gpu_roll_back(tree);
		size_t parked = 0;
		if (status)
			parking_release_dumped(&tenants);
		else
			parked = parking_release(&tenants);
		recovery->held_back = recovery->held_back > parked ? recovery->held_back : parked;
	} else if (status == VG_NO_DRIVER || status == VG_UNSUPPORTED) {
		status = VG_OK;
	}
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
