// Temporary memory of calls, kept in a list for the next call. Any thread.
#pragma once
#include "base/lock.h"
#include "core/buffer.h"

struct vram_scratch {
	struct vram_scratch *next;
	struct vg_buffer *buffer;
};

struct vram_scratch_list {
	struct vg_memory_resource *resource; // allocates the memory
	struct vg_lock lock;		     // for `first` only: no driver call is made under it
	struct vram_scratch *first;	     // those that no call uses
};

enum vg_status vram_scratch_list_init(struct vram_scratch_list *list, struct vg_context *context);
// Frees the memory; all of it was released before. A list of zeros is fine.
void vram_scratch_list_finish(struct vram_scratch_list *list);

// Returns at least `size` bytes with undefined contents; allocates if the list has none that large. NO_MEMORY, DRIVER.
enum vg_status vram_scratch_acquire(struct vram_scratch_list *list, size_t size, struct vram_scratch **ret_scratch);
// Puts it back into the list. No work on it may be queued or running.
void vram_scratch_release(struct vram_scratch_list *list, struct vram_scratch *scratch);
