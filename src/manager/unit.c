#include "manager/unit.h"
#include "manager/shared.h"

// ---- creation and close -----------------------------------------------------------------------------------

// Divides the unclaimed share equally among the vGPUs that may still be created. Returns 0 if no share is left; the
// scheduler then fails, with the figures in the error.
static double compute_equal_share(struct vg_manager *manager)
{
	struct vg_compute_info info;
	unsigned most = manager->options.max_virtual_gpus;

	if (vg_compute_info(manager->compute, &info) || info.unclaimed_share < 1e-9)
		return 0;
	return info.unclaimed_share / (most > info.units ? most - info.units : 1);
}

enum vg_status unit_begin(struct vg_virtual_gpu *vgpu, const struct vg_virtual_gpu_options *options)
{
	struct vg_manager *manager = vgpu->manager;
	struct vg_compute_unit_options unit = {
		.size = sizeof unit,
		.name = vgpu->name,
		.share = options->compute_share,
		.compute_units = options->compute_units,
		.streams = vgpu->streams,
		.max_concurrent_kernels = options->max_concurrent_kernels,
		.no_tensor_cores = atomic_load(&vgpu->no_tensor_cores),
		.no_mixed_precision = atomic_load(&vgpu->no_mixed_precision),
		.unknown_code = options->unknown_code,
	};

	pthread_mutex_lock(&manager->creating);
	if (unit.share == 0 && unit.compute_units == 0)
		unit.share = compute_equal_share(manager);
	enum vg_status status = vg_compute_unit_create(manager->compute, &unit, &vgpu->unit);
	pthread_mutex_unlock(&manager->creating);
	return status;
}

enum vg_status unit_shut(struct vg_virtual_gpu *vgpu, const char *instead)
{
	return vgpu->unit ? compute_shut(vgpu->manager->compute, vgpu->unit, instead) : VG_OK;
}

void unit_end(struct vg_virtual_gpu *vgpu)
{
	if (vgpu->unit)
		compute_unit_wait_gone(vgpu->unit);
	atomic_store(&vgpu->at_rest, true);
}

struct vg_compute *vg_manager_compute(const struct vg_manager *manager)
{
	return manager ? manager->compute : NULL;
}

struct vg_compute_unit *vg_virtual_gpu_compute(const struct vg_virtual_gpu *vgpu)
{
	return vgpu ? vgpu->unit : NULL;
}

// ---- work -----------------------------------------------------------------------------------------------------

enum vg_status unit_begin_submit(struct vg_virtual_gpu *vgpu, unsigned stream)
{
	if (vgpu->manager->options.no_compute_virtualization && atomic_load(&vgpu->paused))
		return vg_fail(
			VG_STATE, 0,
			"virtual GPU %d (%s) is paused, and without virtual compute nothing waits: resume it first",
			vgpu->id, vgpu->name);
	return manager_stream_begin(vgpu, stream);
}

enum vg_status unit_end_submit(struct vg_virtual_gpu *vgpu, unsigned stream, enum vg_status status)
{
	if (status == VG_OK)
		atomic_store(&vgpu->used, true);
	manager_stream_end(vgpu, stream, status == VG_OK);
	return status;
}

enum vg_status vg_virtual_gpu_execute(struct vg_virtual_gpu *vgpu, const struct vg_work *work,
				      struct vg_execution **ret_execution)
{
	VG_ENTRY();
	struct vg_work all;
	enum vg_status status = manager_enter(vgpu);

	if (status)
		return status;
	status = work ? vg_options_copy(&all, sizeof all, work) : vg_fail(VG_INVALID, 0, "work is NULL");
	if (status)
		return manager_leave(vgpu, status);
	status = unit_begin_submit(vgpu, all.stream);
	if (status)
		return manager_leave(vgpu, status);
	status = unit_end_submit(vgpu, all.stream, compute_execute(vgpu->unit, work, NULL, NULL, ret_execution));
	return manager_leave(vgpu, status);
}

static enum vg_status check_stream(const struct vg_virtual_gpu *vgpu, unsigned stream)
{
	return stream < vgpu->streams ? VG_OK : manager_no_stream(vgpu, stream);
}

enum vg_status vg_virtual_gpu_sync(struct vg_virtual_gpu *vgpu, unsigned stream, double timeout_seconds)
{
	VG_ENTRY();
	enum vg_status status = manager_enter(vgpu);

	if (status)
		return status;
	status = check_stream(vgpu, stream);
	return manager_leave(vgpu, status ? status : vg_compute_unit_sync(vgpu->unit, stream, timeout_seconds));
}

enum vg_status vg_virtual_gpu_sync_all(struct vg_virtual_gpu *vgpu, double timeout_seconds)
{
	VG_ENTRY();
	enum vg_status status = manager_enter(vgpu);

