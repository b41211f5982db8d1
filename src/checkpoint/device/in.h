// Fills files with the device memory of an image. For one thread.
#pragma once
#include "checkpoint/image/device_index.h"
#include "checkpoint/process/phase.h"

// Writes the device memory of one process to the file `fd`, with several threads. `memory`: its index in
// index->memories. `have`: the blocks that the file already contains, and that need not be written; NULL: the file is
// empty. Does not write a block whose checksum differs. Adds the size of each finished block to `progress`, and calls
// phase_tick() meanwhile. `phase` and `progress` may be NULL. INTEGRITY (a pack is damaged), INSUFFICIENT (the file
// system of `fd` is full), STATE (the progress function asked to stop), SYSTEM, NO_MEMORY.
enum vg_status device_in_fill(const struct image_dir *dir, const struct device_index *index, size_t memory,
			      const struct device_block *have, int fd, struct phase *phase, _Atomic uint64_t *progress);
