#include "daemon/damage.h"

#include "daemon/journal.h"
#include "daemon/leftover.h"
#include "daemon/registry.h"
#include "daemon/say.h"
#include "daemon/search.h"

#include <string.h>

// Marks the vGPU as damaged, and logs the cause. The owner of a ledger can write anything into it. So the daemon
// compares the ledger's header, limit and sum of the charges with its own figures. A wrong ledger harms only the users
// of its vGPU.
static void note_damage(struct node *node, struct vgpu *vgpu, enum damage damage, const char *text)
{
	vgpu->damage = damage;
	vgpu->damage_text = text;
	search_restart(vgpu); // search the mappings of all processes, since the slots may be wrong
	say("the ledger of vGPU %s is damaged: %s", vgpu->name, text);
	journal_add(node, JOURNAL_DAMAGED, &(struct journal_note){.vgpu = vgpu}, "%s", text);
}

void damage_check(struct node *node, struct vgpu *vgpu)
{
	struct vg_ledger_expected expected = {.name = vgpu->name, .limit = vgpu->limit};
	char path[PATH_MAX];

	registry_path(node, vgpu, path);
	int r = vg_ledger_check_file(vgpu->ledger, path);
	if (r == VG_LEDGER_GROWN) {
		leftover_cut(node, vgpu);
		vgpu->is_being_removed = true; // otherwise its users could fill the file system by enlarging the ledger
	}
	if (vgpu->damage == DAMAGE_CONTENTS && vgpu->damage_text)
		return;
	if (r == VG_LEDGER_GROWN) {
		note_damage(node, vgpu, DAMAGE_CONTENTS, "its file was made larger, so the vGPU is removed");
		return;
	}
	if (r == VG_LEDGER_DAMAGED || vgpu->damage == DAMAGE_CONTENTS) {
		note_damage(node, vgpu, DAMAGE_CONTENTS, "its file was truncated");
		return;
	}
	memcpy(expected.uuid, vg_system_device(node->system, vgpu->device)->uuid, sizeof expected.uuid);
	const char *wrong = vg_ledger_find_damage(vgpu->ledger, &expected);
	if (wrong)
		note_damage(node, vgpu, DAMAGE_CONTENTS, wrong);
	else if (r && vgpu->damage == DAMAGE_NONE)
		note_damage(node, vgpu, DAMAGE_REMOVED, "its file was removed");
}
