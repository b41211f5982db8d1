// Reads long ranges without blocking other readers for long. Any thread.
#pragma once
#include "vram/scratch.h"

enum { VRAM_LONG_READ = 2 << 20 }; // in bytes; a shorter read does not block others long enough to be worth splitting

// Copies `bytes` bytes to the host. Copies through page-locked memory of `list`, unless `to` is page-locked. Call with
// the region's context current. Fails with NO_MEMORY or DRIVER.
enum vg_status vram_read_long(struct vram_scratch_list *slots, void *to, CUdeviceptr from, size_t bytes);
