// Creates and closes virtual GPUs.
#include "manager/manager.h"
#include "manager/memory.h"
#include "manager/operation.h"
#include "manager/shared.h"
#include "manager/unit.h"

#include "node/node.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ---- close -----------------------------------------------------------------------------------------------

// Closes the vGPU: ends its work, frees its memory, and removes it from the manager. Asks the daemon to remove a shared
// vGPU. Handles work that has not ended as manager_end() does. Call with `closing` locked.
static enum vg_status end_parts(struct vg_virtual_gpu *vgpu, const char *instead)
{
	if (vgpu->closed)
		return VG_OK;
	enum vg_status status = unit_shut(vgpu, instead);
	if (status)
		return status;
	atomic_store(&vgpu->object.closed, true);
	manager_gate_shut(&vgpu->gate);
	unit_end(vgpu); // makes threads that wait for work of this vGPU return
	manager_gate_wait(&vgpu->gate);
	operations_end(vgpu);
	status = memory_end(vgpu);
	shared_end(vgpu);
	manager_streams_give_back(vgpu);
	manager_dismiss(vgpu);
	vgpu->closed = true;
	return status;
}

enum vg_status manager_end(struct vg_virtual_gpu *vgpu, const char *instead)
{
	pthread_mutex_lock(&vgpu->closing);
	enum vg_status status = end_parts(vgpu, instead);
	pthread_mutex_unlock(&vgpu->closing);
	return status;
}

static enum vg_status close_vgpu(struct core_object *object)
{
	return manager_end((struct vg_virtual_gpu *)object, NULL);
}

static void free_vgpu(struct core_object *object)
{
	struct vg_virtual_gpu *vgpu = (struct vg_virtual_gpu *)object;

	memory_destroy(vgpu);
	vg_compute_unit_destroy(vgpu->unit);
	core_object_release(&vgpu->manager->object);
	manager_gate_finish(&vgpu->gate);
	pthread_mutex_destroy(&vgpu->closing);
	pthread_mutex_destroy(&vgpu->setting);
	free(vgpu->active_streams);
	free(vgpu);
}

static const struct core_class vgpu_class = {"virtual GPU", close_vgpu, free_vgpu};

enum vg_status vg_virtual_gpu_close(struct vg_virtual_gpu *vgpu)
{
	VG_ENTRY();
	CORE_NEEDED(vgpu);
	enum vg_status status = manager_usable();
	return status ? status : manager_end(vgpu, "vg_virtual_gpu_end");
}

enum vg_status vg_virtual_gpu_end(struct vg_virtual_gpu *vgpu)
{
	VG_ENTRY();
	CORE_NEEDED(vgpu);
	enum vg_status status = manager_usable();
	return status ? status : manager_end(vgpu, NULL);
}

void vg_virtual_gpu_destroy(struct vg_virtual_gpu *vgpu)
{
	core_object_release(vgpu ? &vgpu->object : NULL);
}

struct vg_virtual_gpu *vg_virtual_gpu_retain(struct vg_virtual_gpu *vgpu)
{
	if (vgpu)
		core_object_retain(&vgpu->object);
	return vgpu;
}

struct vg_manager *vg_virtual_gpu_manager(const struct vg_virtual_gpu *vgpu)
{
	return vgpu ? vgpu->manager : NULL;
}

// ---- creation ----------------------------------------------------------------------------------------------

