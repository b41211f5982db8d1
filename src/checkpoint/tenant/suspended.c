// Refuses tenants of evictable vGPUs whose memory is in the host or is being moved, but is not parked. The driver's
// checkpoint would not include such memory.
#include "checkpoint/tenant/tenant.h"

#include "base/hint.h"
#include "checkpoint/process/refusal.h"
#include "pager/page.h"

#include <stdio.h>

#define READ(word) atomic_load_explicit(&(word), memory_order_relaxed)

static bool is_away(const struct pager_slot *slot)
{
	uint32_t state = READ(slot->state);
	bool is_moving =
		state == PAGER_PREPARING || state == PAGER_CLOSING || state == PAGER_LEAVING || state == PAGER_COMING;

	return state != PAGER_PARKED && (READ(slot->host) || state == PAGER_OUT || is_moving);
}

static void name_target(const struct tenants *tenants, const struct tenant *tenant, char *buffer, size_t capacity)
{
	const struct tenant_vgpu *vgpu = &tenants->vgpus[tenant->vgpu];

	if (READ(vg_ledger_pager_page(vgpu->ledger)->out))
		snprintf(buffer, capacity, "%s", vgpu->name);
	else
		snprintf(buffer, capacity, "--pid %d", (int)tenant->pid);
}

enum vg_status tenants_refuse_deep(const struct tenants *tenants)
{
	char how[2 * VG_LEDGER_NAME];

	for (size_t i = 0; i < tenants->count; i++) {
		const struct tenant *tenant = &tenants->list[i];
		const struct tenant_vgpu *vgpu = &tenants->vgpus[tenant->vgpu];
		if (!(READ(vg_ledger_pager_slots(vgpu->ledger)[tenant->slot.slot].park) & PAGER_PARK_DEEP))
			continue;
		name_target(tenants, tenant, how, sizeof how);
		return refuse(REFUSE_SUSPENDED, 0,
			      "process %d (%s) of vGPU %s is suspended with --deep, and is not on the GPU: resume it "
			      "first (virgate resume%s %s)",
			      (int)tenant->pid, tenant->slot.command, vgpu->name, vg_hint_own_sim(), how);
	}
	return VG_OK;
}

enum vg_status tenants_refuse_suspended(const struct tenants *tenants)
{
	char how[2 * VG_LEDGER_NAME];

	for (size_t i = 0; i < tenants->count; i++) {
		const struct tenant *tenant = &tenants->list[i];
		const struct tenant_vgpu *vgpu = &tenants->vgpus[tenant->vgpu];
		if (!vgpu->evictable || !is_away(&vg_ledger_pager_slots(vgpu->ledger)[tenant->slot.slot]))
			continue;
		name_target(tenants, tenant, how, sizeof how);
		return refuse(REFUSE_SUSPENDED, 0,
			      "process %d (%s) of vGPU %s is suspended, and its GPU memory is in the host or moves: "
			      "resume it first (virgate resume%s %s)",
			      (int)tenant->pid, tenant->slot.command, vgpu->name, vg_hint_own_sim(), how);
	}
	return VG_OK;
}
