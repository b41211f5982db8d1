#include "daemon/job.h"

#include <string.h>

bool job_is_same(const struct vgpu *vgpu, const struct vgpu *other)
{
	return *vgpu->job && vgpu->owner == other->owner && strcmp(vgpu->job, other->job) == 0;
}

// Returns a bit mask of the devices on which the vGPU's job has vGPUs in the list. The vGPU itself may be new.
static uint64_t list_devices(const struct node *node, const struct vgpu *vgpu)
{
	uint64_t devices = 0;

	for (const struct vgpu *other = node->vgpus; other; other = other->next)
		if (job_is_same(vgpu, other))
			devices |= UINT64_C(1) << other->device;
	return devices;
}

uint64_t job_devices(const struct node *node, const struct vgpu *vgpu)
{
	return UINT64_C(1) << vgpu->device | list_devices(node, vgpu);
}

bool job_is_complete(const struct node *node, const struct vgpu *vgpu)
{
	return (unsigned int)__builtin_popcountll(job_devices(node, vgpu)) >= vgpu->job_gpus;
}

void job_note_complete(struct node *node, const struct vgpu *vgpu)
{
	if (!*vgpu->job || !job_is_complete(node, vgpu))
		return;
	for (struct vgpu *other = node->vgpus; other; other = other->next)
		if (job_is_same(vgpu, other))
			other->job_gpus = 0;
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

// Returns whether a vGPU of the same job comes before this one in the list, so that the job's share was counted
// already.
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
