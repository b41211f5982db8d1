#include "daemon/listing_parts.h"

#include "daemon/arbiter.h"
#include "daemon/mps.h"

#include <stddef.h>

// A reason why a vGPU lacks its share is shown only if it has lasted this long. A shorter lack has no effect on the
// share.
static const uint64_t lasting_ns = 1000000000;

// Returns whether the vGPU gets the part of the GPU's time that its compute share promises.
static bool gets_share(const struct arbiter_report *report)
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

// Returns why a vGPU with tenants takes no part in turns although it should; NULL: nothing is wrong.
static const char *explain_absence(const struct vgpu *vgpu)
{
	const struct tenant *tenant = vgpu->tenants;

	while (tenant && (tenant->is_dead || tenant->seen.guest))
		tenant = tenant->next;
	if (tenant && mps_problem(vgpu))
		return mps_problem(vgpu);
	if (!tenant || !vgpu->terms.share)
		return NULL;
	return vgpu->damage == DAMAGE_CONTENTS ? "its ledger is damaged"
					       : "the daemon has no turns for it: see its log";
}

json_t *listing_turns(const struct vgpu *vgpu)
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
	const struct vgpu *holder = arbiter_holder(vgpu->device);
	return json_pack("{s:s, s:b, s:s, s:s, s:s?, s:f, s:I, s:I, s:I, s:I, s:f, s:f}", "mode",
			 vgpu->terms.is_mps ? "mps" : "time", "held", (int)(!absence && gets_share(&report)), "reason",
			 absence ? absence : turn_reason_text(report.reason), "regime", regimes[report.regime],
			 "holder", holder ? holder->name : NULL, "recent", report.recent * 100, "gpu_ns",
			 (json_int_t)report.account.charged_ns, "waited_ns", (json_int_t)report.account.waited_ns,
			 "turns", (json_int_t)report.account.turns, "quantum_ns", (json_int_t)report.total.quantum_ns,
			 "handovers", report.handovers, "weight", report.account.weight * 100);
}
