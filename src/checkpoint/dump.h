// A dump whose end hangs on somebody else's word. One thread.
#pragma once
#include "checkpoint/image.h"
#include "checkpoint/phase.h"

struct dump_gate {
	// The image stands in `dir`, and the processes still stand still. Not OK: they run on, and the image goes.
	enum vg_status (*pass)(void *user, struct phase *phase, const struct image_dir *dir);
	void *user;
};
// As vg_checkpoint_dump(). `gate` may be NULL.
enum vg_status dump_run(const struct vg_dump_options *options, const struct dump_gate *gate, const char *function,
			struct vg_checkpoint_result *ret_result);
