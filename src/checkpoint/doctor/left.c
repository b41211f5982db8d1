// Finds processes that a killed dump or restore has left locked, stopped, or moved off the GPU.
#include "checkpoint/doctor/doctor.h"

#include "base/hint.h"
#include "checkpoint/process/proc.h"
#include "checkpoint/process/refusal.h"
#include "checkpoint/process/tree.h"
#include "checkpoint/tenant/tenant.h"
#include "virgate/process.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

// Returns whether the process is off the GPU because of `virgate suspend --deep`.
static bool is_deep(pid_t pid)
{
	struct tenants tenants = {0};
	struct tree tree;

	if (tree_find_alone(&pid, 1, &tree))
		return false;
	bool is_deep = tenants_find(&tree, &tenants) == VG_OK && tenants_refuse_deep(&tenants) != VG_OK;
	tenants_free(&tenants);
	tree_free(&tree);
	return is_deep;
}

// Returns the state in which a killed operation left the process; NULL: the process runs, or its state is unknown. Does
// not ask the driver about a stopped process, because the driver would wait for it.
static const char *left_in(pid_t pid)
{
	enum vg_process_state state = VG_PROCESS_RUNNING;
	struct vg_process *process;
	struct proc_status status;

	if (proc_status_read(pid, &status) || status.state == 't' || status.state == 'Z' || !refusal_maps_cuda(pid))
		return NULL;
	if (status.state == 'T')
		return "stopped";
	if (vg_process_open(pid, &process))
		return NULL;
	if (vg_process_state(process, &state))
		state = VG_PROCESS_RUNNING;
	vg_process_destroy(process);
	return state == VG_PROCESS_RUNNING || (state == VG_PROCESS_CHECKPOINTED && is_deep(pid))
		       ? NULL
		       : vg_process_state_name(state);
}

void doctor_left(struct doctor_report *report)
{
	struct doctor_check *check = doctor_check(report, DOCTOR_CUDA, "processes left behind");
	DIR *directory = opendir("/proc");
	struct dirent *entry;
	const char *first = NULL;
	pid_t whose = 0;
	size_t count = 0;

	while (directory && (entry = readdir(directory))) {
		pid_t pid = (pid_t)atoi(entry->d_name);
		const char *state = pid > 0 ? left_in(pid) : NULL;
		if (!state)
			continue;
		if (count++ == 0) {
			first = state;
			whose = pid;
		}
	}
	if (directory)
		closedir(directory);
	if (count == 0) {
		doctor_say(check, DOCTOR_OK, "none");
		return;
	}
	doctor_say(check, DOCTOR_WARNING, "%zu CUDA process%s, the first is %d: %s", count, count > 1 ? "es" : "",
		   (int)whose, first);
	if (strcmp(first, vg_process_state_name(VG_PROCESS_FAILED)) == 0)
		doctor_fix(check, "end it, for the driver has given it up: kill -9 %d", (int)whose);
	else
		doctor_fix(check, "if no dump is at work on it: virgate recover%s --pid %d", vg_hint_own_sim(),
			   (int)whose);
}
