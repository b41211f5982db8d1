// Long reads into pageable memory, that hold no other reader up. Any thread.
#pragma once
#include "vram/scratch.h"

enum { VRAM_STAGED_FROM = 2 << 20 }; // bytes: what a shorter read holds up is not worth it
// What the driver knows of is page-locked, or no memory of the host: it copies there without that lock.
bool vram_is_pageable(const void *to);
// By page-locked memory of the list. In the region's context. NO_MEMORY, DRIVER.
enum vg_status vram_read_staged(struct vram_scratch_list *slots, void *to, CUdeviceptr from, size_t bytes,
				const char *function);
