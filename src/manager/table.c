// Implements a manager's table of virtual GPUs, and reserves their limits.
#include "manager/manager.h"

#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>

static struct vg_virtual_gpu *find_vgpu(const struct vg_manager *manager, int id)
{
	struct vg_virtual_gpu *vgpu = manager->vgpus;

	while (vgpu && vgpu->id != id)
		vgpu = vgpu->next;
	return vgpu;
}

// ---- ids and limits ------------------------------------------------------------------------------------

// Chooses the id, and a default name that contains the id.
static enum vg_status choose_id(struct vg_virtual_gpu *vgpu)
{
	struct vg_manager *manager = vgpu->manager;
	const struct vg_virtual_gpu *other = vgpu->id ? find_vgpu(manager, vgpu->id) : NULL;

	if (manager->count >= manager->options.max_virtual_gpus)
		return vg_fail(VG_LIMIT, 0,
			       "the manager has %u virtual GPUs, as many as it may: close one, or create the manager "
			       "with a larger max_virtual_gpus",
			       manager->count);
	if (other)
		return vg_fail(VG_EXISTS, 0, "there is a virtual GPU %d (%s): take another id, or 0 for a free one",
			       other->id, other->name);
	for (int id = vgpu->id ? 0 : manager_ids_next(&manager->ids); id > 0 && !vgpu->id; id++)
		if (!manager_ids_have(&manager->ids, id) && !find_vgpu(manager, id))
			vgpu->id = id;
	if (!vgpu->id)
		return vg_fail(VG_LIMIT, 0, "all ids were used: name one that is free");
	if (!*vgpu->name)
		snprintf(vgpu->name, sizeof vgpu->name, "vgpu-%d", vgpu->id);
	return VG_OK;
}

static enum vg_status fail_too_large(const struct vg_virtual_gpu *vgpu, uint64_t limit, uint64_t left)
{
	const struct vg_manager *manager = vgpu->manager;
	char asked[VG_SIZE_TEXT], total[VG_SIZE_TEXT], rest[VG_SIZE_TEXT];

	vg_size_format(limit, asked);
	vg_size_format(manager->memory, total);
	if (limit > manager->memory)
		return vg_fail(VG_LIMIT, 0,
			       "virtual GPU %d: asked for a memory limit of %s (%llu bytes), and device %d has %s",
			       vgpu->id, asked, (unsigned long long)limit, manager->context->device->ordinal, total);
	return vg_fail(VG_LIMIT, 0,
		       "virtual GPU %d: asked for a memory limit of %s, and of the %s of device %d only %s are not "
		       "promised to others: lower their limits first",
		       vgpu->id, asked, total, manager->context->device->ordinal, vg_size_format(left, rest));
}

enum vg_status manager_promise(struct vg_virtual_gpu *vgpu, uint64_t before, uint64_t limit)
{
	struct vg_manager *manager = vgpu->manager;
	const struct vg_device *device = manager->context->device;
	uint64_t left = promise_left(device, manager->memory);

	if (limit > manager->memory)
		return fail_too_large(vgpu, limit, left);
	if (limit > before && !promise_reserve(device, manager->memory, limit - before, &left))
		return fail_too_large(vgpu, limit, left + before);
	if (limit < before)
		promise_return(device, before - limit);
	return VG_OK;
}

// ---- adding and removing ---------------------------------------------------------------------------------
// Reserves an id and the limit, and links the vGPU into the table. Call with the manager's lock held.
static enum vg_status link_vgpu(struct vg_manager *manager, struct vg_virtual_gpu *vgpu, uint64_t limit)
{
	struct vg_virtual_gpu **link = &manager->vgpus;

	enum vg_status status = core_object_check(&manager->object, "manager");
	if (status)
		return status;
	status = choose_id(vgpu);
	if (status)
		return status;
	status = manager_promise(vgpu, 0, limit);
	if (status)
		return status;
	while (*link && (*link)->id < vgpu->id)
		link = &(*link)->next;
	vgpu->next = *link;
	*link = vgpu;
	manager->count++;
	vgpu->promised = limit;
	vgpu->admitted = true;
	return VG_OK;
}

enum vg_status manager_admit(struct vg_virtual_gpu *vgpu, uint64_t limit)
{
	vg_mutex_lock(&vgpu->manager->lock);
	enum vg_status status = link_vgpu(vgpu->manager, vgpu, limit);
	vg_mutex_unlock(&vgpu->manager->lock);
	return status;
}

