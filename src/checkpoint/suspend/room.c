#include "checkpoint/suspend/room.h"

#include "base/hint.h"
#include "base/size.h"
#include "base/status.h"
#include "checkpoint/process/refusal.h"
#include "pager/page.h"
#include "virgate/gpu.h"

#include <string.h>

#define READ(word) atomic_load_explicit(&(word), memory_order_relaxed)

static bool is_off_gpu(const struct tree *tree, pid_t pid)
{
	enum vg_process_state state;

	for (size_t i = 0; i < tree->count; i++)
		if (tree->processes[i].pid == pid)
			return tree->processes[i].cuda && vg_process_state(tree->processes[i].cuda, &state) == VG_OK &&
			       state == VG_PROCESS_CHECKPOINTED;
	return false;
}

// Returns how much the pager of the tenant has moved to the host. That memory stays there while the driver restores
// the process.
static uint64_t count_in_host(const struct tenant_vgpu *vgpu, const struct tenant *tenant)
{
	if (!vgpu->evictable)
		return 0;
	const struct pager_slot *slot = &vg_ledger_pager_slots(vgpu->ledger)[tenant->slot.slot];
	uint32_t state = READ(slot->state);
	return state == PAGER_OUT || state == PAGER_PARKED ? READ(slot->host) : 0;
}

// Returns what the driver moves to the GPU for this tenant. A tenant may report a wrong figure. Then only its own
// return to the GPU is refused, or is tried although room is missing.
static uint64_t count_needed(const struct tenant_vgpu *vgpu, const struct tenant *tenant)
{
	uint64_t charged = vg_size_min(tenant->slot.used, vgpu->memory), host = count_in_host(vgpu, tenant);

	return charged > host ? charged - host : 0;
}

static enum vg_status refuse_gpu(const struct tenant_vgpu *vgpu, bool is_only_one, uint64_t need, uint64_t have,
				 const char *retry)
{
	char text[2][VG_SIZE_TEXT];

	enum vg_status status =
		refuse(REFUSE_DEVICE_MEMORY, 0,
		       "%s has %s free, and the processes of vGPU %s%s need %s to return, without the memory in the "
		       "host: end or suspend what else uses it (virgate ps%s, nvidia-smi), then %s",
		       vgpu->uuid, vg_size_format(have, text[0]), vgpu->name, is_only_one ? "" : " and others",
		       vg_size_format(need, text[1]), vg_hint_own_sim(), retry);
	vg_fail_amounts(need, have);
	return status;
}

// Checks the GPU of the vGPU with the index `first`, for the processes of all vGPUs in the list that are on this GPU.
static enum vg_status check_gpu(const struct tree *tree, const struct tenants *tenants, size_t first, const char *retry)
{
	const struct tenant_vgpu *vgpu = &tenants->vgpus[first];
	struct vg_gpu_memory memory;
	bool is_only_one = true;
	struct vg_gpu *gpu;
	uint64_t need = 0;

	for (size_t i = 0; i < tenants->count; i++) {
		const struct tenant *tenant = &tenants->list[i];
		const struct tenant_vgpu *own = &tenants->vgpus[tenant->vgpu];
		if (strcmp(own->uuid, vgpu->uuid) != 0 || !is_off_gpu(tree, tenant->pid))
			continue;
		is_only_one &= tenant->vgpu == first;
		need += count_needed(own, tenant);
	}
	// Without NVML, the driver fails if memory is missing.
	if (!need || vg_gpu_by_uuid(vgpu->uuid, &gpu) || vg_gpu_memory(gpu, &memory) || memory.free >= need)
		return VG_OK;
	return refuse_gpu(vgpu, is_only_one, need, memory.free, retry);
}

static bool is_first_of_gpu(const struct tenants *tenants, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (strcmp(tenants->vgpus[i].uuid, tenants->vgpus[index].uuid) == 0)
			return false;
	return true;
}

enum vg_status room_check(const struct tree *tree, const struct tenants *tenants, const char *retry)
{
	enum vg_status status = VG_OK;

	for (size_t i = 0; i < tenants->vgpu_count && status == VG_OK; i++)
		if (is_first_of_gpu(tenants, i))
			status = check_gpu(tree, tenants, i, retry);
	return status;
}
