// Makes a tenant that opens memory of another vGPU a guest there. The memory stays charged to the vGPU that allocated
// it, until the last process that has the memory open has ended.
#include "daemon/guests.h"

#include "daemon/registry.h"
#include "daemon/tenant.h"
#include "ledger/shared.h"

#include <string.h>

// Finds the tenant that sent the message. Returns NULL if the peer is not the tenant that the message names.
static struct tenant *find_sender(struct node *node, const struct authority_peer *peer,
				  const struct vg_wire_registration *self)
{
	struct vgpu *vgpu = registry_find(node, self->ledger);
	struct vg_ledger_owner owner = {self->pid, self->pid_namespace, self->start_time};

	if (!vgpu || vgpu->damage == DAMAGE_CONTENTS)
		return NULL;
	tenant_scan(node, vgpu);
	for (struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
		if (vg_ledger_owner_same(&tenant->seen.owner, &owner) && tenant->pid == peer->pid && !tenant->is_dead &&
		    !tenant->is_replaced && !tenant->seen.guest)
			return tenant;
	return NULL;
}

// Makes the tenant a guest of the vGPU. The message must contain the key of an allocation that is charged to the vGPU.
// Returns 0 on success.
static int join_vgpu(struct node *node, struct vgpu *vgpu, const struct tenant *tenant, struct vg_wire_guest *guest)
{
	struct vg_ledger_tenant seen;
	unsigned int cursor = 0;
	uint64_t bytes;
	int r = vg_ledger_guest_join(vgpu->ledger, &tenant->seen.owner, tenant->seen.program, guest->key, &guest->share,
				     &bytes);

	if (r)
		return r;
	guest->key = bytes;
	strcpy(guest->vgpu, vgpu->name);
	while (vg_ledger_next_tenant(vgpu->ledger, &cursor, &seen))
		if (seen.guest && memcmp(&seen.owner, &tenant->seen.owner, sizeof seen.owner) == 0)
			vg_ledger_set_outer(vgpu->ledger, &seen, (uint32_t)tenant->pid, tenant->start_time);
	tenant_scan(node, vgpu); // the scan begins to watch the guest's process
	return 0;
}

bool guests_answer(struct node *node, const struct authority_peer *peer, struct vg_wire_guest *guest)
{
	const struct tenant *tenant = find_sender(node, peer, &guest->self);
	struct vgpu *left = guest->share ? registry_find(node, guest->vgpu) : NULL;

	if (guest->share) {
		if (tenant && left && left->damage != DAMAGE_CONTENTS)
			vg_ledger_guest_leave(left->ledger, &tenant->seen.owner, guest->share);
		return false;
	}
	for (struct vgpu *vgpu = node->vgpus; vgpu && tenant; vgpu = vgpu->next)
		if (vgpu != tenant->vgpu && vgpu->device == tenant->vgpu->device && vgpu->damage != DAMAGE_CONTENTS &&
		    join_vgpu(node, vgpu, tenant, guest) == 0)
			break;
	return true;
}

void guests_undo(struct node *node, const struct vg_wire_guest *guest)
{
	struct vgpu *vgpu = guest->share ? registry_find(node, guest->vgpu) : NULL;
	struct vg_ledger_owner owner = {guest->self.pid, guest->self.pid_namespace, guest->self.start_time};

	if (vgpu && vgpu->damage != DAMAGE_CONTENTS)
		vg_ledger_guest_leave(vgpu->ledger, &owner, guest->share);
}
