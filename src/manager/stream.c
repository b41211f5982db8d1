// Implements virtual streams. A stream is active from its first use until it is released, and while a thread submits
// work to it. The state of a stream has one bit for its use, and counts the submitting threads. A manager limits the
// number of active streams of all its virtual GPUs. The state changes from and to 0 only under the manager's lock.
#include "manager/manager.h"

#include <stdio.h>

enum { USED = 1, SUBMITTER = 2 };

static enum vg_status fail_no_stream_left(const struct vg_virtual_gpu *vgpu, unsigned stream)
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
		VG_LIMIT, 0,
		"stream %u of virtual GPU %d (%s): all %u virtual streams of the manager are active (%s): release "
		"or close some, or create the manager with more virtual_streams",
		stream, vgpu->id, vgpu->name, manager->options.virtual_streams, users);
}

unsigned manager_active_streams(const struct vg_virtual_gpu *vgpu)
{
	unsigned active = 0;

	for (unsigned i = 0; i < vgpu->streams; i++)
		active += atomic_load(&vgpu->active_streams[i]) != 0;
	return active;
}

enum vg_status manager_no_stream(const struct vg_virtual_gpu *vgpu, unsigned stream)
{
	return vg_fail(
		VG_INVALID, 0,
		"virtual GPU %d (%s) has %u virtual streams, 0 to %u: there is no stream %u; create it with more "
		"streams",
		vgpu->id, vgpu->name, vgpu->streams, vgpu->streams - 1, stream);
}

enum vg_status manager_stream_begin(struct vg_virtual_gpu *vgpu, unsigned stream)
{
	struct vg_manager *manager = vgpu->manager;
	enum vg_status status = VG_OK;

	if (stream >= vgpu->streams)
		return manager_no_stream(vgpu, stream);
	atomic_uint *place = &vgpu->active_streams[stream];
	for (unsigned now = atomic_load(place); now;)
		if (atomic_compare_exchange_weak(place, &now, now + SUBMITTER))
			return VG_OK;
	vg_mutex_lock(&manager->lock);
	bool active = atomic_load(place);
	if (!active && manager->streams >= manager->options.virtual_streams) {
		status = fail_no_stream_left(vgpu, stream);
	} else {
		manager->streams += !active;
		atomic_fetch_add(place, SUBMITTER);
	}
	vg_mutex_unlock(&manager->lock);
	return status;
}

void manager_stream_end(struct vg_virtual_gpu *vgpu, unsigned stream, bool used)
{
	atomic_uint *place = &vgpu->active_streams[stream];

	if (used) {
		atomic_fetch_or(place, USED);
		atomic_fetch_sub(place, SUBMITTER);
		return;
	}
	vg_mutex_lock(&vgpu->manager->lock);
	vgpu->manager->streams -= atomic_fetch_sub(place, SUBMITTER) == SUBMITTER;
	vg_mutex_unlock(&vgpu->manager->lock);
}

bool manager_stream_claim(struct vg_virtual_gpu *vgpu, unsigned stream, bool *ret_active)
{
	unsigned now = USED;
	const bool claimed = atomic_compare_exchange_strong(&vgpu->active_streams[stream], &now, SUBMITTER);

	*ret_active = now != 0;
	return claimed;
}

void manager_streams_give_back(struct vg_virtual_gpu *vgpu)
{
	vg_mutex_lock(&vgpu->manager->lock);
	for (unsigned i = 0; vgpu->active_streams && i < vgpu->streams; i++)
		vgpu->manager->streams -= atomic_exchange(&vgpu->active_streams[i], 0) != 0;
	vg_mutex_unlock(&vgpu->manager->lock);
}
