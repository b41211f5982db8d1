// Makes compute units wait for the turns of a vGPU that other processes use too. A unit without a gate may always
// launch. Call on the scheduler's thread with its lock held, unless said otherwise.
#pragma once
#include "compute/quantum.h"

// Returns whether the compute unit may launch now. If not, the unit waits at its gate until it may launch or has no
// more work.
bool compute_turn_admits(struct vg_compute_unit *unit);
// Returns how many nanoseconds of work may be launched at once.
uint64_t compute_turn_room(const struct vg_compute_unit *unit);
// Reports launches with the sum of their estimates. Call before the launches.
void compute_turn_count(struct vg_compute_unit *unit, uint64_t estimate_ns);
// Reports that work has ended, if `progress` says so, and removes compute units without work from their gates. Call in
// every round of the thread.
void compute_turns_look(struct vg_compute *compute, bool progress);
// Sleeps until the scheduler is woken, the gate of a waiting compute unit changes, or `nap` has passed. If `nap` is 0,
// sleeps as long as the gates allow. Returns false at once if no unit waits. Call without the lock.
bool compute_turns_sleep(struct vg_compute *compute, unsigned bell, uint64_t now, uint64_t nap);
void compute_turn_leave(struct vg_compute_unit *unit);
