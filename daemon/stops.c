// Finds stopped tenants. The kernel reports a stopped process only to its parent, so the state is read from /proc. A
// process that launched, or waited for a turn, since the last check is running, so its state is not read.
#include "daemon/stops.h"

#include "daemon/arbiter.h"
#include "daemon/process.h"
#include "daemon/user.h"

#include <stdatomic.h>

static bool shows_life(struct tenant *tenant, const struct turn_slot *slot)
{
	uint64_t life = atomic_load(&slot->launches) + atomic_load(&slot->alive_ns);
	bool changed = life != tenant->life;

	tenant->life = life;
	return changed;
}

// Checks the tenants until the vGPU's owner has used up the owner's part of the loop's time. For the other tenants,
// keeps the result of their last check.
static void look_at_vgpu(struct node *node, struct vgpu *vgpu)
{
	struct arbiter_stops stops = {.seen_ns = arbiter_now()};
	const struct turn_slot *slots = vg_ledger_turn_slots(vgpu->ledger);

	user_begin_time(node, vgpu->owner);
	for (struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next) {
		unsigned int slot = tenant->seen.slot;
		if (tenant->is_dead || tenant->seen.guest || tenant->source.fd < 0)
			continue;
		if (shows_life(tenant, &slots[slot]))
			tenant->is_stopped = false;
		else if (user_has_time())
			tenant->is_stopped = process_is_stopped(tenant->pid);
		if (tenant->is_stopped)
			stops.slots[slot / 64] |= 1ull << slot % 64;
	}
	user_end_time();
	arbiter_set_stops(vgpu, &stops);
}

void stops_look(struct node *node)
{
	for (struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		if (vgpu->arbiter && vgpu->damage != DAMAGE_CONTENTS)
			look_at_vgpu(node, vgpu);
}
