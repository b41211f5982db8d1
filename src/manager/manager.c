#include "manager/manager.h"
#include "manager/operation.h"
#include "compute/compute.h"

#include "core/error.h"

#include <stdlib.h>
#include <string.h>

// ---- calls -------------------------------------------------------------------------------------------

enum vg_status manager_usable(void)
{
	if (core_forked)
		return vg_fail(VG_STATE, 0,
			       "this process was forked after the driver was loaded: it has no virtual GPUs; start "
			       "another program");
	return VG_OK;
}

enum vg_status manager_check(const struct vg_manager *manager)
{
	enum vg_status status = core_object_check(&manager->object, "manager");

	return status ? status : manager_usable();
}

// Returns whether every later call on the context fails after an error with this status.
static bool is_sticky(CUresult result)
{
	switch (result) {
	case CUDA_ERROR_ECC_UNCORRECTABLE:
	case CUDA_ERROR_NVLINK_UNCORRECTABLE:
	case CUDA_ERROR_CONTAINED:
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_ASSERT:
	case CUDA_ERROR_HARDWARE_STACK_ERROR:
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
	case CUDA_ERROR_MISALIGNED_ADDRESS:
	case CUDA_ERROR_INVALID_ADDRESS_SPACE:
	case CUDA_ERROR_INVALID_PC:
	case CUDA_ERROR_LAUNCH_FAILED:
	case CUDA_ERROR_TENSOR_MEMORY_LEAK:
	case CUDA_ERROR_CONTEXT_IS_DESTROYED:
		return true;
	default:
		return false;
	}
}

static void note_lost(struct vg_manager *manager, CUresult result)
{
	compute_lost(manager->compute, result);
	atomic_store(&manager->lost, true);
}

// Returns whether the context is lost. If the manager does not know of a loss, asks the driver: other work in the
// context or on another device may have made the context unusable.
bool manager_is_lost(struct vg_manager *manager)
{
	struct vg_compute_info info;
	CORE_SCOPE scope = {false};

	if (vg_compute_info(manager->compute, &info) == VG_OK && info.failed)
		atomic_store(&manager->lost, true);
	if (atomic_load(&manager->lost))
		return true;
	CORE_RELAXED relaxed = core_relax();
	CUresult r = core_enter(&scope, manager->context->handle);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuStreamQuery(CU_STREAM_PER_THREAD);
	if (is_sticky(r))
		note_lost(manager, r);
	return is_sticky(r);
}

enum vg_status manager_lost(const struct vg_virtual_gpu *vgpu)
{
	char why[384];

	compute_failure(vgpu->manager->compute, why, sizeof why);
	return vg_fail(VG_STATE, 0, "virtual GPU %d (%s): its context is lost: close it; %s", vgpu->id, vgpu->name,
		       why);
}

enum vg_status manager_enter(struct vg_virtual_gpu *vgpu)
{
	enum vg_status status = vgpu ? manager_usable() : vg_fail(VG_INVALID, 0, "vgpu is NULL");

	if (status)
		return status;
	if (manager_gate_enter(&vgpu->gate))
		return VG_OK;
	return vg_fail(VG_CLOSED, 0, "virtual GPU %d (%s) was destroyed", vgpu->id, vgpu->name);
}

// Records that the context is lost. Adds to the last error the scheduler's text about the loss, which names the devices
// on which executions were running. The call that failed need not be the cause.
static void explain_loss(struct vg_manager *manager)
{
	struct vg_kept_error kept;
	char why[384];

	vg_error_keep(&kept);
	note_lost(manager, (CUresult)kept.error.code);
	compute_failure(manager->compute, why, sizeof why);
	if (strcmp(kept.text, why) == 0) // the last error already has the cause, so there is nothing to add
		return;
	vg_fail(VG_DRIVER, kept.error.code, "%.600s; %s", kept.text, why);
	vg_fail_log(kept.log);
}

