// Long reads that do not block other readers for long. Any thread.
#pragma once
#include "vram/scratch.h"

enum { VRAM_LONG_READ = 2 << 20 }; // bytes; a shorter read does not block others long enough to be cut

// Copies `bytes` bytes to the host, through page-locked memory of the list unless `to` is page-locked. The region's
// context is current. NO_MEMORY, DRIVER.
enum vg_status vram_read_long(struct vram_scratch_list *slots, void *to, CUdeviceptr from, size_t bytes);
