// Makes compute units wait for the turns of a vGPU that other processes use too. A unit without a gate may always
// launch. Call on the scheduler's thread with its lock held, unless said otherwise.
#pragma once
#include "compute/quantum.h"

// Returns whether the compute unit may launch now. If not, the unit waits at its gate until it may launch or has no
// more work.
bool compute_turn_admits(struct vg_compute_unit *unit);
// Returns how many nanoseconds of work, as estimated, may be launched before compute_turn_admits() is called again.
// UINT64_MAX: no limit.
uint64_t compute_turn_room(const struct vg_compute_unit *unit);
// Reports launches with the sum of their estimates. Call before the launches.
void compute_turn_count(struct vg_compute_unit *unit, uint64_t estimate_ns);
// Tells the arbiter how much work each compute unit still has in flight, if `progress` (some work has ended) or if none
// is left. Ends the wait at the gate of units without queued work. Call in every round of the thread.
void compute_turns_look(struct vg_compute *compute, bool progress);
// Sleeps until the scheduler's `bell` differs from the argument, the gate of a waiting compute unit changes, or `nap`
// nanoseconds have passed since `now`. If `nap` is 0, sleeps as long as the gates allow. Returns true after the sleep,
// or false at once if no unit waits at a gate. Call without the lock.
bool compute_turns_sleep(struct vg_compute *compute, unsigned bell, uint64_t now, uint64_t nap);
void compute_turn_leave(struct vg_compute_unit *unit);
