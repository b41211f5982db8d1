#include "leftover.h"

#include <slurm/spank.h>
#include <virgate/vgpu.h>

#include "job.h"
#include "node.h"

// Ends the vGPU of the job if the job is over. Returns whether the vGPU was ended.
static bool end_if_over(const struct settings *settings, const char *node_name, uint32_t job)
{
	char text[NODE_TEXT];

	if (job_ask_life(job, node_name) != JOB_IS_OVER)
		return false;
	enum node_result result = node_end(settings, job, text);
	if (result && result != NODE_MISSING)
		slurm_error("virgate: the vGPU slurm-%u of a job that is over cannot be ended: %s", job, text);
	else
		slurm_info("virgate: the vGPU slurm-%u was ended: its job is not on this node any more", job);
	return result == NODE_OK;
}

unsigned leftover_end_all(const struct settings *settings, const char *node_name, uint32_t except)
{
	struct vg_vgpu_list *list;
	char text[NODE_TEXT];
	unsigned ended = 0;
	uint32_t job;

	if (node_list(settings, &list, text)) {
		slurm_info("virgate: no search for vGPUs of jobs that are over: %s", text);
		return 0;
	}
	for (size_t i = 0; i < list->count; i++)
		if (job_of_vgpu(list->vgpus[i].name, &job) && job != except)
			ended += end_if_over(settings, node_name, job);
	vg_vgpu_list_free(list);
	return ended;
}
