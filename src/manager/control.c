// Gives information about virtual GPUs, and changes them.
#include "compute/compute.h"
#include "manager/manager.h"
#include "manager/memory.h"
#include "manager/shared.h"

#include "space/space.h"

#include <stdio.h>

const char *vg_virtual_gpu_status_text(enum vg_virtual_gpu_status status)
{
	static const char *const texts[] = {
		[VG_VIRTUAL_GPU_NOT_FOUND] = "not found", [VG_VIRTUAL_GPU_CREATED] = "created",
		[VG_VIRTUAL_GPU_RUNNING] = "running",	  [VG_VIRTUAL_GPU_PAUSED] = "paused",
		[VG_VIRTUAL_GPU_ERROR] = "error",	  [VG_VIRTUAL_GPU_DESTROYED] = "destroyed",
	};
	return (unsigned)status < sizeof texts / sizeof *texts ? texts[status] : "unknown";
}

enum vg_virtual_gpu_status manager_status_of(struct vg_virtual_gpu *vgpu)
{
	if (atomic_load(&vgpu->object.closed))
		return VG_VIRTUAL_GPU_DESTROYED;
	if (manager_is_lost(vgpu->manager))
		return VG_VIRTUAL_GPU_ERROR;
	if (atomic_load(&vgpu->paused))
		return VG_VIRTUAL_GPU_PAUSED;
	return atomic_load(&vgpu->used) ? VG_VIRTUAL_GPU_RUNNING : VG_VIRTUAL_GPU_CREATED;
}

static void fill_unit(struct vg_virtual_gpu *vgpu, struct vg_virtual_gpu_info *info)
{
	struct vg_compute_unit_info unit;

	if (vg_compute_unit_info(vgpu->unit, &unit))
		return; // the virtual GPU is being closed
	info->compute_share = vgpu->manager->options.no_compute_virtualization ? 0 : unit.share;
	info->compute_utilization = unit.utilization;
	info->compute_utilization_known = unit.utilization_known;
	info->how = unit.how;
	info->queue_length = unit.queue_length;
	info->running = unit.running;
	info->launches = unit.launches;
	info->completed = unit.completed;
	info->failures = unit.failures;
	info->cancelled = unit.cancelled;
}

static void fill_info(struct vg_virtual_gpu *vgpu, struct vg_virtual_gpu_info *info)
{
	struct budget_figures budget = budget_read(&vgpu->budget);

	info->memory_limit = budget.limit;
	info->memory_held = budget.charged;
	info->memory_utilization = budget.limit ? (double)budget.charged / (double)budget.limit : 0;
	info->refusals = budget.refusals;
	memory_figures(vgpu, &info->blocks, &info->memory_allocated);
	if (vgpu->space)
		(void)space_is_out(vgpu->space, &info->memory_in_host);
	fill_unit(vgpu, info);
	info->active_streams = manager_active_streams(vgpu);
	info->tensor_cores = !atomic_load(&vgpu->no_tensor_cores);
	info->mixed_precision = !atomic_load(&vgpu->no_mixed_precision);
}

static struct vg_virtual_gpu_info get_info(struct vg_virtual_gpu *vgpu)
{
	struct vg_virtual_gpu_info info = {.id = vgpu->id, .shared = vgpu->shared, .streams = vgpu->streams};

	snprintf(info.name, sizeof info.name, "%s", vgpu->name);
	info.status = manager_status_of(vgpu);
	if (!manager_gate_enter(&vgpu->gate)) {
		info.status = VG_VIRTUAL_GPU_DESTROYED;
		return info;
	}
	fill_info(vgpu, &info);
	manager_gate_leave(&vgpu->gate);
	return info;
}

enum vg_status vg_virtual_gpu_info(struct vg_virtual_gpu *vgpu, struct vg_virtual_gpu_info *ret_info)
{
	VG_ENTRY();
	CORE_NEEDED(vgpu);
	CORE_NEEDED(ret_info);
	enum vg_status status = manager_usable();
	if (status)
		return status;
	*ret_info = get_info(vgpu);
	return VG_OK;
}

