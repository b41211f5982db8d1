#include "daemon/mend.h"

#include "daemon/say.h"
#include "daemon/search.h"
#include "daemon/vgpu.h"

#include <string.h>

// Creates the ledger again, or removes the vGPU if it is ephemeral.
static void mend_ledger(struct node *node, struct vgpu *vgpu)
{
	if (vgpu->ephemeral) {
		say("the ledger of vGPU %s is damaged, and no process has it open: the vGPU is removed", vgpu->name);
		vgpu_drop(node, vgpu);
		return;
	}
	int r = vgpu_renew(node, vgpu);
	if (r < 0)
		say("the ledger of vGPU %s cannot be created again: %s", vgpu->name, strerror(-r));
	else
		say("the ledger of vGPU %s is created again", vgpu->name);
}

static bool is_mendable(const struct vgpu *vgpu)
{
	return (vgpu->was_damaged_at_start || (vgpu->damage == DAMAGE_REMOVED && !vgpu->ephemeral)) && vgpu->damage &&
	       !vgpu->change && !vgpu->is_being_removed && !vgpu->tenants && !vgpu->launchers;
}

bool mend_is_undecided(struct node *node, struct vgpu *vgpu)
{
	return is_mendable(vgpu) && !search_knows_heirs(node, vgpu);
}

bool mend_all(struct node *node)
{
	bool waits = false;

	for (struct vgpu *vgpu = node->vgpus, *next; vgpu; vgpu = next) {
		next = vgpu->next;
		if (mend_is_undecided(node, vgpu)) // wait: a program that is not a tenant yet may have the ledger open
			waits = true;
		else if (is_mendable(vgpu))
			mend_ledger(node, vgpu);
	}
	return waits;
}
