#include "checkpoint/process/phase.h"

#include "base/clock.h"
#include "base/status.h"

#include <errno.h>

enum { TICK_NS = 100000000, WAIT_NS = TICK_NS / 2 };

const char *vg_checkpoint_phase_name(enum vg_checkpoint_phase phase)
{
	static const char *const names[] = {"find",   "evict", "lock",	  "device-out", "host-out",
					    "commit", "end",   "verify",  "host-in",	"device-in",
					    "unlock", "send",  "receive", "hand-over",	"precopy"};

	return (unsigned)phase < VG_CHECKPOINT_PHASES ? names[phase] : "unknown";
}

void phase_end(struct phase *phase)
{
	if (phase->since)
		phase->result->seconds[phase->now] += (double)(vg_clock_monotonic_ns() - phase->since) / 1e9;
	phase->since = 0;
}

static void report_progress(struct phase *phase, uint64_t now)
{
	const struct vg_checkpoint_progress progress = {.phase = phase->now,
							.seconds = (double)(now - phase->since) / 1e9,
							.bytes = phase->bytes,
							.total = phase->total};

	phase->reported = now;
	if (phase->progress && phase->progress(phase->user, &progress))
		phase->stop = true;
}

void phase_go_on(struct phase *phase, enum vg_checkpoint_phase next)
{
	phase_end(phase);
	phase->now = next;
	phase->since = vg_clock_monotonic_ns();
	phase->bytes = 0;
	phase->total = 0;
	report_progress(phase, phase->since);
}

enum vg_status phase_begin(struct phase *phase, enum vg_checkpoint_phase next)
{
	phase_go_on(phase, next);
	if (phase->stop)
		return vg_fail(VG_STATE, 0, "stopped before the step %s, as asked", vg_checkpoint_phase_name(next));
	return VG_OK;
}

void phase_tick(void *user)
{
	struct phase *phase = user;
	uint64_t now = vg_clock_monotonic_ns();

	if (phase->since && now - phase->reported >= TICK_NS)
		report_progress(phase, now);
}

struct timespec phase_next_tick(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += WAIT_NS;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	return until;
}

bool phase_join(pthread_t thread)
{
	struct timespec until = phase_next_tick();

	return pthread_timedjoin_np(thread, NULL, &until) != ETIMEDOUT;
}