enum vg_status manager_leave(struct vg_virtual_gpu *vgpu, enum vg_status status)
{
	if (status == VG_DRIVER && is_sticky((CUresult)vg_last_error()->code))
		explain_loss(vgpu->manager);
	manager_gate_leave(&vgpu->gate);
	return status;
}

// ---- creation and close -------------------------------------------------------------------------------

static void free_manager(struct core_object *object)
{
	struct vg_manager *manager = (struct vg_manager *)object;

	operations_destroy(manager);
	vg_compute_destroy(manager->compute);
	vg_context_destroy(manager->context);
	pthread_mutex_destroy(&manager->creating);
	free(manager->ids.runs);
	free(manager);
}

static const struct core_class manager_class = {"manager", NULL, free_manager};

static enum vg_status fill_options(struct vg_manager_options *options)
{
	struct vg_manager_options *o = options;

	o->max_virtual_gpus = o->max_virtual_gpus ? o->max_virtual_gpus : 8;
	o->virtual_streams = o->virtual_streams ? o->virtual_streams : 16;
	o->monitoring_interval_ms = o->monitoring_interval_ms ? o->monitoring_interval_ms : 100;
	if (o->max_virtual_gpus > MANAGER_VGPUS)
		return vg_fail(VG_INVALID, 0, "max_virtual_gpus is %u: %d are the most", o->max_virtual_gpus,
			       MANAGER_VGPUS);
	if (o->virtual_streams > MANAGER_STREAMS)
		return vg_fail(VG_INVALID, 0, "virtual_streams is %u: %d are the most", o->virtual_streams,
			       MANAGER_STREAMS);
	return VG_OK;
}

static enum vg_status open_device(struct vg_manager *manager, struct vg_device *device)
{
	size_t total;

	enum vg_status status = vg_context_primary(device, &manager->context);
	if (status)
		return status;
	CUresult r = core_driver->cuDeviceTotalMem_v2(&total, device->handle);
	manager->memory = total;
	return r ? core_driver_failed(r, "cuDeviceTotalMem", "%s", "") : VG_OK;
}

static enum vg_status open_compute(struct vg_manager *manager, struct vg_device *device)
{
	const struct vg_manager_options *o = &manager->options;
	const struct vg_compute_options fair = {.size = sizeof fair, .policy = VG_COMPUTE_WEIGHTED_FAIR};
	struct vg_compute_options options;

	enum vg_status status = vg_options_copy(&options, sizeof options, o->compute ? o->compute : &fair);
	if (status)
		return status;
	if (!options.max_units)
		options.max_units = o->max_virtual_gpus > 16 ? o->max_virtual_gpus : 16;
	if (!options.monitoring_interval_ms)
		options.monitoring_interval_ms = o->monitoring_interval_ms;
	return compute_create(device, &options, o->no_compute_virtualization, &manager->compute);
}

enum vg_status vg_manager_create(struct vg_device *device, const struct vg_manager_options *options,
				 struct vg_manager **ret_manager)
{
	VG_ENTRY();
	struct vg_manager_options o;

	CORE_NEEDED(device);
	CORE_NEEDED(ret_manager);
	CORE_OPTIONS(o, options);
	enum vg_status status = manager_usable();
	if (status)
		return status;
	status = fill_options(&o);
	if (status)
		return status;
	struct vg_manager *manager = calloc(1, sizeof *manager);
	if (!manager)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a manager");
	core_object_init(&manager->object, &manager_class);
	manager->options = o;
	pthread_mutex_init(&manager->creating, NULL);
	status = vg_options_copy(&manager->memory_options, sizeof manager->memory_options, o.memory);
	if (status)
		goto fail;
	status = open_device(manager, device);
	if (status)
		goto fail;
	status = open_compute(manager, device);
	if (status)
		goto fail;
	*ret_manager = manager;
	return VG_OK;
fail:
	core_object_release(&manager->object);
	return status;
}

