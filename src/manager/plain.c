#include "manager/plain.h"

#include "base/log.h"
#include "core/error.h"
#include "core/resource.h"
#include "virgate/memory_resource.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// The driver's allocator rounds sizes up to this (docs/hardware.md).
enum { STEP = 512 };
static const size_t SMALL = 1 << 20, BLOCK = 2 << 20;

struct plain_block {
	vg_address address; // the address that the program got
	size_t size;	    // as requested
	struct vg_allocation allocation;
	uint64_t charged;
	unsigned pins;
	bool going;
};

struct plain_memory {
	struct vg_context *context;	   // owns a reference
	struct vg_memory_resource *driver; // owns a reference
	struct vg_stream *stream;	   // owns a reference to the per-thread default stream
	struct space_budget budget;
	const struct manager_budget *owner;
	pthread_mutex_t lock;
	pthread_cond_t unpinned;
	struct plain_block **blocks; // sorted by address
	size_t count, capacity;
	uint64_t bytes;
};

enum vg_status plain_create(struct vg_context *context, const struct space_budget *budget,
			    const struct manager_budget *owner, struct plain_memory **ret_memory)
{
	struct plain_memory *memory = calloc(1, sizeof *memory);

	if (!memory)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a virtual GPU");
	enum vg_status status = vg_synchronous_resource_create(context, &memory->driver);
	if (status)
		goto fail;
	status = vg_stream_default(context, VG_DEFAULT_STREAM_PER_THREAD, &memory->stream);
	if (status)
		goto fail;
	core_object_retain(&context->object);
	memory->context = context;
	memory->budget = *budget;
	memory->owner = owner;
	pthread_mutex_init(&memory->lock, NULL);
	pthread_cond_init(&memory->unpinned, NULL);
	*ret_memory = memory;
	return VG_OK;
fail:
	vg_memory_resource_destroy(memory->driver);
	free(memory);
	return status;
}

void plain_destroy(struct plain_memory *memory)
{
	if (!memory)
		return;
	vg_memory_resource_destroy(memory->driver);
	vg_stream_destroy(memory->stream);
	vg_context_destroy(memory->context);
	pthread_cond_destroy(&memory->unpinned);
	pthread_mutex_destroy(&memory->lock);
	free(memory->blocks);
	free(memory);
}

struct vg_context *plain_context(const struct plain_memory *memory)
{
	return memory->context;
}

// ---- the list -------------------------------------------------------------------------------------------