static enum vg_status check_options(const struct vg_manager *manager, const struct vg_virtual_gpu_options *o)
{
	if (o->id < 0)
		return vg_fail(VG_INVALID, 0, "id is %d: use a positive one, or 0 for a free one", o->id);
	if (o->memory_limit == 0)
		return vg_fail(VG_INVALID, 0, "a virtual GPU needs a memory limit: set memory_limit to some bytes");
	if (!(o->compute_share >= 0 && o->compute_share <= 1))
		return vg_fail(
			VG_INVALID, 0,
			"compute_share is %g: use a part of the device, above 0 and up to 1, or 0 for an equal one",
			o->compute_share);
	if (o->streams > manager->options.virtual_streams)
		return vg_fail(
			VG_LIMIT, 0,
			"asked for %u streams, and the manager has %u for all its virtual GPUs: create it with more "
			"virtual_streams",
			o->streams, manager->options.virtual_streams);
	if (o->shared && !o->name)
		return vg_fail(VG_INVALID, 0, "a shared virtual GPU needs a name: programs enter it by that");
	return o->name ? vg_check_name(o->name) : VG_OK;
}

static enum vg_status allocate_vgpu(struct vg_manager *manager, const struct vg_virtual_gpu_options *o,
				    struct vg_virtual_gpu **ret_vgpu)
{
	static _Atomic(uint64_t) serials;
	unsigned most = manager->options.virtual_streams;
	struct vg_virtual_gpu *vgpu = calloc(1, sizeof *vgpu);

	if (!vgpu)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a virtual GPU");
	core_object_init(&vgpu->object, &vgpu_class);
	core_object_retain(&manager->object);
	vgpu->manager = manager;
	vgpu->id = o->id;
	snprintf(vgpu->name, sizeof vgpu->name, "%s", o->name ? o->name : "");
	vgpu->serial = atomic_fetch_add(&serials, 1) + 1;
	vgpu->streams = o->streams ? o->streams : most < 4 ? most : 4;
	vgpu->no_tensor_cores = manager->options.no_tensor_cores || o->no_tensor_cores;
	vgpu->no_mixed_precision = manager->options.no_mixed_precision || o->no_mixed_precision;
	manager_gate_init(&vgpu->gate);
	pthread_mutex_init(&vgpu->closing, NULL);
	pthread_mutex_init(&vgpu->setting, NULL);
	*ret_vgpu = vgpu;
	vgpu->active_streams = calloc(vgpu->streams, sizeof *vgpu->active_streams);
	return vgpu->active_streams ? VG_OK : vg_fail(VG_NO_MEMORY, 0, "no memory for a virtual GPU");
}

// Completes a vGPU that has been added to the table: creates its compute unit and its memory. If it takes turns with
// other processes (vg_virtual_gpu_options.shared), makes it known to the daemon.
static enum vg_status create_parts(struct vg_virtual_gpu *vgpu, const struct vg_virtual_gpu_options *o)
{
	vgpu->budget.limit = o->memory_limit;
	vgpu->budget.name = vgpu->name;
	vgpu->budget.id = vgpu->id;
	vgpu->shared = o->shared;
	enum vg_status status = unit_begin(vgpu, o);
	if (status)
		return status;
	status = o->shared ? shared_begin(vgpu, o->memory_limit) : VG_OK;
	return status ? status : memory_begin(vgpu, o->memory_limit);
}

enum vg_status vg_virtual_gpu_create(struct vg_manager *manager, const struct vg_virtual_gpu_options *options,
				     struct vg_virtual_gpu **ret_vgpu)
{
	VG_ENTRY();
	struct vg_virtual_gpu_options o;
	struct vg_virtual_gpu *vgpu = NULL;

	CORE_NEEDED(options);
	CORE_NEEDED(ret_vgpu);
	enum vg_status status = manager_check(manager);
	if (status)
		return status;
	CORE_OPTIONS(o, options);
	status = check_options(manager, &o);
	if (status)
		return status;
	status = allocate_vgpu(manager, &o, &vgpu);
	if (status)
		goto fail;
	status = manager_admit(vgpu, o.memory_limit);
	if (status)
		goto fail;
	status = create_parts(vgpu, &o);
	if (status)
		goto fail;
	status = manager_publish(vgpu);
	if (status)
		goto fail;
	*ret_vgpu = vgpu;
	return VG_OK;
fail:
	vg_virtual_gpu_destroy(vgpu);
	return status;
}
