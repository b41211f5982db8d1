// A restore that asks before it makes the processes. One thread.
#pragma once
#include "checkpoint/image/image.h"
#include "checkpoint/move/prefill.h"
#include "checkpoint/process/phase.h"

struct restore_gate {
	// Called when everything fits and nothing was made. On failure nothing is made. May be NULL.
	enum vg_status (*pass)(void *user, struct phase *phase);
	void *user;
	// an image whose files were verified already; NULL: the restore opens and verifies one
	const struct image_dir *image;
	struct prefill *prefill; // host memory that was filled before; may be NULL. The restore takes its files.
	bool is_late;		 // pids and slots in vGPUs become free only when the gate has passed
};
// Runs vg_checkpoint_restore(). `gate` may be NULL.
enum vg_status restore_run(const struct vg_restore_options *options, const struct restore_gate *gate,
			   struct vg_checkpoint_result *ret_result);
