// Handles the verb rm, which removes a vGPU. If programs run in it, the request must allow to kill them (--force). Then
// the vGPU is removed after the last program has ended and its memory is released. So other vGPUs do not get the memory
// too early.
#include "base/size.h"
#include "daemon/journal.h"
#include "daemon/removal.h"
#include "daemon/request_parts.h"
#include "daemon/save.h"
#include "daemon/search.h"
#include "daemon/tenant.h"

#include <stdio.h>
#include <string.h>

static json_t *refuse_removal(const struct request *request, const struct vgpu *vgpu)
{
	char text[VG_SIZE_TEXT] = "an unknown amount", process[32] = "";
	int tenants = 0, launchers = 0;
	uint64_t charged;

	for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
		tenants++;
	for (const struct launcher *launcher = vgpu->launchers; launcher; launcher = launcher->next) {
		if (launcher->pid == request->peer->pid)
			continue;
		launchers++;
		snprintf(process, sizeof process, " (process %d)", (int)launcher->pid);
	}
	// With a limit of 0, no process can enter any more.
	if (!tenants && !launchers &&
	    (vgpu->damage == DAMAGE_CONTENTS || vg_ledger_set_limit(vgpu->ledger, 0, &charged) == 0))
		return NULL;
	if (vgpu->damage != DAMAGE_CONTENTS)
		vg_size_format(vg_ledger_charged(vgpu->ledger), text);
	return refuse("busy",
		      "vGPU %s is in use: %d on the GPU (`virgate inspect %s%s` lists them), %d by virgate run%s, %s "
		      "charged; end them first, or with `virgate rm --force %s%s`",
		      vgpu->name, tenants, vgpu->name, sim_flag(), launchers, process, text, vgpu->name, sim_flag());
}

static json_t *finish_removal(struct node *node, const struct change *change, int error)
{
	if (error)
		return refuse("system", "the vGPU is removed, but that cannot be saved: %s: %s", node->state_path,
			      strerror(-error));
	return agree();
}

json_t *answer_remove(const struct request *request)
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
		if (!vgpu->is_being_removed) {
			vgpu->is_being_removed = true;
			search_restart(vgpu); // search also for processes that have the ledger open without a slot
		}
		if (!search_knows_heirs(node, vgpu))
			return answer_later(request);
		removal_kill_programs(vgpu);
		int count = removal_count_ending(vgpu);
		if (count)
			return json_pack("{s:b, s:i}", "ok", 1, "ending", count);
	} else if ((refusal = refuse_removal(request, vgpu))) {
		return refusal;
	}
	bool is_ephemeral = vgpu->ephemeral;
	struct change change = {.finish = finish_removal};
	journal_add(node, JOURNAL_REMOVED, &(struct journal_note){.vgpu = vgpu, .actor = request->peer}, "%s",
		    force ? "with its programs" : "on request");
	removal_drop(node, vgpu);
	return is_ephemeral ? finish_removal(node, &change, 0) : save_change(node, &change);
}
