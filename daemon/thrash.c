#include "daemon/thrash.h"

static const uint64_t window_ns = (uint64_t)THRASH_WINDOW_S * 1000000000;

unsigned int thrash_note(struct thrash *thrash, bool is_moving, uint64_t now)
{
	if (!thrash->since_ns)
		*thrash = (struct thrash){.since_ns = now, .seen_ns = now};
	if (thrash->is_moving)
		thrash->moving_ns += now - thrash->seen_ns;
	thrash->is_moving = is_moving;
	thrash->seen_ns = now;
	if (now - thrash->since_ns < window_ns)
		return 0;
	unsigned int percent = (unsigned int)(thrash->moving_ns * 100 / (now - thrash->since_ns));
	*thrash = (struct thrash){.since_ns = now, .seen_ns = now, .is_moving = is_moving};
	return percent > THRASH_MOST_PERCENT ? percent : 0;
}