// Closes all vGPUs or none. Fails if a vGPU, or another compute unit of the scheduler, still has work.
static enum vg_status end_all(struct vg_manager *manager, const char *instead)
{
	struct vg_virtual_gpu **vgpus;
	struct vg_kept_error kept;
	enum vg_status result = VG_OK;
	size_t count;

	enum vg_status status = compute_shut(manager->compute, NULL, instead);
	if (status)
		return status;
	vg_mutex_lock(&manager->lock);
	atomic_store(&manager->object.closed, true);
	// manager_admit() checks `closed` under the lock, so no vGPU is added after this
	vg_mutex_unlock(&manager->lock);
	status = manager_get_all(manager, &vgpus, &count);
	if (status)
		return status;
	for (size_t i = 0; i < count; i++) {
		status = manager_end(vgpus[i], NULL);
		if (status && !result) {
			result = status;
			vg_error_keep(&kept);
		}
	}
	manager_release_all(vgpus, count);
	compute_finish(manager->compute);
	if (result)
		vg_error_restore(&kept);
	return result;
}

enum vg_status vg_manager_close(struct vg_manager *manager)
{
	VG_ENTRY();
	CORE_NEEDED(manager);
	enum vg_status status = manager_usable();
	return status ? status : end_all(manager, "vg_manager_end");
}

enum vg_status vg_manager_end(struct vg_manager *manager)
{
	VG_ENTRY();
	CORE_NEEDED(manager);
	enum vg_status status = manager_usable();
	return status ? status : end_all(manager, NULL);
}

void vg_manager_destroy(struct vg_manager *manager)
{
	VG_ENTRY();
	struct vg_kept_error kept;

	if (!manager)
		return;
	vg_error_keep(&kept);
	if (!core_forked)
		(void)end_all(manager, NULL); // ignored, because the log of each vGPU says what failed
	vg_error_restore(&kept);
	core_object_release(&manager->object);
}

struct vg_device *vg_manager_device(const struct vg_manager *manager)
{
	return manager ? manager->context->device : NULL;
}

static void fill_compute(struct vg_manager *manager, struct vg_manager_info *info)
{
	struct vg_compute_info compute;

	info->compute_virtualized = !manager->options.no_compute_virtualization;
	if (vg_compute_info(manager->compute, &compute))
		return; // the virtual GPU is being closed
	info->share_promised = info->compute_virtualized ? 1 - compute.unclaimed_share : 0;
	info->utilization = compute.utilization;
	info->utilization_known = compute.utilization_known;
}

enum vg_status vg_manager_info(struct vg_manager *manager, struct vg_manager_info *ret_info)
{
	VG_ENTRY();
	struct vg_virtual_gpu **vgpus;
	size_t count;

	CORE_NEEDED(ret_info);
	enum vg_status status = manager_check(manager);
	if (status)
		return status;
	status = manager_get_all(manager, &vgpus, &count);
	if (status)
		return status;
	struct vg_manager_info info = {
		.virtual_gpus = (unsigned)count,
		.max_virtual_gpus = manager->options.max_virtual_gpus,
		.virtual_streams = manager->options.virtual_streams,
		.monitoring_interval_ms = manager->options.monitoring_interval_ms,
		.memory_virtualized = !manager->options.no_memory_virtualization,
		.memory_total = manager->memory,
		.memory_available = promise_left(manager->context->device, manager->memory),
	};
	for (size_t i = 0; i < count; i++) {
		if (!manager_gate_enter(&vgpus[i]->gate))
			continue; // the vGPU's ledger is being closed
		info.memory_held += budget_read(&vgpus[i]->budget).charged;
		manager_gate_leave(&vgpus[i]->gate);
	}
	vg_mutex_lock(&manager->lock);
	info.active_streams = manager->streams;
	for (const struct vg_virtual_gpu *vgpu = manager->vgpus; vgpu; vgpu = vgpu->next)
		info.memory_promised += vgpu->promised;
	vg_mutex_unlock(&manager->lock);
	fill_compute(manager, &info);
	manager_release_all(vgpus, count);
	*ret_info = info;
	return VG_OK;
}
