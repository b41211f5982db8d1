#include "daemon/usage.h"

#include "base/size.h"
#include "daemon/arbiter.h"

void usage_note(struct vgpu *vgpu)
{
	struct vgpu_usage *usage = &vgpu->usage;
	struct arbiter_report report;

	if (vgpu->damage != DAMAGE_CONTENTS) {
		uint64_t charged = vg_size_min(vg_ledger_charged(vgpu->ledger), vgpu->memory);
		usage->most_charged = charged > usage->most_charged ? charged : usage->most_charged;
	}
	if (!arbiter_read(vgpu, &report))
		return;
	// The arbiter's counter begins again at 0 when a vGPU gets programs after it had none.
	if (report.account.charged_ns < usage->gpu_ns)
		usage->earlier_gpu_ns += usage->gpu_ns;
	usage->gpu_ns = report.account.charged_ns;
	usage->has_gpu_time = true;
}

uint64_t usage_gpu_ns(const struct vgpu *vgpu)
{
	return vgpu->usage.earlier_gpu_ns + vgpu->usage.gpu_ns;
}
