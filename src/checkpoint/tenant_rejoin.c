// A restore keeps the tenants' places itself until they are there to take them.
#include "checkpoint/tenant.h"

#include "base/descriptor.h"
#include "base/size.h"
#include "base/status.h"
#include "checkpoint/tenant_image.h"
#include "system/system.h"
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

// As `virgate create` reads it: whole mebibytes, upwards.
static const char *memory_text(uint64_t bytes, char text[32])
{
	snprintf(text, 32, "%lluM", (unsigned long long)((bytes + (1 << 20) - 1) >> 20));
	return text;
}

static const char *gpu_of(const struct tenant_vgpu *vgpu, const struct vg_process_gpu_pair *pairs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(pairs[i].old_uuid, vgpu->uuid) == 0)
			return pairs[i].new_uuid;
	return vgpu->uuid;
}

static enum vg_status missing(const struct tenant_vgpu *vgpu, const char *gpu, const char *function)
{
	char memory[32], share[24] = "";

	if (vgpu->share)
		snprintf(share, sizeof share, " --share %u", vgpu->share);
	return vg_fail(VG_NOT_FOUND, 0, function,
		       "the processes ran inside vGPU %s, and there is none of that name now%s: make it with virgate "
		       "create %s --memory %s%s --device %s",
		       vgpu->name, vgpu->ephemeral ? " (it went with virgate run)" : "", vgpu->name,
		       memory_text(vgpu->memory, memory), share, gpu);
}

static enum vg_status open_page(struct tenant_vgpu *vgpu, const char *gpu, const char *function)
{
	char here[VG_SYSTEM_UUID_TEXT];
	uint8_t uuid[16];

	int r = vg_ledger_open(vgpu->path, &vgpu->ledger);
	if (r || strcmp(vg_ledger_name(vgpu->ledger), vgpu->name) != 0)
		return vg_fail(VG_STATE, r < 0 ? -r : 0, function,
			       "the page of vGPU %s was %s, and is not there now (%s): the processes map it, so the "
			       "daemon must have the same runtime folder as then (VIRGATE_RUNTIME_DIR), and be of the "
			       "same version",
			       vgpu->name, vgpu->path, r ? strerror(-r) : "it is another vGPU's");
	vg_ledger_uuid(vgpu->ledger, uuid);
	vg_system_uuid_format(uuid, here);
	if (strcasecmp(here, gpu) != 0)
		return vg_fail(VG_UNSUPPORTED, 0, function,
			       "vGPU %s is on %s, and the image is for %s: map the one to the other, or make the vGPU "
			       "anew there",
			       vgpu->name, here, gpu);
	if (vg_ledger_flags(vgpu->ledger) & VG_LEDGER_REMOVED)
		return vg_fail(VG_STATE, 0, function, "vGPU %s is being removed", vgpu->name);
	return VG_OK;
}

static enum vg_status no_room(const struct tenants *tenants, size_t index, const char *function)
{
	const struct tenant_vgpu *vgpu = &tenants->vgpus[index];
	uint64_t need = need_of(tenants, index), limit, charged, own = 0;
	char text[3][VG_SIZE_TEXT], memory[32];

	for (size_t i = 0; i < tenants->count; i++)
		own += tenants->list[i].vgpu == index && tenants->list[i].stand_in
			       ? vg_ledger_used_here(tenants->list[i].stand_in)
			       : 0;
	vg_ledger_read(vgpu->ledger, &limit, &charged);
	charged -= own < charged ? own : charged;
	uint64_t have = limit > charged ? limit - charged : 0;
	enum vg_status status =
		vg_fail(VG_INSUFFICIENT, 0, function,
			"vGPU %s has %s of %s left, and the image takes %s: end others in it, or virgate set %s "
			"--memory %s",
			vgpu->name, vg_size_format(have, text[0]), vg_size_format(limit, text[1]),
			vg_size_format(need, text[2]), vgpu->name, memory_text(charged + need, memory));
	vg_fail_amounts(need, have);
	return status;
}

