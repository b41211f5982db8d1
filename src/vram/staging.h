// Long reads, that hold no other reader up. Any thread.
#pragma once
#include "vram/scratch.h"

enum { VRAM_LONG_READ = 2 << 20 }; // bytes: what a shorter read holds up is not worth it

// By page-locked memory of the list, unless it goes into such memory. In the region's context. NO_MEMORY, DRIVER.
enum vg_status vram_read_long(struct vram_scratch_list *slots, void *to, CUdeviceptr from, size_t bytes);
