// Keeps temporary memory in a list after a call has used it, so that later calls need not allocate. Any thread.
#pragma once
#include "base/lock.h"
#include "core/buffer.h"

struct vram_scratch {
	struct vram_scratch *next;
	struct vg_buffer *buffer;
};

struct vram_scratch_list {
	struct vg_memory_resource *resource; // allocates the memory
	struct vg_lock lock;		     // protects `first` only; no driver call is made under it
	struct vram_scratch *first;	     // list of memory that no call uses
};

enum vg_status vram_scratch_list_init(struct vram_scratch_list *list, struct vg_context *context);
// Frees the memory in the list. All memory must have been released. A list of all zeros is allowed.
void vram_scratch_list_finish(struct vram_scratch_list *list);

// Returns at least `size` bytes with undefined contents. Allocates if the list has no such memory. Fails with NO_MEMORY
// or DRIVER.
enum vg_status vram_scratch_acquire(struct vram_scratch_list *list, size_t size, struct vram_scratch **ret_scratch);
// Puts the memory back into the list. No work that uses it may be queued or running.
void vram_scratch_release(struct vram_scratch_list *list, struct vram_scratch *scratch);
