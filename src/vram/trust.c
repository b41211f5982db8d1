#include "vram/trust.h"

#include "core/device.h"
#include "vram/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- opening and closing ---------------------------------------------------------------------------------

static bool is_name(const char *name)
{
	size_t length = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

	return length >= 1 && length <= 63 && name[length] == '\0' && !strchr("._-", *name);
}

enum vg_status vram_trust_open(struct vg_vram *vram, const struct vg_vram_options *options)
{
	const char *vgpu = options->vgpu ? options->vgpu : secure_getenv("VIRGATE_VGPU");

	snprintf(vram->device_name, sizeof vram->device_name, "GPU-%s", vram->context->device->uuid_text);
	if (!vgpu || (!options->vgpu && !*vgpu))
		vgpu = "host";
	if (!is_name(vgpu))
		return vg_fail(VG_INVALID, 0, "vgpu is \"%.80s\": a name is [A-Za-z0-9][A-Za-z0-9._-]{0,62}", vgpu);
	if (!options->key_file && !options->key_ring) {
		if (!options->audit_file)
			return VG_OK;
		return vg_fail(
			VG_INVALID, 0,
			"audit_file is given, and neither key_file nor key_ring: a log without a key proves nothing");
	}
	enum vg_status status = vram_keys_open(options->key_file, options->key_ring, vgpu, &vram->keys);
	if (status)
		return status;
	status = vram_hasher_create(vram->context, &vram->hasher);
	if (status)
		return status;
	status = vg_stream_default(vram->context, VG_DEFAULT_STREAM_PER_THREAD, &vram->thread_stream);
	if (status || !options->audit_file)
		return status;
	return vram_audit_open(options->audit_file, vram->keys, vgpu, &vram->audit);
}

void vram_trust_close(struct vg_vram *vram)
{
	vram_audit_close(vram->audit);
	vg_stream_destroy(vram->thread_stream);
	vram_hasher_destroy(vram->hasher);
	vram_keys_close(vram->keys);
}

enum vg_status vram_check_secret(const struct vg_vram *vram)
{
	if (vram->keys)
		return VG_OK;
	return vg_fail(VG_STATE, 0, "the context was opened without a secret: give it a key_file or a key_ring");
}

// ---- records ---------------------------------------------------------------------------------------------

static struct vram_event make_event(const struct vram_region *region, enum vram_event_kind kind,
				    const struct vg_seal *seal)
{
	// An allocation is recorded before its handle is valid, so that it can be rolled back if recording fails. So
	// the record must contain the next generation.
	uint64_t generation = (atomic_load(&region->state) >> 32) + (kind == VRAM_EVENT_ALLOCATED);
	struct vram_event event = {
		.kind = kind,
		.handle = generation << 32 | region->index,
		.bytes = region->size,
		.device = region->vram->device_name,
	};

	if (seal) {
		event.generation = seal->generation;
		event.id = vram_seal_is_id(seal->id, sizeof seal->id) ? seal->id : NULL;
	}
	return event;
}

enum vg_status vram_record(struct vram_region *region, enum vram_event_kind kind, const struct vg_seal *seal)
{
	if (!region->vram->audit)
		return VG_OK;
	struct vram_event event = make_event(region, kind, seal);
	event.text = region->import.unmap ? "imported memory" : NULL;
	return vram_audit_append(region->vram->audit, &event);
}

void vram_record_failure(struct vram_region *region, enum vram_event_kind kind, const struct vg_seal *seal)
{
	if (!region->vram->audit)
		return;
	const struct vram_event event = make_event(region, kind, seal);
	vram_audit_append_failure(region->vram->audit, &event);
}
