// A restore whose beginning hangs on somebody else's word. One thread.
#pragma once
#include "checkpoint/image/image.h"
#include "checkpoint/move/prefill.h"
#include "checkpoint/process/phase.h"

struct restore_gate {
	// Everything fits, and nothing was made. Not OK: nothing will be. NULL: nobody is asked.
	enum vg_status (*pass)(void *user, struct phase *phase);
	void *user;
	const struct image_dir *image; // whose files were just looked at; NULL: it is opened, and they are
	struct prefill *prefill;       // host memory that was filled ahead; NULL: none. The restore takes its files
	bool places_later;	       // pids, and places in vGPUs: they are taken as long as the gate is closed
};
// As vg_checkpoint_restore(). `gate` may be NULL.
enum vg_status restore_run(const struct vg_restore_options *options, const struct restore_gate *gate,
			   struct vg_checkpoint_result *ret_result);
