// Fills files with the device memory of an image. One thread calls.
#pragma once
#include "checkpoint/image/device_index.h"
#include "checkpoint/process/phase.h"

// Writes memory number `memory` of the index to `fd`, with several threads. `have`: the blocks that the file holds
// already and that are not written again; NULL: the file is empty. Writes no block whose checksum differs. `phase` may
// be NULL. Adds the bytes to `progress`, which may be NULL. INTEGRITY (a pack is damaged), INSUFFICIENT (the file
// system of `fd` has no room), STATE (the phase wants to stop), SYSTEM, NO_MEMORY.
enum vg_status device_in_fill(const struct image_dir *dir, const struct device_index *index, size_t memory,
			      const struct device_block *have, int fd, struct phase *phase, _Atomic uint64_t *progress);
