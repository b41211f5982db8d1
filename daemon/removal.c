// rm: a vGPU in which programs run stays, unless they are to be ended with it. Then it goes when the last of them has
// ended and its memory is released, so that what it had reserved is not promised to others before.
#include "base/descriptor.h"
#include "base/size.h"
#include "daemon/save.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void end_process(struct vgpu *vgpu, struct launcher *launcher)
{
	say("vGPU %s is removed: its process %d is ended", vgpu->name, (int)launcher->pid);
	if (syscall(SYS_pidfd_send_signal, launcher->source.fd, SIGKILL, NULL, 0) < 0)
		say("process %d cannot be ended: %m", (int)launcher->pid);
	else
		launcher->told_to_end = true;
	for (struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
		if (tenant->pid == launcher->pid && vg_start_time_same(tenant->start_time, launcher->start_time))
			tenant->told_to_end = launcher->told_to_end && !tenant->seen.guest;
}

// Whoever only started a program has no mapping, and stays. So does a process that only the ledger names.
static void end_programs(struct vgpu *vgpu)
{
	for (struct launcher *launcher = vgpu->launchers; launcher; launcher = launcher->next)
		if (launcher->has_mapped && !launcher->told_to_end)
			end_process(vgpu, launcher);
}

// Those whose memory is not released yet. Of a dead one descriptors elsewhere may keep memory for ever.
static int count_ending(const struct vgpu *vgpu)
{
	int count = 0;

	for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
		count += tenant->dead ? !tenant->told_of_exports : tenant->told_to_end;
	for (const struct launcher *launcher = vgpu->launchers; launcher; launcher = launcher->next)
		count += launcher->told_to_end;
	return count;
}

static void drop(struct node *node, struct vgpu *vgpu)
{
	registry_drop(node, vgpu);
	admission_publish(node);
	state_save_runtime(node);
}

void removal_sweep(struct node *node)
{
	for (struct vgpu *vgpu = node->vgpus, *next; vgpu; vgpu = next) {
		next = vgpu->next;
		bool is_created = !vgpu->ephemeral;
		if (!vgpu->removing || vgpu->change)
			continue;
		bool known = search_knows_heirs(node, vgpu);
		end_programs(vgpu); // one may have come in meanwhile
		if (!known || count_ending(vgpu) > 0)
			continue;
		drop(node, vgpu);
		if (is_created)
			state_save(node);
	}
}

static json_t *refuse_removal(const struct request *request, const struct vgpu *vgpu)
{
	char text[VG_SIZE_TEXT] = "an unknown amount", who[32] = "";
	int tenants = 0, launchers = 0;
	uint64_t charged;

	for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
		tenants++;
	for (const struct launcher *launcher = vgpu->launchers; launcher; launcher = launcher->next) {
		if (launcher->pid == request->peer->pid)
			continue;
		launchers++;
		snprintf(who, sizeof who, " (process %d)", (int)launcher->pid); // a run, or what it left behind
	}
	// The limit of 0 keeps out whoever would come in just now.
	if (!tenants && !launchers &&
	    (vgpu->damage == DAMAGE_CONTENTS || vg_ledger_set_limit(vgpu->ledger, 0, &charged) == 0))
		return NULL;
	if (vgpu->damage != DAMAGE_CONTENTS)
		vg_size_format(vg_ledger_charged(vgpu->ledger), text);
	return refuse("busy",
		      "vGPU %s is in use: %d on the GPU (`virgate inspect %s%s` lists them), %d by virgate run%s, %s "
		      "charged; end them first, or with `virgate rm --force %s%s`",
		      vgpu->name, tenants, vgpu->name, sim_flag(), launchers, who, text, vgpu->name, sim_flag());
}

static json_t *finish_removal(struct node *node, const struct change *change, int error)
{
	if (error)
		return refuse("system", "the vGPU is removed, but that cannot be remembered: %s: %s", node->state_path,
			      strerror(-error));
	return json_pack("{s:b}", "ok", 1);
}

json_t *removal_answer(const struct request *request)
{
	struct node *node = request->node;
	bool force = json_is_true(json_object_get(request->object, "force"));
	json_t *refusal = NULL;
	struct vgpu *vgpu = request_vgpu(request, "name", &refusal);

	if (!vgpu)
		return refusal;
	if (vgpu->change)
		return answer_later(request);
	tenant_scan(node, vgpu);
	if (force) {
		if (!vgpu->removing) {
			vgpu->removing = true;
			search_again(vgpu); // who has the ledger open and does not stand in it
		}
		if (!search_knows_heirs(node, vgpu))
			return answer_later(request); // who uses it is not known yet
		end_programs(vgpu);
		int count = count_ending(vgpu);
		if (count)
			return json_pack("{s:b, s:i}", "ok", 1, "ending", count);
	} else if ((refusal = refuse_removal(request, vgpu))) {
		return refusal;
	}
	bool is_ephemeral = vgpu->ephemeral;
	struct change change = {.finish = finish_removal};
	drop(node, vgpu);
	return is_ephemeral ? finish_removal(node, &change, 0) : save_change(request, &change);
}
