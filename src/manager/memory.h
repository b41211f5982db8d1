// A virtual GPU's memory, virtualized or plain. Any thread; inside the vGPU's gate, except memory_begin() and later
// memory_end().
#pragma once
#include "manager/manager.h"

enum vg_status memory_begin(struct vg_virtual_gpu *vgpu, uint64_t limit);
// Zeroes and frees all memory, and logs how much there was. The vGPU's unit is closed before. DRIVER.
enum vg_status memory_end(struct vg_virtual_gpu *vgpu);
void memory_destroy(struct vg_virtual_gpu *vgpu);
void memory_figures(struct vg_virtual_gpu *vgpu, size_t *ret_blocks, uint64_t *ret_bytes);

// INSUFFICIENT counts as a refusal only if the caller then calls budget_refused().
enum vg_status memory_allocate(struct vg_virtual_gpu *vgpu, size_t size, size_t alignment, vg_address *ret_address);
enum vg_status memory_free(struct vg_virtual_gpu *vgpu, vg_address address);
// Fails with BOUNDS or STALE, naming `argument`, unless the bytes are in one block.
enum vg_status memory_check(struct vg_virtual_gpu *vgpu, vg_address address, uint64_t bytes, const char *argument);
