// Runs a dump that calls a function of the caller before it ends the processes. One thread.
#pragma once
#include "checkpoint/device/base.h"
#include "checkpoint/device/out.h"
#include "checkpoint/image/image.h"
#include "checkpoint/process/phase.h"
#include "checkpoint/process/tree.h"
#include "checkpoint/tenant/tenant.h"

struct dump_gate {
	// Called when the image is complete in `dir` and the processes are still stopped. If it fails, the processes
	// continue, and the image is removed.
	enum vg_status (*pass)(void *user, struct phase *phase, const struct image_dir *dir);
	void *user;
	// Called when the packs of the image are written, while the dump continues; may be NULL
	const struct device_packed *packed;
	// One more base (device/base.h), besides those in the options. The dump takes ownership of its resources. If
	// it is NULL or has no directory, there is no additional base.
	struct device_base *base;
};
// Runs vg_checkpoint_dump() and calls `gate`, which may be NULL.
enum vg_status dump_run(const struct vg_dump_options *options, const struct dump_gate *gate,
			struct vg_checkpoint_result *ret_result);

// ---- also used by precopy ------------------------------------------------------------------------------

// Finds the processes that the options name, with their descendants.
enum vg_status dump_find_tree(const struct vg_dump_options *options, struct tree *ret_tree);
// Returns the longest time to wait for work on the GPU to end, in milliseconds.
unsigned dump_timeout(const struct vg_dump_options *options);
// Opens gates like tenants_open_gates(), but limits the time to the longest that daemons allow.
void dump_open_gates(const struct tenants *tenants, unsigned milliseconds);
