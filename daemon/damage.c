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
	say("the ledger of vGPU %s is damaged: %s", vgpu->name, text);
}

void damage_look(struct node *node, struct vgpu *vgpu)
{
	struct vg_ledger_expected expected = {.name = vgpu->name, .limit = vgpu->memory};
	char path[PATH_MAX];

	registry_path(node, vgpu, path);
	int r = vg_ledger_check_file(vgpu->ledger, path);
	if (vgpu->damage == DAMAGE_CONTENTS && vgpu->damage_text)
		return;
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

void damage_mend_all(struct node *node)
{
	for (struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next) {
		if (vgpu->damage != DAMAGE_REMOVED || vgpu->ephemeral || vgpu->removing || vgpu->tenants ||
		    vgpu->launchers)
			continue;
		heir_adopt_all(node, vgpu); // a program may have it open that is no tenant yet
		if (vgpu->launchers)
			continue;
		int r = registry_renew(node, vgpu);
		if (r == 0)
			say("the ledger of vGPU %s is created again", vgpu->name);
	}
}