// Returns the index of the first block that begins after `address`.
static size_t find_behind(const struct plain_memory *memory, vg_address address)
{
	size_t low = 0, high = memory->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (memory->blocks[middle]->address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool insert_block(struct plain_memory *memory, struct plain_block *block)
{
	pthread_mutex_lock(&memory->lock);
	bool fits = memory->count < memory->capacity;
	if (!fits) {
		size_t capacity = memory->capacity ? 2 * memory->capacity : 16;
		struct plain_block **blocks = realloc(memory->blocks, capacity * sizeof(struct plain_block *));
		fits = blocks != NULL;
		if (fits) {
			memory->blocks = blocks;
			memory->capacity = capacity;
		}
	}
	if (fits) {
		size_t at = find_behind(memory, block->address);
		memmove(&memory->blocks[at + 1], &memory->blocks[at],
			(memory->count - at) * sizeof(struct plain_block *));
		memory->blocks[at] = block;
		memory->count++;
		memory->bytes += block->size;
	}
	pthread_mutex_unlock(&memory->lock);
	return fits;
}

// Waits until the block is not pinned, and removes it from the list. Call with the lock held.
static void remove_block(struct plain_memory *memory, struct plain_block *block)
{
	block->going = true;
	while (block->pins)
		pthread_cond_wait(&memory->unpinned, &memory->lock);
	size_t at = find_behind(memory, block->address) - 1;
	memory->count--;
	memmove(&memory->blocks[at], &memory->blocks[at + 1], (memory->count - at) * sizeof(struct plain_block *));
	memory->bytes -= block->size;
}

static struct plain_block *find_block(const struct plain_memory *memory, vg_address address)
{
	size_t at = find_behind(memory, address);
	struct plain_block *block = at ? memory->blocks[at - 1] : NULL;

	return block && !block->going && address - block->address < block->size ? block : NULL;
}

enum vg_status plain_pin(struct plain_memory *memory, vg_address address, uint64_t size, const char *argument,
			 struct plain_block **ret_block)
{
	pthread_mutex_lock(&memory->lock);
	struct plain_block *block = find_block(memory, address);
	uint64_t there = block ? block->size - (address - block->address) : 0;
	bool fits = block && size <= there;
	if (fits)
		block->pins++;
	pthread_mutex_unlock(&memory->lock);
	if (fits) {
		*ret_block = block;
		return VG_OK;
	}
	if (block)
		return vg_fail(VG_BOUNDS, 0, "%s: %llu bytes from %#llx on, and its block ends after %llu of them",
			       argument, (unsigned long long)size, (unsigned long long)address,
			       (unsigned long long)there);
	return vg_fail(
		VG_BOUNDS, 0,
		"%s: %#llx lies in no block of virtual GPU %d (%s): it is another's, was freed, or is the host's",
		argument, (unsigned long long)address, memory->owner->id, memory->owner->name);
}

void plain_unpin(struct plain_memory *memory, struct plain_block *block)
{
	pthread_mutex_lock(&memory->lock);
	if (--block->pins == 0 && block->going)
		pthread_cond_broadcast(&memory->unpinned);
	pthread_mutex_unlock(&memory->lock);
}

void plain_figures(struct plain_memory *memory, size_t *ret_blocks, uint64_t *ret_bytes)
{
	pthread_mutex_lock(&memory->lock);
	*ret_blocks = memory->count;
	*ret_bytes = memory->bytes;
	pthread_mutex_unlock(&memory->lock);
}

// ---- memory ---------------------------------------------------------------------------------------------

static enum vg_status allocate_block(struct plain_memory *memory, struct plain_block *block, size_t bytes,
				     size_t alignment)
{
	enum vg_status status = memory->budget.charge(memory->budget.user, block->charged);
	if (status)
		return status;
	CORE_RELAXED relaxed = core_relax();
	status = core_resource_allocate(memory->driver, bytes, NULL, &block->allocation);
	if (status == VG_DRIVER && vg_last_error()->code == CUDA_ERROR_OUT_OF_MEMORY) {
		size_t have = 0;
		(void)vg_device_memory_info(memory->context->device, &have, NULL);
		status = vg_fail(VG_INSUFFICIENT, CUDA_ERROR_OUT_OF_MEMORY,
				 "asked for %zu bytes, and device %d has %zu free: free some, or try again later",
				 bytes, memory->context->device->ordinal, have);
		vg_fail_amounts(bytes, have);
	}
	if (status)
		goto fail;
	block->address = (block->allocation.address + alignment - 1) & ~(vg_address)(alignment - 1);
	if (insert_block(memory, block))
		return VG_OK;
	(void)core_resource_deallocate(memory->driver, &block->allocation, NULL);
	status = vg_fail(VG_NO_MEMORY, 0, "no memory for one more block");
fail:
	memory->budget.refund(memory->budget.user, block->charged);
	return status;
}

enum vg_status plain_allocate(struct plain_memory *memory, size_t size, size_t alignment, vg_address *ret_address)
{
	size_t more = alignment > STEP ? alignment : 0;

	if (size > SIZE_MAX - more - BLOCK)
		return vg_fail(VG_INVALID, 0, "%zu bytes, aligned to %zu: they are too many", size, alignment);
	struct plain_block *block = calloc(1, sizeof *block);
	if (!block)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a block");
	size_t step = size + more > SMALL ? BLOCK : STEP;
	block->size = size;
	block->charged = (size + more + step - 1) / step * step;
	enum vg_status status = allocate_block(memory, block, size + more, alignment);
	if (status)
		free(block);
	else
		*ret_address = block->address;
	return status;
}

// Zeroes and frees a block after all work of the vGPU, so that the next owner reads zeros. Frees the block even if
// zeroing fails.
static enum vg_status free_block(struct plain_memory *memory, struct plain_block *block)
{
	const struct vg_allocation *allocation = &block->allocation;
	const struct space_budget *budget = &memory->budget;
	struct vg_kept_error kept;
	enum vg_status status, given;
	CORE_SCOPE scope = {false};
	CORE_RELAXED relaxed = core_relax();

	CUresult r = core_enter(&scope, memory->context->handle);
	if (r == CUDA_SUCCESS && !budget->fence)
		r = core_driver->cuCtxSynchronize();
	status = budget->fence && !r ? budget->fence(budget->user, memory->stream) : VG_OK;
	if (r == CUDA_SUCCESS)
		r = core_driver->cuMemsetD8Async(allocation->address, 0, allocation->size, CU_STREAM_PER_THREAD);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuStreamSynchronize(CU_STREAM_PER_THREAD);
	if (r && status == VG_OK)
		status = core_driver_failed(r, "cuMemsetD8", "zeroing %zu bytes", allocation->size);
	if (status)
		vg_error_keep(&kept);
	given = core_resource_deallocate(memory->driver, allocation, NULL);
	if (status)
		vg_error_restore(&kept);
	memory->budget.refund(memory->budget.user, block->charged);
	free(block);
	return status ? status : given;
}

enum vg_status plain_free(struct plain_memory *memory, vg_address address)
{
	pthread_mutex_lock(&memory->lock);
	struct plain_block *block = find_block(memory, address);
	vg_address offset = block ? address - block->address : 0;
	if (block && !offset)
		remove_block(memory, block);
	pthread_mutex_unlock(&memory->lock);
	if (!block)
		return vg_fail(
			VG_BOUNDS, 0,
			"no block of virtual GPU %d (%s) begins at %#llx: it is another's, was freed, or is the host's",
			memory->owner->id, memory->owner->name, (unsigned long long)address);
	if (offset)
		return vg_fail(VG_INVALID, 0,
			       "%#llx is %llu bytes into a block: free it by the address where it begins",
			       (unsigned long long)address, (unsigned long long)offset);
	return free_block(memory, block);
}

enum vg_status plain_finish(struct plain_memory *memory, size_t *ret_blocks, uint64_t *ret_bytes)
{
	enum vg_status result = VG_OK;
	struct vg_kept_error kept;

	plain_figures(memory, ret_blocks, ret_bytes);
	while (memory->count) {
		struct plain_block *block = memory->blocks[--memory->count];
		enum vg_status status = free_block(memory, block);
		if (status && !result) {
			result = status;
			vg_error_keep(&kept);
		}
	}
	memory->bytes = 0;
	if (result)
		vg_error_restore(&kept);
	return result;
}
