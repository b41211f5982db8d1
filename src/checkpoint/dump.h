// A dump that asks before it ends the processes. One thread.
#pragma once
#include "checkpoint/device/base.h"
#include "checkpoint/image/image.h"
#include "checkpoint/process/phase.h"
#include "checkpoint/process/tree.h"
#include "checkpoint/tenant/tenant.h"

struct dump_gate {
	// Called when the image is complete in `dir`, with the processes still stopped. On failure they run on, and the
	// image is removed.
	enum vg_status (*pass)(void *user, struct phase *phase, const struct image_dir *dir);
	void *user;
	// an additional base, which the dump takes over; NULL, or without a directory: no base
	struct device_base *base;
};
// Runs vg_checkpoint_dump(). `gate` may be NULL.
enum vg_status dump_run(const struct vg_dump_options *options, const struct dump_gate *gate,
			struct vg_checkpoint_result *ret_result);

// ---- shared with precopy -------------------------------------------------------------------------------

// Finds the processes that the options name.
enum vg_status dump_find_tree(const struct vg_dump_options *options, struct tree *ret_tree);
// Returns how long work on the GPU may take to end, in milliseconds.
unsigned dump_timeout(const struct vg_dump_options *options);
// Opens gates as tenants_open_gates(), but not longer than daemons allow.
void dump_open_gates(const struct tenants *tenants, unsigned milliseconds);
