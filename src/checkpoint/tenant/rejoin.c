// Reserves slots for restored tenants, and hands the slots over once the processes exist.
#include "checkpoint/tenant/tenant.h"

#include "base/descriptor.h"
#include "base/hint.h"
#include "base/size.h"
#include "base/status.h"
#include "checkpoint/tenant/image.h"
#include "ledger/guard.h"
#include "node/node.h"
#include "wire/wire.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static uint64_t need_of(const struct tenants *tenants, size_t vgpu)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < tenants->count; i++)
		sum += tenants->list[i].vgpu == vgpu ? tenants->list[i].slot.used : 0;
	return sum;
}

static enum vg_status fail_truncated(const struct tenant_vgpu *vgpu)
{
	return vg_fail(
		VG_STATE, 0,
		"the ledger of vGPU %s was truncated: remove it with `virgate rm --force %s`, create it again, and "
		"restore again",
		vgpu->name, vgpu->name);
}

// Fails because a tenant does not fit into its vGPU. The tenants before it in the list have their slots already.
static enum vg_status no_room(const struct tenants *tenants, const struct tenant *tenant)
{
	size_t index = tenant->vgpu;
	const struct tenant_vgpu *vgpu = &tenants->vgpus[index];
	uint64_t need = need_of(tenants, index), limit, charged, own = 0;
	char text[3][VG_SIZE_TEXT], memory[32], sim[VG_HINT_SIM];

	for (const struct tenant *earlier = tenants->list; earlier < tenant; earlier++)
		own += earlier->vgpu == index ? earlier->slot.used : 0;
	vg_ledger_read(tenant->stand_in, &limit, &charged);
	charged -= own < charged ? own : charged;
	uint64_t have = limit > charged ? limit - charged : 0;
	enum vg_status status =
		vg_fail(VG_INSUFFICIENT, 0,
			"vGPU %s has %s of %s left, and the image takes %s: end others in it, or virgate set%s %s "
			"--memory %s",
			vgpu->name, vg_size_format(have, text[0]), vg_size_format(limit, text[1]),
			vg_size_format(need, text[2]), vg_hint_sim(tenants->node->simulate, sim), vgpu->name,
			tenant_memory_text(charged + need, memory));
	vg_fail_amounts(need, have);
	return status;
}

static enum vg_status keep_place(struct tenants *tenants, struct tenant *tenant)
{
	const struct tenant_vgpu *vgpu = &tenants->vgpus[tenant->vgpu];

	int r = vg_ledger_open(vgpu->path, &tenant->stand_in);
	if (r == 0) {
		vg_ledger_guard(tenant->stand_in);
		r = vg_ledger_stand_in(tenant->stand_in, &tenant->slot);
		enum vg_status status = r == VG_LEDGER_REFUSED ? no_room(tenants, tenant) : VG_OK;
		if (vg_ledger_unguard())
			return fail_truncated(vgpu);
		if (status)
			return status;
	}
	if (r)
		return vg_fail(VG_STATE, r < 0 ? -r : 0, "vGPU %s cannot be entered for process %d: %s", vgpu->name,
			       (int)tenant->pid, r == VG_LEDGER_FULL ? "all its slots are in use" : strerror(-r));
	return VG_OK;
}

enum vg_status tenants_reserve(struct tenants *tenants)
{
	enum vg_status status = VG_OK;

	for (size_t i = 0; i < tenants->count && status == VG_OK; i++)
		status = keep_place(tenants, &tenants->list[i]);
	if (status)
		tenants_release_slots(tenants);
	return status;
}

static enum vg_status hand_over(const struct tenant_vgpu *vgpu, struct tenant *tenant)
{
	int r = tenant_owner(tenant->pid, &tenant->slot.owner);
	if (r == 0) {
		vg_ledger_guard(tenant->stand_in);
		r = vg_ledger_hand_over(tenant->stand_in, &tenant->slot, tenant->pid);
		if (vg_ledger_unguard())
			return fail_truncated(vgpu);
	}
	if (r < 0)
		return vg_fail(VG_SYSTEM, -r, "process %d cannot be given its slot in vGPU %s: %s", (int)tenant->pid,
			       vgpu->name, strerror(-r));
	if (r)
		return vg_fail(
			VG_INTEGRITY, 0,
			"process %d does not have the slot in vGPU %s that the image records: it is not the process "
			"that was dumped",
			(int)tenant->pid, vgpu->name);
	return VG_OK;
}

enum vg_status tenants_hand_over(struct tenants *tenants)
{
	enum vg_status status = VG_OK;

	for (size_t i = 0; i < tenants->count && status == VG_OK; i++)
		status = hand_over(&tenants->vgpus[tenants->list[i].vgpu], &tenants->list[i]);
	return status;
}

void tenants_register(const struct tenants *tenants, struct vg_node *node)
{
	for (size_t i = 0; i < tenants->count; i++) {
		const struct tenant *tenant = &tenants->list[i];
		const struct vg_ledger_owner *owner = &tenant->slot.owner;
		struct vg_wire_registration registration = {
			.pid = owner->pid, .pid_namespace = owner->pid_namespace, .start_time = owner->start_time};
		snprintf(registration.ledger, sizeof registration.ledger, "%s", tenants->vgpus[tenant->vgpu].name);
		// Ignore a failure: the daemon finds the tenant a little later without a registration.
		(void)vg_wire_register_and_wait(vg_node_socket(node), &registration, -1);
	}
}
