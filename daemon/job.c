#include "daemon/job.h"

#include "daemon/registry.h"

#include <stdio.h>
#include <string.h>

bool job_is_same(const struct vgpu *vgpu, const struct vgpu *other)
{
	return *vgpu->job && vgpu->owner == other->owner && strcmp(vgpu->job, other->job) == 0;
}

// Returns a mask of the devices of the vGPU's job.
static uint64_t list_devices(const struct node *node, const struct vgpu *vgpu)
{
	uint64_t devices = 0;

	for (const struct vgpu *other = node->vgpus; other; other = other->next)
		if (job_is_same(vgpu, other))
			devices |= UINT64_C(1) << other->device;
	return devices;
}

uint64_t job_tied_devices(const struct node *node, const struct vgpu *vgpu, size_t device)
{
	uint64_t tied = UINT64_C(1) << device | list_devices(node, vgpu), before;

	do {
		before = tied;
		for (const struct vgpu *other = node->vgpus; other; other = other->next)
			if (tied >> other->device & 1)
				tied |= list_devices(node, other);
	} while (tied != before);
	return tied;
}

// Returns whether the list has another vGPU of the same job before this one.
static bool is_counted(const struct node *node, const struct vgpu *vgpu)
{
	const struct vgpu *other = node->vgpus;

	while (other != vgpu && !job_is_same(vgpu, other))
		other = other->next;
	return other != vgpu;
}

unsigned int job_sum_shares(const struct node *node, const struct vgpu *vgpu, size_t device)
{
	uint64_t tied = job_tied_devices(node, vgpu, device);
	unsigned int sum = 0;

	for (const struct vgpu *other = node->vgpus; other; other = other->next)
		if (tied >> other->device & 1 && other != vgpu && !job_is_same(vgpu, other) && !is_counted(node, other))
			sum += other->terms.share;
	return sum;
}

json_t *job_read(const struct request *request, struct vgpu *wanted)
{
	const json_t *value = json_object_get(request->object, "job");
	const char *name = json_string_value(value);

	if (!value || json_is_null(value))
		return NULL;
	if (!name || strlen(name) >= sizeof wanted->job || !registry_name_is_valid(name))
		return refuse("invalid", "\"job\" must be a name as that of a vGPU");
	if (!wanted->ephemeral)
		return refuse("invalid", "a job with several GPUs is made for one run: use `virgate run --gpus`");
	if (wanted->evictable)
		return refuse("invalid",
			      "job %s: a job with several GPUs cannot be evictable, because its memory "
			      "would have to leave all GPUs at once: leave out --evictable",
			      name);
	if (wanted->terms.is_latency)
		return refuse("invalid",
			      "job %s: a job with several GPUs cannot be of the latency class: leave out "
			      "--class",
			      name);
	snprintf(wanted->job, sizeof wanted->job, "%s", name);
	return NULL;
}

json_t *job_exclude(const struct request *request, const struct vgpu *wanted, bool allowed[VG_SYSTEM_DEVICES])
{
	unsigned int had = 0, left = 0;

	if (!*wanted->job)
		return NULL;
	for (const struct vgpu *vgpu = request->node->vgpus; vgpu; vgpu = vgpu->next) {
		had += job_is_same(wanted, vgpu);
		if (job_is_same(wanted, vgpu))
			allowed[vgpu->device] = false;
	}
	for (size_t i = 0; i < VG_SYSTEM_DEVICES; i++)
		left += allowed[i];
	if (left)
		return NULL;
	return refuse("limit",
		      "job %s: it has a vGPU on %u GPU%s, and may use no other: ask for fewer GPUs, or allow "
		      "more with --device or CUDA_VISIBLE_DEVICES",
		      wanted->job, had, had == 1 ? "" : "s");
}
