// Provides plain memory: the memory of a virtual GPU whose manager does not virtualize memory. The driver allocates it
// directly. This file charges each allocation to the limit, checks addresses, and zeroes the memory before it is freed.
// Any thread.
#pragma once
#include "core/context.h"
#include "manager/budget.h"
#include "space/space.h"

struct plain_memory;
struct plain_block;

// Creates the object, at first without allocations. Allocations are charged to `budget`. `owner` has the vGPU's name
// for messages. `owner` must exist longer than this object.
enum vg_status plain_create(struct vg_context *context, const struct space_budget *budget,
			    const struct manager_budget *owner, struct plain_memory **ret_memory);
// plain_finish() frees all blocks and counts them; no other call may be in progress then. plain_destroy() accepts
// NULL.
enum vg_status plain_finish(struct plain_memory *memory, size_t *ret_blocks, uint64_t *ret_bytes);
void plain_destroy(struct plain_memory *memory);

enum vg_status plain_allocate(struct plain_memory *memory, size_t size, size_t alignment, vg_address *ret_address);
enum vg_status plain_free(struct plain_memory *memory, vg_address address);
// Pins the block that contains `size` bytes from `address`, until plain_unpin(). Fails with BOUNDS; the error names
// `argument`.
enum vg_status plain_pin(struct plain_memory *memory, vg_address address, uint64_t size, const char *argument,
			 struct plain_block **ret_block);
void plain_unpin(struct plain_memory *memory, struct plain_block *block);
void plain_figures(struct plain_memory *memory, size_t *ret_blocks, uint64_t *ret_bytes);
struct vg_context *plain_context(const struct plain_memory *memory);

// These functions copy like the public functions vg_virtual_gpu_write() and so on.
enum vg_status plain_write(struct plain_memory *memory, vg_address to, const void *from, size_t size);
enum vg_status plain_read(struct plain_memory *memory, void *to, vg_address from, size_t size);
enum vg_status plain_set(struct plain_memory *memory, vg_address to, int value, size_t size);
enum vg_status plain_copy(struct plain_memory *memory, vg_address to, vg_address from, size_t size);
// Copies between two addresses that were checked, in one or two contexts. Fails with INVALID (the ranges overlap) or
// DRIVER.
enum vg_status plain_copy_raw(struct vg_context *to_context, vg_address to, struct vg_context *from_context,
			      vg_address from, size_t size);
