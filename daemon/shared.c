#include "daemon/shared.h"

#include "base/size.h"
#include "daemon/user.h"
#include "ledger/shared.h"

#include <string.h>

// Returns whether the driver lists the allocation under another process than its owner, or under no process. After the
// owner has released it, the driver lists it under a process that still has it open. If only descriptors keep it
// allocated, the driver lists it under no process.
static bool shows_elsewhere(const struct vgpu *vgpu, const struct vg_ledger_shared_info *share)
{
	if (!share->owned || share->away)
		return true;
	for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
		if (tenant->seen.slot == share->owner)
			return tenant->is_dead || tenant->is_replaced;
	return true;
}

static uint64_t sum_slot(const struct vgpu *vgpu, unsigned int slot)
{
	struct vg_ledger_shared_info share;
	unsigned int cursor = 0;
	uint64_t bytes = 0;

	while (vg_ledger_next_shared(vgpu->ledger, &cursor, &share))
		if (vg_ledger_shared_is_held_by(&share, slot) && shows_elsewhere(vgpu, &share))
			bytes += share.bytes;
	return bytes;
}

static uint64_t sum_vgpu(const struct vgpu *vgpu, const struct tenant *of)
{
	uint64_t bytes = 0;

	for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
		if (vgpu->damage != DAMAGE_CONTENTS && user_has_time() &&
		    memcmp(&tenant->seen.owner, &of->seen.owner, sizeof of->seen.owner) == 0)
			bytes += sum_slot(vgpu, tenant->seen.slot);
	return bytes;
}

uint64_t shared_bytes_shown_under(const struct node *node, const struct tenant *of)
{
	uint64_t bytes = 0;

	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		bytes += sum_vgpu(vgpu, of);
	return bytes;
}

uint64_t shared_bytes_of_others(const struct node *node, const struct tenant *of)
{
	uint64_t bytes = 0;

	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		if (vgpu != of->vgpu)
			bytes += vg_size_min(sum_vgpu(vgpu, of), vgpu->memory);
	return bytes;
}