enum vg_status vg_manager_list(struct vg_manager *manager, struct vg_virtual_gpu_info *infos, size_t capacity,
			       size_t *ret_count)
{
	VG_ENTRY();
	struct vg_virtual_gpu **vgpus;
	size_t count;

	CORE_NEEDED(ret_count);
	enum vg_status status = manager_check(manager);
	if (status)
		return status;
	status = manager_get_all(manager, &vgpus, &count);
	if (status)
		return status;
	*ret_count = count;
	if (infos && count > capacity)
		status = core_no_room(count, capacity, "virtual GPUs");
	for (size_t i = 0; infos && status == VG_OK && i < count; i++)
		infos[i] = get_info(vgpus[i]);
	manager_release_all(vgpus, count);
	return status;
}

// ---- changes ---------------------------------------------------------------------------------------------

static enum vg_status set_paused(struct vg_virtual_gpu *vgpu, bool paused)
{
	bool was = !paused;

	if (manager_is_lost(vgpu->manager))
		return manager_lost(vgpu);
	if (!atomic_compare_exchange_strong(&vgpu->paused, &was, paused))
		return vg_fail(VG_STATE, 0, "virtual GPU %d (%s) is %s", vgpu->id, vgpu->name,
			       paused ? "paused already" : "not paused");
	enum vg_status status = paused ? vg_compute_unit_pause(vgpu->unit) : vg_compute_unit_resume(vgpu->unit);
	if (status)
		atomic_store(&vgpu->paused, was);
	return status;
}

enum vg_status manager_begin_change(struct vg_virtual_gpu *vgpu)
{
	enum vg_status status = manager_enter(vgpu);

	if (status)
		return status;
	if (atomic_load(&vgpu->moving))
		return manager_leave(vgpu, vg_fail(VG_STATE, 0, "the memory of virtual GPU %d (%s) is moving", vgpu->id,
						   vgpu->name));
	pthread_mutex_lock(&vgpu->setting);
	return VG_OK;
}

enum vg_status manager_end_change(struct vg_virtual_gpu *vgpu, enum vg_status status)
{
	pthread_mutex_unlock(&vgpu->setting);
	return manager_leave(vgpu, status);
}

enum vg_status vg_virtual_gpu_pause(struct vg_virtual_gpu *vgpu)
{
	VG_ENTRY();
	enum vg_status status = manager_begin_change(vgpu);

	return status ? status : manager_end_change(vgpu, set_paused(vgpu, true));
}

enum vg_status vg_virtual_gpu_resume(struct vg_virtual_gpu *vgpu)
{
	VG_ENTRY();
	enum vg_status status = manager_begin_change(vgpu);
	uint64_t away;

	if (status)
		return status;
	status = vgpu->space && space_is_out(vgpu->space, &away)
			 ? vg_fail(VG_STATE, 0,
				   "the memory of virtual GPU %d (%s) is in the host: vg_virtual_gpu_move_in() brings "
				   "it back",
				   vgpu->id, vgpu->name)
			 : set_paused(vgpu, false);
	return manager_end_change(vgpu, status);
}

// ---- memory to the host and back ---------------------------------------------------------------------------

static bool report_progress(void *user, uint64_t bytes, uint64_t total)
{
	const struct vg_virtual_gpu_move_options *options = user;

	return !options->progress || !options->progress(options->user, bytes, total);
}

