// A virtual GPU's memory, whichever kind it has. Any thread; inside the vGPU's gate, but for its beginning and end.
#pragma once
#include "manager/manager.h"

enum vg_status memory_begin(struct vg_virtual_gpu *vgpu, uint64_t limit);
// All of it is zeroed and given back, and the log is told what was left. Its unit is closed by then. DRIVER.
enum vg_status memory_end(struct vg_virtual_gpu *vgpu);
void memory_destroy(struct vg_virtual_gpu *vgpu);
void memory_figures(struct vg_virtual_gpu *vgpu, size_t *ret_blocks, uint64_t *ret_bytes);

// INSUFFICIENT is no refusal before the caller gives up: budget_refused().
enum vg_status memory_allocate(struct vg_virtual_gpu *vgpu, size_t size, size_t alignment, vg_address *ret_address);
enum vg_status memory_free(struct vg_virtual_gpu *vgpu, vg_address address);
// BOUNDS or STALE, naming `argument`, unless the bytes lie in one block.
enum vg_status memory_check(struct vg_virtual_gpu *vgpu, vg_address address, uint64_t bytes, const char *argument);