	return status ? status : manager_leave(vgpu, vg_compute_unit_sync_all(vgpu->unit, timeout_seconds));
}

// Makes a stream inactive. A submission by another thread at the same time makes the stream active again.
static enum vg_status release_stream(struct vg_virtual_gpu *vgpu, unsigned stream)
{
	bool active;
	const bool claimed = manager_stream_claim(vgpu, stream, &active);

	if (!active)
		return VG_OK;
	enum vg_status status = claimed ? vg_compute_unit_sync(vgpu->unit, stream, 1e-9) : VG_NOT_READY;
	if (status == VG_NOT_READY)
		status = vg_fail(VG_BUSY, 0,
				 "there is work in stream %u of virtual GPU %d (%s): synchronize or cancel it first",
				 stream, vgpu->id, vgpu->name);
	if (claimed)
		manager_stream_end(vgpu, stream, status != VG_OK);
	return status;
}

enum vg_status vg_virtual_gpu_release_stream(struct vg_virtual_gpu *vgpu, unsigned stream)
{
	VG_ENTRY();
	enum vg_status status = manager_enter(vgpu);

	if (status)
		return status;
	status = check_stream(vgpu, stream);
	return manager_leave(vgpu, status ? status : release_stream(vgpu, stream));
}

// ---- changes --------------------------------------------------------------------------------------------------

static double get_share(struct vg_virtual_gpu *vgpu)
{
	struct vg_compute_unit_info info;

	return vg_compute_unit_info(vgpu->unit, &info) ? 0 : info.share;
}

// Sets the share or the number of compute units, whichever is not 0, and reports the new share to the daemon. If
// reporting fails, restores the old share.
static enum vg_status change_share(struct vg_virtual_gpu *vgpu, double share, unsigned units)
{
	struct vg_kept_error kept;

	if (vgpu->manager->options.no_compute_virtualization)
		return vg_fail(VG_UNSUPPORTED, 0,
			       "virtual GPU %d (%s): its manager virtualizes no compute: there are no shares", vgpu->id,
			       vgpu->name);
	double before = get_share(vgpu);
	enum vg_status status =
		units ? vg_compute_unit_scale(vgpu->unit, units) : vg_compute_unit_set_share(vgpu->unit, share);
	if (status || !vgpu->shared)
		return status;
	status = shared_set(vgpu, 0, get_share(vgpu));
	if (status) {
		vg_error_keep(&kept);
		(void)vg_compute_unit_set_share(vgpu->unit, before);
		vg_error_restore(&kept);
	}
	return status;
}

enum vg_status vg_virtual_gpu_set_compute_share(struct vg_virtual_gpu *vgpu, double share)
{
	VG_ENTRY();
	enum vg_status status = manager_begin_change(vgpu);

	return status ? status : manager_end_change(vgpu, change_share(vgpu, share, 0));
}

enum vg_status vg_virtual_gpu_scale_compute_units(struct vg_virtual_gpu *vgpu, unsigned compute_units)
{
	VG_ENTRY();
	enum vg_status status = manager_begin_change(vgpu);

	if (status)
		return status;
	status = compute_units ? change_share(vgpu, 0, compute_units)
			       : vg_fail(VG_INVALID, 0, "0 compute units: to give a virtual GPU none, pause it");
	return manager_end_change(vgpu, status);
}

static enum vg_status set_flag(struct vg_virtual_gpu *vgpu, int none, atomic_bool *off, int allowed, const char *what,
			       enum vg_status (*set)(struct vg_compute_unit *unit, int allowed))
{
	if (allowed && none)
		return vg_fail(VG_STATE, 0, "virtual GPU %d (%s): its manager allows no %s", vgpu->id, vgpu->name,
			       what);
	enum vg_status status = set(vgpu->unit, allowed != 0);
	if (status)
		return status;
	atomic_store(off, !allowed);
	return VG_OK;
}

enum vg_status vg_virtual_gpu_set_tensor_cores(struct vg_virtual_gpu *vgpu, int allowed)
{
	VG_ENTRY();
	enum vg_status status = manager_enter(vgpu);

	if (status)
		return status;
	return manager_leave(vgpu, set_flag(vgpu, vgpu->manager->options.no_tensor_cores, &vgpu->no_tensor_cores,
					    allowed, "tensor cores", vg_compute_unit_set_tensor_cores));
}

enum vg_status vg_virtual_gpu_set_mixed_precision(struct vg_virtual_gpu *vgpu, int allowed)
{
	VG_ENTRY();
	enum vg_status status = manager_enter(vgpu);

	if (status)
		return status;
	return manager_leave(vgpu, set_flag(vgpu, vgpu->manager->options.no_mixed_precision, &vgpu->no_mixed_precision,
					    allowed, "mixed precision", vg_compute_unit_set_mixed_precision));
}
