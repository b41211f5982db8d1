// Refuses tenants that share memory with other processes. Reads the ledgers of their vGPUs and of all other vGPUs.
#include "checkpoint/tenant/tenant.h"

#include "base/status.h"
#include "checkpoint/process/refusal.h"

#include <dirent.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>

static enum vg_status refuse_shared(const struct tenant *tenant, const char *vgpu)
{
	return refuse(REFUSE_SHARED, 0,
		      "process %d (%s) has memory in common with others in vGPU %s, which an image cannot hold: let "
		      "both sides close it first",
		      (int)tenant->pid, tenant->slot.command, vgpu);
}

// Looks for tenants that are guests of another vGPU: they have opened memory that is charged there. Their slot is in
// the ledger of that vGPU, which they have not mapped.
static enum vg_status look_into(const struct tenants *tenants, const char *path)
{
	enum vg_status status = VG_OK;
	struct vg_ledger_tenant slot;
	struct vg_ledger *ledger;
	unsigned int cursor = 0;

	if (vg_ledger_open_copy(path, &ledger))
		return VG_OK; // the file is not a ledger, or belongs to another user
	while (status == VG_OK && vg_ledger_next_tenant(ledger, &cursor, &slot))
		for (size_t i = 0; i < tenants->count && slot.guest && status == VG_OK; i++)
			if (vg_ledger_owner_same(&slot.owner, &tenants->list[i].slot.owner) &&
			    vg_ledger_count_shared(ledger, slot.slot))
				status = refuse_shared(&tenants->list[i], vg_ledger_name(ledger));
	vg_ledger_close(ledger);
	return status;
}

static enum vg_status look_beside(const struct tenants *tenants, const struct tenant_vgpu *vgpu)
{
	char copy[PATH_MAX], path[PATH_MAX + NAME_MAX + 2];
	enum vg_status status = VG_OK;
	struct dirent *entry;

	snprintf(copy, sizeof copy, "%s", vgpu->path);
	const char *directory = dirname(copy);
	DIR *list = opendir(directory);
	while (list && status == VG_OK && (entry = readdir(list))) {
		snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
		if (entry->d_name[0] != '.')
			status = look_into(tenants, path);
	}
	if (list)
		closedir(list);
	return status;
}

enum vg_status tenants_refuse_shared(const struct tenants *tenants)
{
	enum vg_status status = VG_OK;

	for (size_t i = 0; i < tenants->count; i++) {
		const struct tenant *tenant = &tenants->list[i];
		const struct tenant_vgpu *vgpu = &tenants->vgpus[tenant->vgpu];
		if (vg_ledger_count_shared(vgpu->ledger, tenant->slot.slot) || tenant->slot.exported)
			return refuse_shared(tenant, vgpu->name);
	}
	for (size_t i = 0; i < tenants->vgpu_count && tenants->count && status == VG_OK; i++)
		status = look_beside(tenants, &tenants->vgpus[i]);
	return status;
}
