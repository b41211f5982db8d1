// Where a dump or a restore has come to. One thread.
#pragma once
#include "virgate/checkpoint.h"

#include <stdbool.h>

struct phase {
	vg_checkpoint_progress_fn *progress;
	void *user;
	struct vg_checkpoint_result *result;
	enum vg_checkpoint_phase now;
	uint64_t since; // ns; 0: none has begun
};

// Ends the phase before. STATE: somebody wants to stop.
enum vg_status phase_begin(struct phase *phase, enum vg_checkpoint_phase next, const char *function);
// The same past the point where anybody is asked.
void phase_go_on(struct phase *phase, enum vg_checkpoint_phase next);
void phase_end(struct phase *phase);

// Where tests stop, or fail a step: this room's sources are built with -DCHECKPOINT_STEPS for them.
#ifdef CHECKPOINT_STEPS
enum vg_status checkpoint_step(const char *where, const char *function);
#else
#define checkpoint_step(where, function) VG_OK
#endif
