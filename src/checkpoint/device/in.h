// Fills files with the device memory of an image. For one thread.
#pragma once
#include "checkpoint/image/device_index.h"
#include "checkpoint/process/phase.h"

// Writes memory number `memory` of the index to the file `fd`, with several threads. `have`: the blocks that the file
// already contains, and that need not be written; NULL: the file is empty. Does not write a block whose checksum
// differs. Adds the bytes to `progress`. `phase` and `progress` may be NULL. INTEGRITY (a pack is damaged),
// INSUFFICIENT (the file system of `fd` is full), STATE (the progress function asked to stop), SYSTEM, NO_MEMORY.
enum vg_status device_in_fill(const struct image_dir *dir, const struct device_index *index, size_t memory,
			      const struct device_block *have, int fd, struct phase *phase, _Atomic uint64_t *progress);
