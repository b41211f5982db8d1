// Compute shares as requests, files and listings have them.
#include "daemon/arbiter.h"
#include "daemon/mps.h"
#include "daemon/terms.h"

#include <string.h>


// A program that takes a checkpoint may be killed: the exemption ends without it.
static const json_int_t exempt_most_ms = 60000;

static unsigned int given_to_others(const struct node *node, size_t device, const struct vgpu *instead_of)
{
	unsigned int sum = 0;

	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		if (vgpu->device == device && vgpu != instead_of)
			sum += vgpu->terms.share;
	return sum;
}

json_t *terms_admit(const struct request *request, size_t device, const struct turn_terms *terms,
		    const struct vgpu *instead_of)
{
	unsigned int others = given_to_others(request->node, device, instead_of);

	if (!terms->share || terms->share + others <= 100)
		return NULL;
	if (others >= 100)
		return refuse("limit",
			      "GPU %zu: asked for a share of %u %%, but nothing is left: other vGPUs have all of it; "
			      "lower a share with `virgate set NAME --share PERCENT%s`",
			      device, terms->share, sim_flag());
	return refuse("limit",
		      "GPU %zu: asked for a share of %u %%, but %u %% is left: other vGPUs have %u %%; ask for less, or "
		      "lower a share with `virgate set NAME --share PERCENT%s`",
		      device, terms->share, 100 - others, others, sim_flag());
}

json_t *terms_take_share(const struct request *request, unsigned int *ret_share)
{
	const json_t *value = json_object_get(request->object, "share");

	if (!value || json_is_null(value))
		return NULL;
	if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > 100)
		return refuse("invalid", "\"share\" must be a percentage from 1 to 100, or 0 for none");
	*ret_share = (unsigned int)json_integer_value(value);
	return NULL;
}

json_t *terms_take(const struct request *request, struct turn_terms *ret_terms)
{
	const json_t *class = json_object_get(request->object, "class");
	const char *text = json_string_value(class);
	struct turn_terms terms = {0};
	json_t *refusal = terms_take_share(request, &terms.share);

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

json_t *terms_exempt(const struct request *request)
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
	arbiter_follow(request->node); // in force when the answer is read
	return json_pack("{s:b}", "ok", 1);
}

void terms_write(json_t *object, const struct turn_terms *terms)
{
	json_object_set_new(object, "share", json_integer((json_int_t)terms->share));
	json_object_set_new(object, "share_limit", json_boolean(terms->is_limit));
	json_object_set_new(object, "class", json_string(terms->is_latency ? "latency" : "batch"));
	json_object_set_new(object, "mode", json_string(terms->is_mps ? "mps" : "time"));
}

bool terms_read(const json_t *object, struct turn_terms *ret_terms)
{
	json_int_t share = json_integer_value(json_object_get(object, "share"));
	const char *class = json_string_value(json_object_get(object, "class"));
	const char *mode = json_string_value(json_object_get(object, "mode"));

	if (share < 0 || share > 100)
		return false;
	*ret_terms = (struct turn_terms){.share = (unsigned int)share,
					 .is_limit = share && json_is_true(json_object_get(object, "share_limit")),
					 .is_latency = class && strcmp(class, "latency") == 0,
					 .is_mps = mode && strcmp(mode, "mps") == 0};
	return true;
}

// A reason that comes and goes within a turn means nothing for the share.
static const uint64_t lasting_ns = 1000000000;

// Reasons for which a vGPU does not get its share, or not as its class says. All others are states in which it does.
static bool is_held(const struct arbiter_report *report)
{
	if (arbiter_now() - report->since_ns < lasting_ns)
		return true;
	switch (report->reason) {
	case TURN_REASON_UNSHARED:
	case TURN_REASON_BUDGET:
	case TURN_REASON_SILENT:
	case TURN_REASON_EXEMPT:
	case TURN_REASON_STOPPED:
	case TURN_REASON_RESIDENT:
		return false;
	default:
		return true;
	}
}

static json_t *name_holder(const struct node *node, size_t device)
{
	struct arbiter_report report;

	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		if (vgpu->device == device && arbiter_read(vgpu, &report) && report.is_holder)
			return json_string(vgpu->name);
	return json_null();
}

// Returns why a vGPU that should take part in turns does not; NULL: it need not.
static const char *explain_absence(const struct vgpu *vgpu)
{
	const struct tenant *tenant = vgpu->tenants;

	while (tenant && (tenant->dead || tenant->seen.guest))
		tenant = tenant->next;
	if (tenant && mps_problem(vgpu))
		return mps_problem(vgpu);
	if (!tenant || !vgpu->terms.share)
		return NULL;
	return vgpu->damage == DAMAGE_CONTENTS ? "its ledger is damaged"
					       : "the daemon has no turns for it: see its log";
}

json_t *terms_list_turns(const struct node *node, const struct vgpu *vgpu)
{
	static const char *const regimes[] = {[TURN_REGIME_OFF] = "off",
					      [TURN_REGIME_ALONE] = "alone",
					      [TURN_REGIME_TURNS] = "turns",
					      [TURN_REGIME_BESIDE] = "beside"};
	struct arbiter_report report = {0};
	bool takes_part = arbiter_read(vgpu, &report);
	const char *absence = takes_part ? mps_problem(vgpu) : explain_absence(vgpu);

	if (!takes_part && !absence)
		return json_null();
	return json_pack("{s:s, s:b, s:s, s:s, s:o, s:f, s:I, s:I, s:I, s:I, s:f, s:f}", "mode",
			 vgpu->terms.is_mps ? "mps" : "time", "held",
			 (int)(!absence && is_held(&report)), "reason",
			 absence ? absence : turn_reason_text(report.reason), "regime", regimes[report.regime],
			 "holder", name_holder(node, vgpu->device), "recent", report.recent * 100, "gpu_ns",
			 (json_int_t)report.account.charged_ns, "waited_ns", (json_int_t)report.account.waited_ns,
			 "turns", (json_int_t)report.account.turns, "quantum_ns", (json_int_t)report.total.quantum_ns,
			 "handovers", report.handovers, "weight", report.account.weight * 100);
}