// Moves the memory to the host (`out`) or back. Call with `setting` locked, so that no other thread resumes the vGPU
// meanwhile.
static enum vg_status move_memory(struct vg_virtual_gpu *vgpu, const struct vg_virtual_gpu_move_options *given,
				  bool out)
{
	struct vg_virtual_gpu_move_options options;

	enum vg_status status = vg_options_copy(&options, sizeof options, given);
	if (status)
		return status;
	if (!vgpu->space)
		return vg_fail(
			VG_UNSUPPORTED, 0,
			"virtual GPU %d (%s) has memory of the driver's, which does not keep its addresses: only a "
			"manager with memory virtualization can move it",
			vgpu->id, vgpu->name);
	if (manager_is_lost(vgpu->manager))
		return manager_lost(vgpu);
	if (!atomic_load(&vgpu->paused))
		return vg_fail(VG_STATE, 0, "virtual GPU %d (%s) is not paused: pause it first", vgpu->id, vgpu->name);
	if (!out)
		return space_move_in(vgpu->space, report_progress, &options);
	status = compute_wait_for_running(vgpu->unit);
	return status ? status : space_move_out(vgpu->space, report_progress, &options);
}

static enum vg_status change_location(struct vg_virtual_gpu *vgpu, const struct vg_virtual_gpu_move_options *options,
				      bool out)
{
	enum vg_status status = manager_begin_change(vgpu);

	if (status)
		return status;
	atomic_store(&vgpu->moving, true);
	status = move_memory(vgpu, options, out);
	atomic_store(&vgpu->moving, false);
	return manager_end_change(vgpu, status);
}

enum vg_status vg_virtual_gpu_move_out(struct vg_virtual_gpu *vgpu, const struct vg_virtual_gpu_move_options *options)
{
	VG_ENTRY();
	return change_location(vgpu, options, true);
}

enum vg_status vg_virtual_gpu_move_in(struct vg_virtual_gpu *vgpu, const struct vg_virtual_gpu_move_options *options)
{
	VG_ENTRY();
	return change_location(vgpu, options, false);
}

static enum vg_status change_promise(struct vg_virtual_gpu *vgpu, uint64_t limit)
{
	vg_mutex_lock(&vgpu->manager->lock);
	enum vg_status status = manager_promise(vgpu, vgpu->promised, limit);
	if (status == VG_OK)
		vgpu->promised = limit;
	vg_mutex_unlock(&vgpu->manager->lock);
	return status;
}

// Sets the limit of the memory space, if the vGPU has one, and of the budget, which counts the charged memory. If
// necessary, the memory space frees pages without blocks.
static enum vg_status limit_budget(struct vg_virtual_gpu *vgpu, uint64_t limit)
{
	struct vg_kept_error kept;

	enum vg_status status = vgpu->space ? space_set_limit(vgpu->space, limit) : VG_OK;
	if (status == VG_OK)
		return budget_set_limit(&vgpu->budget, limit);
	vg_error_keep(&kept);
	// More than the new limit is charged now; memory may be freed later, so the caller may try again.
	if (status == VG_LIMIT)
		status = VG_BUSY;
	return vg_fail(status, kept.error.code, "virtual GPU %d (%s): %s", vgpu->id, vgpu->name, kept.text);
}

// Changes the limit, and how much of the device's memory is reserved for the vGPU. If the limit increases, reserves
// more before the new limit takes effect. If it decreases, releases a part of the reservation after the new limit has
// taken effect.
static enum vg_status set_limit(struct vg_virtual_gpu *vgpu, uint64_t limit)
{
	struct vg_kept_error kept;
	uint64_t before = vgpu->promised;

	enum vg_status status = limit > before ? change_promise(vgpu, limit) : VG_OK;
	if (status)
		return status;
	status = vgpu->shared ? shared_set(vgpu, limit, 0) : limit_budget(vgpu, limit);
	if (status)
		vg_error_keep(&kept);
	if (status ? limit > before : limit < before)
		(void)change_promise(vgpu, status ? before : limit);
	if (status)
		vg_error_restore(&kept);
	return status;
}

enum vg_status vg_virtual_gpu_set_memory_limit(struct vg_virtual_gpu *vgpu, uint64_t bytes)
{
	VG_ENTRY();
	enum vg_status status = manager_begin_change(vgpu);

	if (status)
		return status;
	status = bytes ? set_limit(vgpu, bytes)
		       : vg_fail(VG_INVALID, 0, "a memory limit of 0 leaves nothing: close the virtual GPU instead");
	return manager_end_change(vgpu, status);
}