enum vg_status manager_publish(struct vg_virtual_gpu *vgpu)
{
	struct vg_manager *manager = vgpu->manager;

	vg_mutex_lock(&manager->lock);
	enum vg_status status = core_object_check(&manager->object, "manager");
	if (status == VG_OK && !manager_ids_add(&manager->ids, vgpu->id))
		status = vg_fail(VG_NO_MEMORY, 0, "no memory for a virtual GPU");
	vgpu->listed = status == VG_OK;
	vg_mutex_unlock(&manager->lock);
	return status;
}

void manager_dismiss(struct vg_virtual_gpu *vgpu)
{
	struct vg_manager *manager = vgpu->manager;
	struct vg_virtual_gpu **link = &manager->vgpus;

	vg_mutex_lock(&manager->lock);
	if (vgpu->admitted) {
		while (*link != vgpu)
			link = &(*link)->next;
		*link = vgpu->next;
		manager->count--;
		promise_return(manager->context->device, vgpu->promised);
	}
	vgpu->admitted = vgpu->listed = false;
	vg_mutex_unlock(&manager->lock);
}

// ---- looking up --------------------------------------------------------------------------------------------

struct vg_virtual_gpu *manager_get(struct vg_manager *manager, int id)
{
	vg_mutex_lock(&manager->lock);
	struct vg_virtual_gpu *vgpu = find_vgpu(manager, id);
	if (vgpu && (!vgpu->listed || !core_object_try_retain(&vgpu->object)))
		vgpu = NULL;
	vg_mutex_unlock(&manager->lock);
	return vgpu;
}

enum vg_status manager_get_all(struct vg_manager *manager, struct vg_virtual_gpu ***ret_vgpus, size_t *ret_count)
{
	size_t count = 0;

	vg_mutex_lock(&manager->lock);
	struct vg_virtual_gpu **vgpus = calloc(manager->count + 1, sizeof(struct vg_virtual_gpu *));
	for (struct vg_virtual_gpu *vgpu = vgpus ? manager->vgpus : NULL; vgpu; vgpu = vgpu->next)
		if (vgpu->listed && core_object_try_retain(&vgpu->object))
			vgpus[count++] = vgpu;
	vg_mutex_unlock(&manager->lock);
	if (!vgpus)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of virtual GPUs");
	*ret_vgpus = vgpus;
	*ret_count = count;
	return VG_OK;
}

void manager_release_all(struct vg_virtual_gpu **vgpus, size_t count)
{
	for (size_t i = 0; i < count; i++)
		core_object_release(&vgpus[i]->object);
	free(vgpus);
}

enum vg_status vg_manager_find(struct vg_manager *manager, int id, struct vg_virtual_gpu **ret_vgpu)
{
	VG_ENTRY();
	char ids[200] = "";
	size_t length = 0;

	CORE_NEEDED(ret_vgpu);
	enum vg_status status = manager_check(manager);
	if (status)
		return status;
	struct vg_virtual_gpu *vgpu = manager_get(manager, id);
	if (vgpu) {
		*ret_vgpu = vgpu;
		return VG_OK;
	}
	vg_mutex_lock(&manager->lock);
	bool destroyed = manager_ids_have(&manager->ids, id);
	for (const struct vg_virtual_gpu *other = manager->vgpus; other && length < sizeof ids - 16;
	     other = other->next)
		if (other->listed)
			length += (size_t)snprintf(ids + length, sizeof ids - length, "%s%d", length ? ", " : "",
						   other->id);
	vg_mutex_unlock(&manager->lock);
	return vg_fail(VG_NOT_FOUND, 0, "%s virtual GPU %d%s; existing ids: %s", destroyed ? "the" : "no", id,
		       destroyed ? " was destroyed" : "", length ? ids : "none");
}

enum vg_virtual_gpu_status vg_manager_status(struct vg_manager *manager, int id)
{
	if (!manager || id <= 0 || core_forked)
		return VG_VIRTUAL_GPU_NOT_FOUND;
	struct vg_virtual_gpu *vgpu = manager_get(manager, id);
	if (vgpu) {
		enum vg_virtual_gpu_status status = manager_status_of(vgpu);
		core_object_release(&vgpu->object);
		return status;
	}
	vg_mutex_lock(&manager->lock);
	bool had = manager_ids_have(&manager->ids, id);
	vg_mutex_unlock(&manager->lock);
	return had ? VG_VIRTUAL_GPU_DESTROYED : VG_VIRTUAL_GPU_NOT_FOUND;
}
