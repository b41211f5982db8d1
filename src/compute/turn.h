// The gate of units whose vGPU takes turns with other processes. For the scheduler's thread, under its lock, unless
// said otherwise. A unit without a gate may always launch.
#pragma once
#include "compute/quantum.h"

// Returns whether the unit may launch now. If not, it waits at its gate until it may, or has no work.
bool compute_turn_admits(struct vg_compute_unit *unit);
// Returns how many nanoseconds of work may be launched at once.
uint64_t compute_turn_room(const struct vg_compute_unit *unit);
// Call before launches, with their total estimate.
void compute_turn_count(struct vg_compute_unit *unit, uint64_t estimate_ns);
// Call in every round of the thread: reports ended work (`progress`: some has ended), and leaves gates without work.
void compute_turns_look(struct vg_compute *compute, bool progress);
// Sleeps until the bell rings, a gate of a waiting unit changes, or `nap` has passed (0: as long as the gates allow).
// Returns false at once if no unit waits. Call without the lock.
bool compute_turns_sleep(struct vg_compute *compute, unsigned bell, uint64_t now, uint64_t nap);
void compute_turn_leave(struct vg_compute_unit *unit);
