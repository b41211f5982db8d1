// set: changes the limit and the compute share of a vGPU.
#include "daemon/request_parts.h"
#include "daemon/terms.h"

#include <stdio.h>
#include <string.h>

static int remember(struct node *node, const struct vgpu *vgpu)
{
	int r = vgpu->ephemeral ? 0 : state_save(node);

	state_save_runtime(node);
	return r;
}

static json_t *not_remembered(const struct request *request, const struct vgpu *vgpu, int r)
{
	return refuse("system", "vGPU %s is not changed, because that cannot be remembered: %s: %s", vgpu->name,
		      request->node->state_path, strerror(-r));
}

static json_t *limit_stays(const struct request *request, const struct vgpu *vgpu, int r, uint64_t memory,
			   uint64_t charged)
{
	char text[3][FIGURE];

	admission_publish(request->node);
	if (r != VG_LEDGER_REFUSED)
		return refuse("busy", "vGPU %s: its ledger changes too fast, try again", vgpu->name);
	return refuse("limit",
		      "vGPU %s: asked for a limit of %s, but %s is in use (%s of it overhead): end or shrink a program "
		      "first",
		      vgpu->name, figure(memory, charged, text[0]), figure(charged, memory, text[1]),
		      vg_size_format(vg_ledger_overhead(vgpu->ledger), text[2]));
}

// A limit is remembered before it is raised, and after it was lowered: the next daemon believes what is remembered, and
// no ledger may allow more.
static json_t *set_memory(const struct request *request, struct vgpu *vgpu, uint64_t memory)
{
	uint64_t charged = 0, before = vgpu->memory;
	bool raised = memory > before;
	json_t *refusal;
	int r = 0;

	if (raised && (refusal = admit(request, vgpu->device, memory, &(struct turn_terms){0}, vgpu)))
		return refusal;
	if (raised) {
		vgpu->memory = memory;
		r = remember(request->node, vgpu);
	}
	if (r < 0) {
		vgpu->memory = before;
		admission_publish(request->node);
		return not_remembered(request, vgpu, r);
	}
	r = vg_ledger_set_limit(vgpu->ledger, memory, &charged);
	vgpu->memory = r ? before : memory;
	if (r && raised)
		remember(request->node, vgpu);
	return r ? limit_stays(request, vgpu, r, memory, charged) : NULL;
}

json_t *answer_set(const struct request *request)
{
	json_t *refusal = NULL;
	struct vgpu *vgpu = request_vgpu(request, "name", &refusal);
	bool has_memory = json_object_get(request->object, "memory") != NULL;
	uint64_t memory = 0;
	struct turn_terms terms = vgpu ? vgpu->terms : (struct turn_terms){0};

	if (!vgpu)
		return refusal;
	tenant_scan(request->node, vgpu);
	if (damage_is_undecided(request->node, vgpu))
		return answer_later(request);
	if ((refusal = refuse_use(vgpu)))
		return refusal;
	if (has_memory &&
	    ((refusal = take_memory(request, &memory)) || (refusal = too_small(request, vgpu->device, vgpu->owner, memory))))
		return refusal;
	if ((refusal = terms_take_share(request, &terms.share)) ||
	    (refusal = terms_admit(request, vgpu->device, &terms, vgpu)))
		return refusal;
	terms.is_limit &= terms.share > 0;
	bool joins = terms.share && !vgpu->terms.share && !vgpu->terms.is_latency;
	if (joins && (refusal = admit(request, vgpu->device, vgpu->memory, &terms, vgpu)))
		return refusal;
	if (has_memory && (refusal = set_memory(request, vgpu, memory)))
		return refusal;
	vgpu->terms = terms;
	vg_ledger_set_share(vgpu->ledger, terms.share);
	admission_publish(request->node);
	int r = remember(request->node, vgpu);
	if (r < 0)
		return refuse("system", "vGPU %s is changed, but that cannot be remembered: %s: %s", vgpu->name,
			      request->node->state_path, strerror(-r));
	return agree_with("vgpu", listing_vgpu(request->node, vgpu, true));
}
