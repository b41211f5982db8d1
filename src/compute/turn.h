// The gate of units whose vGPU takes turns with other processes. The scheduler's thread, under its lock, unless said
// otherwise. A unit without a gate may always launch.
#pragma once
#include "compute/quantum.h"

// Returns whether the unit may launch now. If not, it waits at its gate until it may, or has no work.
bool compute_turn_admits(struct vg_compute_unit *unit);
// Returns how much may be handed over at once.
uint64_t compute_turn_room(const struct vg_compute_unit *unit);
// Before launches that are estimated at so much together.
void compute_turn_count(struct vg_compute_unit *unit, uint64_t estimate_ns);
// In every round of the thread: reports what has ended (`progress`: something has), and ends waits without work.
void compute_turns_look(struct vg_compute *compute, bool progress);
// Sleeps until the bell, a gate of a unit that waits, or for `nap` (0: as long as the gates allow). Returns false at
// once if no unit waits. Without the lock.
bool compute_turns_sleep(struct vg_compute *compute, unsigned bell, uint64_t now, uint64_t nap);
void compute_turn_leave(struct vg_compute_unit *unit);
