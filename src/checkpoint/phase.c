#include "checkpoint/phase.h"

#include "base/clock.h"
#include "base/status.h"

const char *vg_checkpoint_phase_name(enum vg_checkpoint_phase phase)
{
	static const char *const names[] = {"find",   "lock",	 "device-out", "host-out", "commit",
					    "end",    "verify",	 "host-in",    "device-in", "unlock"};

	return (unsigned)phase < VG_CHECKPOINT_PHASES ? names[phase] : "unknown";
}

void phase_end(struct phase *phase)
{
	if (phase->since)
		phase->result->seconds[phase->now] += (double)(vg_clock_monotonic_ns() - phase->since) / 1e9;
	phase->since = 0;
}

void phase_go_on(struct phase *phase, enum vg_checkpoint_phase next)
{
	phase_end(phase);
	phase->now = next;
	phase->since = vg_clock_monotonic_ns();
}

enum vg_status phase_begin(struct phase *phase, enum vg_checkpoint_phase next, const char *function)
{
	phase_go_on(phase, next);
	if (phase->progress && phase->progress(phase->user, next))
		return vg_fail(VG_STATE, 0, function, "stopped before the step %s, as asked",
			       vg_checkpoint_phase_name(next));
	return VG_OK;
}
