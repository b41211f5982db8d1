// Reads and checks compute shares in requests.
#include "daemon/arbiter.h"
#include "daemon/job.h"
#include "daemon/request_parts.h"

#include <string.h>

// The most time for which a vGPU's launches wait for no turn because a checkpoint is being taken. The program that
// takes the checkpoint may be killed, so the time is limited.
static const json_int_t exempt_most_ms = 60000;

json_t *admit_share(const struct request *request, size_t device, const struct turn_terms *terms,
		    const struct vgpu *vgpu)
{
	unsigned int others = job_sum_shares(request->node, vgpu, device);
	uint64_t tied = job_tied_devices(request->node, vgpu, device);

	// A job is checked even if it has no share: it makes its GPUs take their turns together, and then the shares on
	// all of them may add up to more than 100 %.
	if ((!terms->share && !*vgpu->job) || terms->share + others <= 100)
		return NULL;
	if (tied & (tied - 1))
		return refuse(
			"limit",
			"GPU %zu: asked for a share of %u %%, but others have %u %%: jobs tie this GPU to %d more, "
			"which have their turns together, so the shares of all count; ask for less, or wait for "
			"a job to end",
			device, terms->share, others, __builtin_popcountll(tied) - 1);
	if (others >= 100)
		return refuse("limit",
			      "GPU %zu: asked for a share of %u %%, but nothing is left: other vGPUs have all of it; "
			      "lower a share with `virgate set NAME --share PERCENT%s`",
			      device, terms->share, sim_flag());
	return refuse(
		"limit",
		"GPU %zu: asked for a share of %u %%, but %u %% is left: other vGPUs have %u %%; ask for less, or "
		"lower a share with `virgate set NAME --share PERCENT%s`",
		device, terms->share, 100 - others, others, sim_flag());
}

json_t *read_share(const struct request *request, unsigned int *ret_share)
{
	const json_t *value = json_object_get(request->object, "share");

	if (!value || json_is_null(value))
		return NULL;
	if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > 100)
		return refuse("invalid", "\"share\" must be a percentage from 1 to 100, or 0 for none");
	*ret_share = (unsigned int)json_integer_value(value);
	return NULL;
}

json_t *read_terms(const struct request *request, struct turn_terms *ret_terms)
{
	const json_t *class = json_object_get(request->object, "class");
	const char *text = json_string_value(class);
	struct turn_terms terms = {0};
	json_t *refusal = read_share(request, &terms.share);

	if (refusal)
		return refusal;
	terms.is_limit = json_is_true(json_object_get(request->object, "share_limit"));
	if (terms.is_limit && !terms.share)
		return refuse("invalid", "a limit needs a share: give --share PERCENT with --limit");
	if (class && !json_is_null(class)) {
		if (!text || (strcmp(text, "batch") != 0 && strcmp(text, "latency") != 0))
			return refuse("invalid", "\"class\" must be \"batch\" or \"latency\"");
		terms.is_latency = strcmp(text, "latency") == 0;
	}
	*ret_terms = terms;
	return NULL;
}

json_t *answer_exempt(const struct request *request)
{
	const json_t *value = json_object_get(request->object, "milliseconds");
	json_int_t milliseconds = json_integer_value(value);
	json_t *refusal = NULL;
	struct vgpu *vgpu = request_vgpu(request, "name", &refusal);

	if (!vgpu)
		return refusal;
	if (!json_is_integer(value) || milliseconds < 0 || milliseconds > exempt_most_ms)
		return refuse("invalid", "\"milliseconds\" must be a number from 0 to %d", (int)exempt_most_ms);
	vgpu->exempt_until_ns = arbiter_now() + (uint64_t)milliseconds * 1000000;
	arbiter_follow(request->node); // the exemption must be in effect before the answer is sent
	return agree();
}
