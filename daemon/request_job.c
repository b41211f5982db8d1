// Reads and checks the job of a new vGPU in requests.
#include "daemon/job.h"
#include "daemon/registry.h"
#include "daemon/request_parts.h"
#include "turn/gang.h"

#include <stdio.h>
#include <string.h>

// Reads "job_gpus", the number of GPUs that the job asks for. It may be missing in the mode time.
static json_t *read_job_gpus(const struct request *request, struct vgpu *wanted)
{
	const json_t *value = json_object_get(request->object, "job_gpus");
	json_int_t gpus = json_integer_value(value);

	if (!value || json_is_null(value))
		return NULL;
	if (!json_is_integer(value) || gpus < 2 || gpus > TURN_PARTS)
		return refuse("invalid", "\"job_gpus\" must be the number of GPUs of the job, from 2 to %d",
			      TURN_PARTS);
	wanted->job_gpus = (unsigned int)gpus;
	return NULL;
}

json_t *read_job(const struct request *request, struct vgpu *wanted)
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
	return read_job_gpus(request, wanted);
}

json_t *exclude_job(const struct request *request, const struct vgpu *wanted, bool allowed[VG_SYSTEM_DEVICES])
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
