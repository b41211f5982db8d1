#include "vgpu/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/status.h"
#include "node/node.h"
#include "vgpu/visible.h"

enum { NAME = 80 };

static enum vg_status check_job(const struct vg_vgpu_options *options)
{
	if (options->wait)
		return vg_fail(VG_INVALID, 0,
			       "a job with several GPUs does not wait for room, because it would keep the GPUs that it "
			       "has meanwhile: leave out the wait");
	if (options->evictable)
		return vg_fail(
			VG_INVALID, 0,
			"a job with several GPUs cannot be evictable, because its memory would have to leave all "
			"GPUs at once: leave out `evictable`");
	if (options->scheduling_class != VG_CLASS_BATCH)
		return vg_fail(VG_INVALID, 0, "a job with several GPUs cannot be of the latency class: use batch");
	return VG_OK;
}

static int compare_devices(const void *left, const void *right)
{
	json_t *const *a = left, *const *b = right;
	json_int_t of_a = json_integer_value(json_object_get(*a, "device"));
	json_int_t of_b = json_integer_value(json_object_get(*b, "device"));

	return of_a < of_b ? -1 : of_a > of_b;
}

enum vg_status vg_job_enter(struct vg_node *node, const struct vg_vgpu_options *options, json_t **ret_replies)
{
	enum vg_status status = check_job(options);
	struct vg_vgpu_options one = *options;
	json_t *replies[VG_GPUS_MOST];
	char job[NAME], name[NAME + 12];
	unsigned count = 0;

	if (options->name)
		snprintf(job, sizeof job, "%s", options->name);
	else
		snprintf(job, sizeof job, "v-%d", (int)getpid());
	one.name = name;
	while (status == VG_OK && count < options->gpus) {
		snprintf(name, sizeof name, "%s.%u", job, count);
		status = vg_check_name(name);
		if (status == VG_OK)
			status = vg_visible_request(node, "enter", &one, job, &replies[count]);
		count += status == VG_OK;
	}
	if (status == VG_OK)
		qsort(replies, count, sizeof *replies, compare_devices);
	for (unsigned i = 0; i < count; i++) {
		if (status == VG_OK)
			ret_replies[i] = replies[i];
		else
			json_decref(replies[i]);
	}
	return status;
}
