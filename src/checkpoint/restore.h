// Runs a restore that calls a function of the caller before it creates the processes. One thread.
#pragma once
#include "checkpoint/image/image.h"
#include "checkpoint/move/prefill.h"
#include "checkpoint/process/phase.h"

struct restore_gate {
	// Called when all checks have passed, before any process is created. If this function fails, the restore
	// creates no process. May be NULL.
	enum vg_status (*pass)(void *user, struct phase *phase);
	void *user;
	// An image whose files were verified before. NULL: the restore opens and verifies the image.
	const struct image_dir *image;
	// Files of host memory that earlier rounds of a migration have filled with the processes' device memory. The
	// restore uses them, and becomes their owner. May be NULL.
	struct prefill *prefill;
	bool is_late; // pids and slots of the processes become free only after `pass` has returned
};
// Runs vg_checkpoint_restore() and calls `gate`, which may be NULL.
enum vg_status restore_run(const struct vg_restore_options *options, const struct restore_gate *gate,
			   struct vg_checkpoint_result *ret_result);
