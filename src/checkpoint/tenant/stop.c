// Stops tenants at a moment when none of their threads uses the ledger. Otherwise such a thread would use its old slot
// after a restore.
#include "checkpoint/tenant/tenant.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/status.h"

#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint64_t WAIT_NS = 10000000000;
enum { LOOK_AGAIN_US = 500, LET_RUN_US = 2000 };

static bool is_stopped(pid_t pid, const char *thread)
{
	char path[64], text[1024];

	snprintf(path, sizeof path, "/proc/%d/task/%.16s/stat", (int)pid, thread);
	if (vg_file_read(path, text, sizeof text) < 0)
		return true; // the thread has ended
	const char *end = strrchr(text, ')');
	return end && strchr("TtZX", end[2]);
}

static bool all_stopped(const struct tree *tree)
{
	bool stopped = true;

	for (size_t i = 0; i < tree->count && stopped; i++) {
		char path[64];
		struct dirent *entry;
		snprintf(path, sizeof path, "/proc/%d/task", (int)tree->processes[i].pid);
		DIR *threads = opendir(path);
		while (threads && stopped && (entry = readdir(threads)))
			stopped = !isdigit((unsigned char)entry->d_name[0]) ||
				  is_stopped(tree->processes[i].pid, entry->d_name);
		if (threads)
			closedir(threads);
	}
	return stopped;
}

static enum vg_status stop_tree(const struct tree *tree, uint64_t end)
{
	tree_signal(tree, SIGSTOP);
	while (!all_stopped(tree)) {
		if (vg_clock_monotonic_ns() > end)
			return vg_fail(VG_NOT_READY, 0, "the processes could not be stopped in time");
		usleep(LOOK_AGAIN_US);
	}
	return VG_OK;
}

// Makes all tenants forget their slots. Returns the first tenant that is inside a ledger operation, or NULL.
static const struct tenant *lift_all(const struct tenants *tenants)
{
	for (size_t i = 0; i < tenants->count; i++) {
		const struct tenant *tenant = &tenants->list[i];
		if (vg_ledger_lift(tenants->vgpus[tenant->vgpu].ledger, &tenant->slot, tenant->pid))
			return tenant;
	}
	return NULL;
}

void tenants_restore_slots(const struct tenants *tenants)
{
	for (size_t i = 0; i < tenants->count; i++)
		(void)vg_ledger_put_back(&tenants->list[i].slot, tenants->list[i].pid);
}

static bool is_among(const struct tenants *tenants, size_t vgpu, const struct vg_ledger_tenant *slot)
{
	for (size_t i = 0; i < tenants->count; i++)
		if (tenants->list[i].vgpu == vgpu && tenants->list[i].slot.slot == slot->slot)
			return true;
	return false;
}

static enum vg_status check_whole(const struct tenants *tenants, const char *name)
{
	struct vg_ledger_tenant slot;

	for (size_t i = 0; i < tenants->vgpu_count; i++) {
		unsigned int cursor = 0;
		while (strcmp(tenants->vgpus[i].name, name) == 0 &&
		       vg_ledger_next_tenant(tenants->vgpus[i].ledger, &cursor, &slot))
			if (!slot.guest && !is_among(tenants, i, &slot) &&
			    !vg_process_is_dead((pid_t)slot.owner.pid, slot.owner.start_time))
				return vg_fail(VG_STATE, 0, "process %u (%s) has entered vGPU %s meanwhile: try again",
					       slot.owner.pid, slot.command, name);
	}
	return VG_OK;
}

enum vg_status tenants_stop(const struct tree *tree, const char *whole, struct tenants *tenants)
{
	uint64_t end = vg_clock_monotonic_ns() + WAIT_NS;
	const struct tenant *busy;

	if (!tenants->count)
		return VG_OK;
	for (;;) {
		enum vg_status status = stop_tree(tree, end);
		tenants_free(tenants);
		if (status)
			return status;
		status = tenants_find(tree, tenants);
		if (status)
			return status;
		status = tenants_refuse_shared(tenants);
		if (status)
			return status;
		status = tenants_refuse_suspended(tenants);
		if (status)
			return status;
		busy = lift_all(tenants);
		if (!busy)
			return whole ? check_whole(tenants, whole) : VG_OK;
		if (vg_clock_monotonic_ns() > end)
			return vg_fail(VG_NOT_READY, 0, // rolling back gives the tenants their slots again
				       "process %d (%s) was in the midst of an allocation whenever it was stopped",
				       (int)busy->pid, busy->slot.command);
		tenants_restore_slots(tenants);
		tree_signal(tree, SIGCONT);
		usleep(LET_RUN_US);
	}
}
