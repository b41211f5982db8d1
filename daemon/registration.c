#include "daemon/registration.h"

#include "daemon/container.h"
#include "daemon/discard.h"
#include "daemon/exports.h"
#include "daemon/measure.h"
#include "daemon/registry.h"
#include "daemon/say.h"
#include "daemon/tenant.h"

#include <errno.h>

// Gives the epoll instance to the tenant that has sent it. A process that ran several programs one after the other
// (exec) may have a slot for each. Then the latest program is the sender.
static void accept_exports(const struct node *node, struct vgpu *vgpu, const struct vg_ledger_owner *owner, int offered)
{
	struct tenant *sender = NULL;

	for (struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
		if (vg_ledger_owner_same(&tenant->seen.owner, owner) && !tenant->is_replaced && !tenant->seen.guest &&
		    (!sender || tenant->seen.entered_ns > sender->seen.entered_ns))
			sender = tenant;
	if (!sender)
		discard(offered);
	else if (exports_accept(node, sender, offered) == -EPROTO)
		say("process %d of vGPU %s sent a descriptor that is no epoll instance", (int)sender->pid, vgpu->name);
}

static void register_tenant(struct node *node, struct vgpu *vgpu, const struct vg_ledger_owner *owner,
			    const struct authority_peer *peer)
{
	struct vg_ledger_tenant seen;
	unsigned int cursor = 0;

	// A process that was restored is registered by the process that restored it, so the peer is another process.
	bool is_peer = owner->pid_namespace != node->pid_namespace && tenant_is_process(peer->pid, owner);
	while (is_peer && vgpu->damage != DAMAGE_CONTENTS && vg_ledger_next_tenant(vgpu->ledger, &cursor, &seen))
		if (vg_ledger_owner_same(&seen.owner, owner))
			vg_ledger_set_outer(vgpu->ledger, &seen, (uint32_t)peer->pid, peer->start_time);
	tenant_scan(node, vgpu);
}

void registration_handle(struct node *node, const struct vg_wire_registration *registration,
			 const struct authority_peer *peer, int exports_fd)
{
	struct vgpu *vgpu = registry_find(node, registration->ledger);
	struct vg_ledger_owner owner = {registration->pid, registration->pid_namespace, registration->start_time};

	// Any user of a container may register, since the user who started the container gave the vGPU to all of it.
	if (!vgpu || (!authority_allows(AUTHORITY_ENTER, authority_classify(peer, vgpu->owner, vgpu->group)) &&
		      !container_find(node, vgpu, peer->pid))) {
		if (exports_fd >= 0)
			discard(exports_fd);
		return;
	}
	register_tenant(node, vgpu, &owner, peer);
	if (exports_fd >= 0)
		accept_exports(node, vgpu, &owner, exports_fd);
	measure_device(node, vgpu->device);
}
