// A dump whose end hangs on somebody else's word. One thread.
#pragma once
#include "checkpoint/device/base.h"
#include "checkpoint/image/image.h"
#include "checkpoint/process/phase.h"
#include "checkpoint/process/tree.h"
#include "checkpoint/tenant/tenant.h"

struct dump_gate {
	// The image stands in `dir`, and the processes still stand still. Not OK: they run on, and the image goes.
	enum vg_status (*pass)(void *user, struct phase *phase, const struct image_dir *dir);
	void *user;
	struct device_base *base; // one more base, which the dump takes; NULL, or without a directory: none
};
// As vg_checkpoint_dump(). `gate` may be NULL.
enum vg_status dump_run(const struct vg_dump_options *options, const struct dump_gate *gate,
			struct vg_checkpoint_result *ret_result);

// ---- what a dump has in common with the rounds before one ----------------------------------------------

// The processes that the options name.
enum vg_status dump_find_tree(const struct vg_dump_options *options, struct tree *ret_tree);
// How long work on the GPU may take to end, in milliseconds.
unsigned dump_timeout(const struct vg_dump_options *options);
// As tenants_open_gates(), for as long as a daemon opens a gate at most.
void dump_open_gates(const struct tenants *tenants, unsigned milliseconds);
