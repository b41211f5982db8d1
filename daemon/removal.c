#include "daemon/removal.h"

#include "base/descriptor.h"
#include "daemon/admission.h"
#include "daemon/journal.h"
#include "daemon/save.h"
#include "daemon/say.h"
#include "daemon/search.h"
#include "daemon/state.h"
#include "daemon/tenant.h"
#include "daemon/vgpu.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

static void kill_process(struct vgpu *vgpu, struct launcher *launcher)
{
	say("vGPU %s is removed: its process %d is ended", vgpu->name, (int)launcher->pid);
	if (syscall(SYS_pidfd_send_signal, launcher->source.fd, SIGKILL, NULL, 0) < 0)
		say("process %d cannot be ended: %m", (int)launcher->pid);
	else
		launcher->was_killed = true;
	for (struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
		if (tenant->pid == launcher->pid && vg_start_time_same(tenant->start_time, launcher->start_time))
			tenant->was_killed = launcher->was_killed && !tenant->seen.guest;
}

void removal_kill_programs(struct vgpu *vgpu)
{
	for (struct launcher *launcher = vgpu->launchers; launcher; launcher = launcher->next)
		if (launcher->has_mapped && !launcher->was_killed)
			kill_process(vgpu, launcher);
}

int removal_count_ending(const struct vgpu *vgpu)
{
	int count = 0;

	for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
		count += tenant->is_dead ? !tenant->exports_reported : tenant->was_killed;
	for (const struct launcher *launcher = vgpu->launchers; launcher; launcher = launcher->next)
		count += launcher->was_killed;
	return count;
}

void removal_drop(struct node *node, struct vgpu *vgpu)
{
	vgpu_drop(node, vgpu);
	admission_publish(node);
	state_save_runtime(node);
}

void removal_sweep(struct node *node)
{
	for (struct vgpu *vgpu = node->vgpus, *next; vgpu; vgpu = next) {
		next = vgpu->next;
		bool is_created = !vgpu->ephemeral;
		if (!vgpu->is_being_removed || vgpu->change)
			continue;
		bool known = search_knows_heirs(node, vgpu);
		removal_kill_programs(vgpu); // a program may have entered since the last call
		if (!known || removal_count_ending(vgpu) > 0)
			continue;
		journal_add(node, JOURNAL_REMOVED, &(struct journal_note){.vgpu = vgpu},
			    "its killed programs have ended");
		removal_drop(node, vgpu);
		if (is_created)
			save_state(node);
	}
}

void removal_sweep_ephemeral(struct node *node)
{
	bool changed = false;

	for (struct vgpu *vgpu = node->vgpus, *next; vgpu; vgpu = next) {
		struct vg_ledger_tenant seen;
		uint64_t charged;
		next = vgpu->next;
		if (!vgpu->ephemeral || vgpu->launchers || vgpu->tenants || vgpu->is_being_removed)
			continue;
		if (!search_knows_heirs(node, vgpu))
			continue;
		// With a limit of 0, no process can enter any more. A process that entered before has a slot. A charge
		// without a slot does not count: a process wrote it into the ledger itself.
		if (vgpu->damage != DAMAGE_CONTENTS)
			vg_ledger_set_limit(vgpu->ledger, 0, &charged);
		if (vgpu->damage != DAMAGE_CONTENTS && vg_ledger_next_tenant(vgpu->ledger, &(unsigned int){0}, &seen)) {
			vg_ledger_set_limit(vgpu->ledger, vgpu->limit, &charged);
			tenant_scan(node, vgpu);
			continue;
		}
		journal_add(node, JOURNAL_REMOVED, &(struct journal_note){.vgpu = vgpu}, "its last program has ended");
		vgpu_drop(node, vgpu);
		changed = true;
	}
	if (changed) {
		admission_publish(node);
		state_save_runtime(node);
		node->must_retry = true; // a request may wait for the memory that is free now
	}
}
