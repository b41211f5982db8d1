// Device memory that calls work with for a moment, and that the next call finds again. Any thread.
#pragma once
#include "base/lock.h"
#include "core/buffer.h"

struct vram_scratch {
	struct vram_scratch *next;
	struct vg_buffer *buffer;
};

struct vram_scratch_list {
	struct vg_memory_resource *resource; // where it comes from
	struct vg_lock lock;		     // of the list, and of nothing else: no call is made under it
	struct vram_scratch *first;	     // those that nobody uses
};

enum vg_status vram_scratch_list_init(struct vram_scratch_list *list, struct vg_context *context);
// All of them have been given back. One that was never initialised is fine if it is zero.
void vram_scratch_list_finish(struct vram_scratch_list *list);

// At least `size` bytes of whatever contents, which may mean to allocate and to free. NO_MEMORY, DRIVER.
enum vg_status vram_scratch_take(struct vram_scratch_list *list, size_t size, struct vram_scratch **ret_scratch);
// Once nothing uses it any more.
void vram_scratch_give(struct vram_scratch_list *list, struct vram_scratch *scratch);
