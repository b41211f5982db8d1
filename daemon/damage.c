// A ledger is its owner's file, and may say anything. What the daemon knows itself wins: it compares the header, the
// limit and the sum with what it wrote there, and a vGPU whose ledger does not agree costs nobody but its own users.
#include "daemon/node.h"
#include "daemon/request.h"

#include <errno.h>
#include <string.h>

static void note(struct vgpu *vgpu, enum damage damage, const char *text)
{
	vgpu->damage = damage;
	vgpu->damage_text = text;
	search_again(vgpu); // from now on the ledger is not asked
	say("the ledger of vGPU %s is damaged: %s", vgpu->name, text);
}

void damage_look(struct node *node, struct vgpu *vgpu)
{
	struct vg_ledger_expected expected = {.name = vgpu->name, .limit = vgpu->limit};
	char path[PATH_MAX];

	registry_path(node, vgpu, path);
	int r = vg_ledger_check_file(vgpu->ledger, path);
	if (r == VG_LEDGER_GROWN) {
		leftover_cut(node, vgpu);
		vgpu->removing = true; // or its users fill the file system
	}
	if (vgpu->damage == DAMAGE_CONTENTS && vgpu->damage_text)
		return;
	if (r == VG_LEDGER_GROWN) {
		note(vgpu, DAMAGE_CONTENTS, "its file was made larger, so the vGPU is removed");
		return;
	}
	if (r == VG_LEDGER_DAMAGED || vgpu->damage == DAMAGE_CONTENTS) {
		note(vgpu, DAMAGE_CONTENTS, "its file was truncated");
		return;
	}
	memcpy(expected.uuid, vg_system_device(node->system, vgpu->device)->uuid, sizeof expected.uuid);
	const char *wrong = vg_ledger_find_damage(vgpu->ledger, &expected);
	if (wrong)
		note(vgpu, DAMAGE_CONTENTS, wrong);
	else if (r && vgpu->damage == DAMAGE_NONE)
		note(vgpu, DAMAGE_REMOVED, "its file was removed");
}

json_t *damage_refuse(const struct vgpu *vgpu)
{
	if (vgpu->damage == DAMAGE_REMOVED)
		return refuse("system",
			      "nobody new can enter vGPU %s, because %s: its programs go on under its limit; once they "
			      "have ended it can be used again (`virgate rm --force %s%s` ends them and removes it)",
			      vgpu->name, vgpu->damage_text, vgpu->name, sim_flag());
	return refuse("system",
		      "the ledger of vGPU %s is damaged, %s: remove it with `virgate rm --force %s%s`, which ends its "
		      "programs, and create it again",
		      vgpu->name, vgpu->damage_text, vgpu->name, sim_flag());
}

// Nobody uses it: it is made anew, or goes.
static void mend(struct node *node, struct vgpu *vgpu)
{
	if (vgpu->ephemeral) {
		say("the ledger of vGPU %s is damaged, and no process has it open: the vGPU is removed", vgpu->name);
		registry_drop(node, vgpu);
		return;
	}
	int r = registry_renew(node, vgpu);
	if (r < 0)
		say("the ledger of vGPU %s cannot be created again: %s", vgpu->name, strerror(-r));
	else
		say("the ledger of vGPU %s is created again", vgpu->name);
}

static bool is_mendable(const struct vgpu *vgpu)
{
	return (vgpu->restarts || (vgpu->damage == DAMAGE_REMOVED && !vgpu->ephemeral)) && vgpu->damage &&
	       !vgpu->change && !vgpu->removing && !vgpu->tenants && !vgpu->launchers;
}

bool damage_is_undecided(struct node *node, struct vgpu *vgpu)
{
	return is_mendable(vgpu) && !search_knows_heirs(node, vgpu);
}

bool damage_mend_all(struct node *node)
{
	bool waits = false;

	for (struct vgpu *vgpu = node->vgpus, *next; vgpu; vgpu = next) {
		next = vgpu->next;
		if (damage_is_undecided(node, vgpu)) // a program may have it open that is no tenant yet
			waits = true;
		else if (is_mendable(vgpu))
			mend(node, vgpu);
	}
	return waits;
}
