#include "vram/scratch.h"

#include "base/status.h"
#include "virgate/memory_resource.h"

#include <stdlib.h>

enum { LEAST_BYTES = 1 << 20 }; // the driver allocates 2 MiB anyway

enum vg_status vram_scratch_list_init(struct vram_scratch_list *list, struct vg_context *context)
{
	return vg_synchronous_resource_create(context, &list->resource);
}

static void destroy_scratch(struct vram_scratch *scratch)
{
	vg_buffer_destroy(scratch->buffer);
	free(scratch);
}

void vram_scratch_list_finish(struct vram_scratch_list *list)
{
	while (list->first) {
		struct vram_scratch *scratch = list->first;
		list->first = scratch->next;
		destroy_scratch(scratch);
	}
	vg_memory_resource_destroy(list->resource);
}

static enum vg_status create_scratch(struct vram_scratch_list *list, size_t size, struct vram_scratch **ret_scratch)
{
	struct vram_scratch *scratch = calloc(1, sizeof *scratch);

	if (!scratch)
		return vg_fail(VG_NO_MEMORY, 0, "no host memory to describe scratch memory");
	enum vg_status status = vg_buffer_create(list->resource, size, NULL, &scratch->buffer);
	if (status)
		free(scratch);
	else
		*ret_scratch = scratch;
	return status;
}

enum vg_status vram_scratch_acquire(struct vram_scratch_list *list, size_t size, struct vram_scratch **ret_scratch)
{
	vg_lock_acquire(&list->lock);
	struct vram_scratch *scratch = list->first;
	if (scratch)
		list->first = scratch->next;
	vg_lock_release(&list->lock);
	if (scratch && scratch->buffer->size >= size) {
		*ret_scratch = scratch;
		return VG_OK;
	}
	if (scratch) // this memory is too small for the call, and probably for the next calls
		destroy_scratch(scratch);
	return create_scratch(list, size < LEAST_BYTES ? LEAST_BYTES : size, ret_scratch);
}

void vram_scratch_release(struct vram_scratch_list *list, struct vram_scratch *scratch)
{
	vg_lock_acquire(&list->lock);
	scratch->next = list->first;
	list->first = scratch;
	vg_lock_release(&list->lock);
}
