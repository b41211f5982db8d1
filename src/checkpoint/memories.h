// Brings the device memory of an image back to restored processes of evictable vGPUs. A process takes its memory from a
// window (pager/window.h) after the driver has restored it. If it cannot, because its build is older or its memory must
// wait in the host, the restore puts the memory into a file. One thread.
#pragma once
#include "checkpoint/image/device_index.h"
#include "checkpoint/move/prefill.h"
#include "checkpoint/process/phase.h"
#include "checkpoint/suspend/park.h"
#include "checkpoint/tenant/tenant.h"

#include <jansson.h>

struct arriving; // the memory of one process

struct memories {
	// Set by the caller. `prefill`: files that rounds of a migration have filled; may be NULL.
	const struct image_dir *image;
	struct tenants *tenants;
	struct prefill *prefill;
	// The rest belongs to this module.
	struct device_index index;
	bool know_window; // the processes can take their memory from a window
	struct parking parking;
	struct arriving *list; // for each memory of the index
};
// Reads the index of the device memory from the image. SYSTEM, NO_MEMORY, INTEGRITY.
enum vg_status memories_read(struct memories *memories, const struct image_dir *image, const struct image_files *files,
			     const json_t *description);
// Checks that each memory belongs to a tenant, and that the host has room. *ret_bytes: size of all memory. INTEGRITY,
// HOST_MEMORY.
enum vg_status memories_check(const struct memories *memories, uint64_t *ret_bytes);
// Returns how many bytes memories_finish() moves; 0: it has nothing to do. Call it after memories_begin().
uint64_t memories_late_bytes(const struct memories *memories);
// Makes a window or a filled file for each stopped process that CRIU has restored. INTEGRITY, INSUFFICIENT, STATE,
// SYSTEM, NO_MEMORY.
enum vg_status memories_begin(struct memories *memories, struct phase *phase);
// Serves the windows until all memory is on the GPU, or lies in files. Errors: see device_window_serve() and
// device_in_fill().
enum vg_status memories_finish(struct memories *memories, struct phase *phase);
// Removes windows and files, after the processes were killed.
void memories_abort(struct memories *memories);
void memories_free(struct memories *memories);
