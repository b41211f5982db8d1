// Handles the verb set, which changes the limit and the compute share of a vGPU.
#include "daemon/admission.h"
#include "daemon/allowance.h"
#include "daemon/journal.h"
#include "daemon/listing.h"
#include "daemon/measure.h"
#include "daemon/request_parts.h"
#include "daemon/save.h"
#include "daemon/state.h"

#include <string.h>

static json_t *refuse_unsaved(const struct node *node, const struct vgpu *vgpu, bool is_changed, int error)
{
	return refuse("system", "vGPU %s is %s, %s that cannot be saved: %s: %s", vgpu->name,
		      is_changed ? "changed" : "not changed", is_changed ? "but" : "because", node->state_path,
		      strerror(-error));
}

static json_t *refuse_limit(struct node *node, const struct vgpu *vgpu, int r, uint64_t memory, uint64_t charged)
{
	char text[3][FIGURE];

	admission_publish(node);
	if (r != VG_LEDGER_REFUSED)
		return refuse("busy", "vGPU %s: its ledger changes too fast, try again", vgpu->name);
	return refuse("limit",
		      "vGPU %s: asked for a limit of %s, but %s is in use (%s of it overhead): end or shrink a program "
		      "first",
		      vgpu->name, write_figure(memory, charged, text[0]), write_figure(charged, memory, text[1]),
		      vg_size_format(vg_ledger_overhead(vgpu->ledger), text[2]));
}

// Writes the limit into the ledger. Returns NULL, or a refusal if the limit could not be changed.
static json_t *write_limit(struct node *node, struct vgpu *vgpu, uint64_t memory)
{
	uint64_t charged = 0;
	int r = vg_ledger_set_limit(vgpu->ledger, memory, &charged);

	vgpu->memory = r ? vgpu->limit : memory;
	vgpu->limit = vgpu->memory;
	return r ? refuse_limit(node, vgpu, r, memory, charged) : NULL;
}

static void set_terms(struct vgpu *vgpu, const struct turn_terms *terms)
{
	vgpu->terms = *terms;
	vg_ledger_set_share(vgpu->ledger, terms->share);
}

static void undo_raise(struct node *node, const struct change *change)
{
	change->vgpu->memory = change->vgpu->limit;
	set_terms(change->vgpu, &change->terms);
	admission_publish(node);
	state_save_runtime(node);
	save_state(node); // the failed write may have changed the file
}

static json_t *finish_set(struct node *node, const struct change *change, int error)
{
	struct vgpu *vgpu = change->vgpu;
	json_t *refusal = NULL;

	if (error)
		refusal = refuse_unsaved(node, vgpu, !change->raises, error);
	else if (change->raises)
		refusal = write_limit(node, vgpu, vgpu->memory);
	if (refusal)
		journal_add(node, JOURNAL_CHANGED, &(struct journal_note){.vgpu = vgpu, .bytes = vgpu->limit},
			    "the last change failed");
	if (refusal && change->raises)
		undo_raise(node, change);
	if (refusal)
		return refusal;
	admission_publish(node);
	measure_for_listing(node, vgpu);
	return agree_with("vgpu", listing_vgpu(node, vgpu, LISTING_FULL));
}

static json_t *check_limits(const struct request *request, const struct vgpu *vgpu, uint64_t memory,
			    const struct turn_terms *terms)
{
	bool is_final;

	return allowance_check(request, &(struct allowance_wish){vgpu, memory, terms, vgpu}, &is_final);
}

// Adds an event. If the change cannot be saved, finish_set() adds another one.
static void note_change(const struct request *request, const struct vgpu *vgpu)
{
	const struct journal_note note = {.vgpu = vgpu, .actor = request->peer, .bytes = vgpu->memory};

	if (vgpu->terms.share)
		journal_add(request->node, JOURNAL_CHANGED, &note, "share %u %%", vgpu->terms.share);
	else
		journal_add(request->node, JOURNAL_CHANGED, &note, "no share");
}

// Changes the terms. A restarted daemon reads limits from the disk. A ledger must never allow more than the limit on
// disk. So a limit is raised in the ledger after the larger one is on disk, and lowered in the ledger before the
// smaller one is on disk.
json_t *answer_set(const struct request *request)
{
	json_t *refusal = NULL;
	struct node *node = request->node;
	struct vgpu *vgpu = request_vgpu(request, "name", &refusal);
	bool has_memory = json_object_get(request->object, "memory") != NULL;
	uint64_t memory = 0;
	struct turn_terms terms = vgpu ? vgpu->terms : (struct turn_terms){0};

	if (!vgpu)
		return refusal;
	if (!can_be_used(request, vgpu, &refusal))
		return refusal;
	if (has_memory && ((refusal = read_memory(request, &memory)) ||
			   (refusal = refuse_too_small(request, vgpu->device, vgpu->owner, memory))))
		return refusal;
	if (*vgpu->job && json_object_get(request->object, "share"))
		return refuse("invalid",
			      "vGPU %s is one of job %s, whose share is the same on all its GPUs and cannot be changed "
			      "while it runs",
			      vgpu->name, vgpu->job);
	if ((refusal = read_share(request, &terms.share)) ||
	    (refusal = admit_share(request, vgpu->device, &terms, vgpu)))
		return refusal;
	if (!allowance_is_ready(request))
		return answer_later(request);
	if ((memory > vgpu->memory || terms.share > vgpu->terms.share) &&
	    (refusal = check_limits(request, vgpu, has_memory ? memory : vgpu->memory, &terms)))
		return refusal;
	terms.is_limit &= terms.share > 0;
	bool joins = terms.share && !vgpu->terms.share && !vgpu->terms.is_latency;
	if (joins && (refusal = admit_again(request, vgpu, vgpu->memory, &terms)))
		return refusal;
	struct change change = {.finish = finish_set,
				.vgpu = vgpu,
				.terms = vgpu->terms,
				.raises = has_memory && memory > vgpu->memory};
	if (change.raises && (refusal = admit_again(request, vgpu, memory, &(struct turn_terms){0})))
		return refusal;
	if (has_memory && !change.raises && (refusal = write_limit(node, vgpu, memory)))
		return refusal;
	if (change.raises)
		vgpu->memory = memory;
	set_terms(vgpu, &terms);
	note_change(request, vgpu);
	admission_publish(node);
	state_save_runtime(node);
	return save_change(node, &change);
}
