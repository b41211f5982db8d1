// Where a dump or a restore has come to. One thread, but for what is added to `bytes`.
#pragma once
#include "virgate/checkpoint.h"

#include <stdatomic.h>
#include <stdbool.h>

struct phase {
	vg_checkpoint_progress_fn *progress;
	void *user;
	struct vg_checkpoint_result *result;
	enum vg_checkpoint_phase now;
	uint64_t since;		// ns; 0: none has begun
	uint64_t told;		// ns, of the last call
	_Atomic uint64_t bytes; // done in this phase: any thread may add to it
	uint64_t total;		// set by who knows it; 0: unknown
	bool stop;		// somebody wants to
};

// Ends the phase before. STATE: somebody wants to stop.
enum vg_status phase_begin(struct phase *phase, enum vg_checkpoint_phase next);
// The same past the point where anybody is asked.
void phase_go_on(struct phase *phase, enum vg_checkpoint_phase next);
// To be called often where a phase takes long: tells of it, ten times a second at most. A wish to stop is kept until
// phase_begin(), or until somebody looks at `stop`. `phase` is a struct phase.
void phase_tick(void *phase);
void phase_end(struct phase *phase);