static enum vg_status keep_place(struct tenants *tenants, struct tenant *tenant, const char *function)
{
	const struct tenant_vgpu *vgpu = &tenants->vgpus[tenant->vgpu];

	int r = vg_ledger_open(vgpu->path, &tenant->stand_in);
	if (r == 0)
		r = vg_ledger_stand_in(tenant->stand_in, &tenant->slot);
	if (r == VG_LEDGER_REFUSED)
		return no_room(tenants, tenant->vgpu, function);
	if (r)
		return vg_fail(VG_STATE, r < 0 ? -r : 0, function, "vGPU %s cannot be entered for process %d: %s",
			       vgpu->name, (int)tenant->pid,
			       r == VG_LEDGER_FULL ? "it has no place for another process" : strerror(-r));
	return VG_OK;
}

static enum vg_status check_vgpu(struct tenant_vgpu *vgpu, struct vg_node *node, const char *gpu, const char *function)
{
	struct vg_vgpu_list *list;

	// The daemon may have to make the page anew, after a reboot.
	enum vg_status status = vg_vgpu_inspect(node, vgpu->name, &list);
	if (status == VG_OK)
		vg_vgpu_list_free(list);
	return status == VG_NOT_FOUND ? missing(vgpu, gpu, function) : status ? status : open_page(vgpu, gpu, function);
}

enum vg_status tenants_read_at(const json_t *description, struct vg_node *node, const struct vg_process_gpu_pair *pairs,
			       size_t pair_count, const char *function, struct tenants *ret_tenants)
{
	enum vg_status status = tenants_read(description, function, ret_tenants);

	if (status)
		return status;
	for (size_t i = 0; i < ret_tenants->vgpu_count && status == VG_OK; i++)
		status = check_vgpu(&ret_tenants->vgpus[i], node, gpu_of(&ret_tenants->vgpus[i], pairs, pair_count),
				    function);
	if (status)
		tenants_free(ret_tenants);
	return status;
}

enum vg_status tenants_reserve(struct tenants *tenants, const char *function)
{
	enum vg_status status = VG_OK;

	for (size_t i = 0; i < tenants->count && status == VG_OK; i++)
		status = keep_place(tenants, &tenants->list[i], function);
	if (status)
		tenants_give_back(tenants);
	return status;
}

static enum vg_status hand_over(const struct tenant_vgpu *vgpu, struct tenant *tenant, const char *function)
{
	int r = tenant_owner(tenant->pid, &tenant->slot.owner);
	if (r == 0)
		r = vg_ledger_hand_over(tenant->stand_in, &tenant->slot, tenant->pid);
	if (r < 0)
		return vg_fail(VG_SYSTEM, -r, function, "process %d cannot be given its place in vGPU %s: %s",
			       (int)tenant->pid, vgpu->name, strerror(-r));
	if (r)
		return vg_fail(VG_INTEGRITY, 0, function,
			       "process %d does not know its place in vGPU %s as the image says it: it is not the one "
			       "that was written down",
			       (int)tenant->pid, vgpu->name);
	return VG_OK;
}

enum vg_status tenants_hand_over(struct tenants *tenants, const char *function)
{
	enum vg_status status = VG_OK;

	for (size_t i = 0; i < tenants->count && status == VG_OK; i++)
		status = hand_over(&tenants->vgpus[tenants->list[i].vgpu], &tenants->list[i], function);
	return status;
}

void tenants_tell(const struct tenants *tenants, struct vg_node *node)
{
	for (size_t i = 0; i < tenants->count; i++) {
		const struct tenant *tenant = &tenants->list[i];
		const struct vg_ledger_owner *owner = &tenant->slot.owner;
		struct vg_wire_hello hello = {
			.pid = owner->pid, .pid_namespace = owner->pid_namespace, .start_time = owner->start_time};
		snprintf(hello.ledger, sizeof hello.ledger, "%s", tenants->vgpus[tenant->vgpu].name);
		// Without it the daemon finds them a little later.
		(void)vg_wire_say_hello(vg_node_socket(node), &hello, -1, true);
	}
}
