// Reports the progress of a dump or a restore. One thread; any thread may add to `bytes`.
#pragma once
#include "virgate/checkpoint.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

struct phase {
	vg_checkpoint_progress_fn *progress;
	void *user;
	struct vg_checkpoint_result *result;
	enum vg_checkpoint_phase now;
	uint64_t since;		// start of this phase, in ns; 0: no phase has begun
	uint64_t reported;	// time of the last call of `progress`, in ns
	_Atomic uint64_t bytes; // bytes done in this phase; any thread may add to it
	uint64_t total;		// bytes to do in this phase; 0: unknown
	_Atomic bool stop;	// the progress function, or another thread, has asked to stop
};

// Ends the current phase and begins the next one. STATE: the progress function has asked to stop.
enum vg_status phase_begin(struct phase *phase, enum vg_checkpoint_phase next);
// Begins the next phase like phase_begin(), but ignores a request to stop. For phases after which the operation must be
// completed.
void phase_go_on(struct phase *phase, enum vg_checkpoint_phase next);
// Reports the progress, at most ten times a second. Call it often during a long phase. If the progress function asks to
// stop, sets `stop`, and the next phase_begin() fails. `phase` points to a struct phase.
void phase_tick(void *phase);
void phase_end(struct phase *phase);
// Returns the time (CLOCK_REALTIME) until which a caller may wait before it calls phase_tick() again.
struct timespec phase_next_tick(void);
// Joins the thread if it ends before the time that phase_next_tick() returns. Returns whether it has ended.
bool phase_join(pthread_t thread);
