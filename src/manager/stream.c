// Virtual streams: each becomes active when it is first used, and a manager has so many for all its virtual GPUs.
#include "manager/manager.h"

#include <stdio.h>

static enum vg_status none_left(const struct vg_virtual_gpu *vgpu, unsigned stream, const char *function)
{
	const struct vg_manager *manager = vgpu->manager;
	char users[300] = "";
	size_t length = 0;

	for (const struct vg_virtual_gpu *other = manager->vgpus; other && length < sizeof users - 24;
	     other = other->next) {
		unsigned active = manager_active_streams(other);
		if (active)
			length += (size_t)snprintf(users + length, sizeof users - length, "%s%d has %u",
						   length ? ", " : "", other->id, active);
	}
	return vg_fail(
		VG_LIMIT, 0, function,
		"stream %u of virtual GPU %d (%s): all %u virtual streams of the manager are active (%s): release "
		"or close some, or create the manager with more virtual_streams",
		stream, vgpu->id, vgpu->name, manager->options.virtual_streams, users);
}

unsigned manager_active_streams(const struct vg_virtual_gpu *vgpu)
{
	unsigned active = 0;

	for (unsigned i = 0; i < vgpu->streams; i++)
		active += atomic_load(&vgpu->active_streams[i]);
	return active;
}

enum vg_status manager_no_stream(const struct vg_virtual_gpu *vgpu, unsigned stream, const char *function)
{
	return vg_fail(
		VG_INVALID, 0, function,
		"virtual GPU %d (%s) has %u virtual streams, 0 to %u: there is no stream %u; create it with more "
		"streams",
		vgpu->id, vgpu->name, vgpu->streams, vgpu->streams - 1, stream);
}

enum vg_status manager_stream(struct vg_virtual_gpu *vgpu, unsigned stream, const char *function, bool *ret_made_active)
{
	struct vg_manager *manager = vgpu->manager;
	enum vg_status status = VG_OK;

	*ret_made_active = false;
	if (stream >= vgpu->streams)
		return manager_no_stream(vgpu, stream, function);
	if (atomic_load(&vgpu->active_streams[stream]))
		return VG_OK;
	vg_mutex_take(&manager->lock);
	bool active = atomic_load(&vgpu->active_streams[stream]);
	if (!active && manager->streams >= manager->options.virtual_streams) {
		status = none_left(vgpu, stream, function);
	} else if (!active) {
		manager->streams++;
		atomic_store(&vgpu->active_streams[stream], true);
		*ret_made_active = true;
	}
	vg_mutex_give(&manager->lock);
	return status;
}

void manager_stream_give_back(struct vg_virtual_gpu *vgpu, unsigned stream)
{
	vg_mutex_take(&vgpu->manager->lock);
	vgpu->manager->streams -= atomic_exchange(&vgpu->active_streams[stream], false);
	vg_mutex_give(&vgpu->manager->lock);
}

void manager_streams_give_back(struct vg_virtual_gpu *vgpu)
{
	for (unsigned i = 0; vgpu->active_streams && i < vgpu->streams; i++)
		manager_stream_give_back(vgpu, i);
}
