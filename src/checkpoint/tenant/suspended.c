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

static enum vg_status refuse_tenant(const struct tenants *tenants, const struct tenant *tenant, const char *state)
{
	const struct tenant_vgpu *vgpu = &tenants->vgpus[tenant->vgpu];
	char target[2 * VG_LEDGER_NAME];

	if (READ(vg_ledger_pager_page(vgpu->ledger)->out))
		snprintf(target, sizeof target, "%s", vgpu->name);
	else
		snprintf(target, sizeof target, "--pid %d", (int)tenant->pid);
	return refuse(REFUSE_SUSPENDED, 0,
		      "process %d (%s) of vGPU %s is suspended%s: resume it first (virgate resume%s %s)",
		      (int)tenant->pid, tenant->slot.command, vgpu->name, state, vg_hint_own_sim(), target);
}

enum vg_status tenants_refuse_deep(const struct tenants *tenants)
{
	for (size_t i = 0; i < tenants->count; i++) {
		const struct tenant *tenant = &tenants->list[i];
		const struct tenant_vgpu *vgpu = &tenants->vgpus[tenant->vgpu];
		if (READ(vg_ledger_pager_slots(vgpu->ledger)[tenant->slot.slot].park) & PAGER_PARK_DEEP)
			return refuse_tenant(tenants, tenant, " with --deep, and is not on the GPU");
	}
	return VG_OK;
}

enum vg_status tenants_refuse_suspended(const struct tenants *tenants)
{
	for (size_t i = 0; i < tenants->count; i++) {
		const struct tenant *tenant = &tenants->list[i];
		const struct tenant_vgpu *vgpu = &tenants->vgpus[tenant->vgpu];
		if (vgpu->evictable && is_away(&vg_ledger_pager_slots(vgpu->ledger)[tenant->slot.slot]))
			return refuse_tenant(tenants, tenant, ", and its GPU memory is in the host or moves");
	}
	return VG_OK;
}
