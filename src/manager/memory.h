// Declares the memory of a virtual GPU. It is either virtualized (a memory space), or plain: the driver allocates it
// directly (manager/plain.h). Any thread. Call memory_begin() before all other functions, then memory_end(), and
// memory_destroy() last. Other calls are made between manager_enter() and manager_leave(), by work of the compute unit,
// or by the thread that closes the vGPU.
#pragma once
#include "manager/manager.h"

enum vg_status memory_begin(struct vg_virtual_gpu *vgpu, uint64_t limit);
// Zeroes and frees all memory, and logs how much there was. Call after the vGPU's compute unit is closed. Fails with
// DRIVER.
enum vg_status memory_end(struct vg_virtual_gpu *vgpu);
void memory_destroy(struct vg_virtual_gpu *vgpu);
void memory_figures(struct vg_virtual_gpu *vgpu, size_t *ret_blocks, uint64_t *ret_bytes);

// Allocates memory. INSUFFICIENT is counted as a refusal only if the caller then calls budget_refused().
enum vg_status memory_allocate(struct vg_virtual_gpu *vgpu, size_t size, size_t alignment, vg_address *ret_address);
enum vg_status memory_free(struct vg_virtual_gpu *vgpu, vg_address address);
// Checks that all bytes are in one block. If not, fails with BOUNDS or STALE; the error names `argument`.
enum vg_status memory_check(struct vg_virtual_gpu *vgpu, vg_address address, uint64_t bytes, const char *argument);
