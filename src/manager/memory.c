// Implements the memory of a virtual GPU. It is either virtualized (a memory space), or plain: the driver allocates it
// directly (manager/plain.h).
#include "manager/memory.h"
#include "manager/plain.h"

#include "compute/compute.h"

#include "base/log.h"
#include "base/size.h"
#include "core/error.h"
#include "space/space.h"

// ---- creation and close -------------------------------------------------------------------------------------

static enum vg_status charge(void *user, uint64_t bytes)
{
	return budget_charge(&((struct vg_virtual_gpu *)user)->budget, bytes);
}

static void refund(void *user, uint64_t bytes)
{
	budget_refund(&((struct vg_virtual_gpu *)user)->budget, bytes);
}

// Waits for the vGPU's work. If the compute unit was closed before, all its work has already ended.
static enum vg_status fence(void *user, struct vg_stream *stream)
{
	struct vg_virtual_gpu *vgpu = user;

	return atomic_load(&vgpu->at_rest) ? VG_OK : compute_fence(vgpu->unit, stream);
}

enum vg_status memory_begin(struct vg_virtual_gpu *vgpu, uint64_t limit)
{
	struct vg_manager *manager = vgpu->manager;
	struct vg_memory_space_options options = manager->memory_options;
	const struct space_budget budget = {vgpu, charge, refund, fence};

	vgpu->budget.kind = manager->options.no_memory_virtualization ? VG_LEDGER_DEVICE : VG_LEDGER_VMM;
	if (manager->options.no_memory_virtualization)
		return plain_create(manager->context, &budget, &vgpu->budget, &vgpu->plain);
	// For a shared vGPU the ledger enforces the limit, because other programs may change it. So the memory space
	// itself is only limited to the device's memory.
	options.limit = vgpu->shared ? manager->memory : limit;
	// Other programs inside a shared vGPU cannot use the free pages that this process caches, so cache few. Each
	// pool may cache twice as much as the one before. The last one has whole pages; with the default 8 pools, it
	// caches about a sixteenth of the limit.
	if (vgpu->shared && !options.base_pool_size)
		options.base_pool_size = (limit >> 13) + 1;
	return space_create(manager->context, &options, &budget, &vgpu->space);
}

enum vg_status memory_end(struct vg_virtual_gpu *vgpu)
{
	struct vg_memory_space_info info = {0};
	enum vg_status status = VG_OK;
	char text[VG_SIZE_TEXT];

	if (vgpu->space) {
		(void)vg_memory_space_info(vgpu->space, &info);
		status = vg_memory_space_close(vgpu->space);
	} else if (vgpu->plain) {
		status = plain_finish(vgpu->plain, &info.blocks, &info.allocated);
	}
	if (status)
		vg_log(VG_LOG_ERROR, "virtual GPU %d (%s): cannot free its memory: %s", vgpu->id, vgpu->name,
		       vg_last_error()->text);
	if (info.blocks)
		vg_log(VG_LOG_WARNING,
		       "virtual GPU %d (%s) was closed with %zu blocks of %s in it: they were zeroed and freed",
		       vgpu->id, vgpu->name, info.blocks, vg_size_format(info.allocated, text));
	return status;
}

void memory_destroy(struct vg_virtual_gpu *vgpu)
{
	vg_memory_space_destroy(vgpu->space);
	plain_destroy(vgpu->plain);
}

void memory_figures(struct vg_virtual_gpu *vgpu, size_t *ret_blocks, uint64_t *ret_bytes)
{
	struct vg_memory_space_info info = {0};

	if (vgpu->plain) {
		plain_figures(vgpu->plain, ret_blocks, ret_bytes);
		return;
	}
	(void)vg_memory_space_info(vgpu->space, &info);
	*ret_blocks = info.blocks;
	*ret_bytes = info.allocated;
}

struct vg_memory_space *vg_virtual_gpu_memory(const struct vg_virtual_gpu *vgpu)
{
	return vgpu ? vgpu->space : NULL;
}

// ---- blocks ----------------------------------------------------------------------------------------------------

static enum vg_status allocate_plain(struct vg_virtual_gpu *vgpu, size_t size, size_t alignment,
				     vg_address *ret_address)
{
	if (size == 0)
		return vg_fail(VG_INVALID, 0, "a block of 0 bytes has no address: ask for one at least");
	if (alignment & (alignment - 1))
		return vg_fail(VG_INVALID, 0, "an alignment of %zu is no power of two: use 256, 4096, …", alignment);
	return plain_allocate(vgpu->plain, size, alignment ? alignment : 256, ret_address);
}

enum vg_status memory_allocate(struct vg_virtual_gpu *vgpu, size_t size, size_t alignment, vg_address *ret_address)
{
	return vgpu->space ? vg_memory_space_allocate(vgpu->space, size, alignment, ret_address)
			   : allocate_plain(vgpu, size, alignment, ret_address);
}

enum vg_status memory_free(struct vg_virtual_gpu *vgpu, vg_address address)
{
	return vgpu->space ? vg_memory_space_free(vgpu->space, address) : plain_free(vgpu->plain, address);
}

enum vg_status memory_check(struct vg_virtual_gpu *vgpu, vg_address address, uint64_t bytes, const char *argument)
{
	struct plain_block *block;

	if (vgpu->space)
		return space_check(vgpu->space, address, bytes, argument);
	enum vg_status status = plain_pin(vgpu->plain, address, bytes, argument, &block);
	if (status)
		return status;
	plain_unpin(vgpu->plain, block);
	return VG_OK;
}

enum vg_status vg_virtual_gpu_allocate(struct vg_virtual_gpu *vgpu, size_t size, size_t alignment,
				       vg_address *ret_address)
{
	VG_ENTRY();
	CORE_NEEDED(ret_address);
	enum vg_status status = manager_enter(vgpu);
	if (status)
		return status;
	// After the context is lost, the driver may return memory that cannot be used.
	status = atomic_load(&vgpu->manager->lost) ? manager_lost(vgpu)
						   : memory_allocate(vgpu, size, alignment, ret_address);
	if (status == VG_INSUFFICIENT)
		status = budget_refused(&vgpu->budget);
	if (status == VG_OK)
		atomic_store(&vgpu->used, true);
	return manager_leave(vgpu, status);
}

enum vg_status vg_virtual_gpu_free(struct vg_virtual_gpu *vgpu, vg_address address)
{
	VG_ENTRY();
	enum vg_status status = manager_enter(vgpu);

	return status ? status : manager_leave(vgpu, memory_free(vgpu, address));
}

// ---- contents --------------------------------------------------------------------------------------------------

enum vg_status vg_virtual_gpu_write(struct vg_virtual_gpu *vgpu, vg_address to, const void *from, size_t size)
{
	VG_ENTRY();
	enum vg_status status = manager_enter(vgpu);

	if (status)
		return status;
	return manager_leave(vgpu, vgpu->space ? vg_memory_space_write(vgpu->space, to, from, size)
					       : plain_write(vgpu->plain, to, from, size));
}

enum vg_status vg_virtual_gpu_read(struct vg_virtual_gpu *vgpu, void *to, vg_address from, size_t size)
{
	VG_ENTRY();
	enum vg_status status = manager_enter(vgpu);

	if (status)
		return status;
	return manager_leave(vgpu, vgpu->space ? vg_memory_space_read(vgpu->space, to, from, size)
					       : plain_read(vgpu->plain, to, from, size));
}

enum vg_status vg_virtual_gpu_set(struct vg_virtual_gpu *vgpu, vg_address to, int value, size_t size)
{
	VG_ENTRY();
	enum vg_status status = manager_enter(vgpu);

	if (status)
		return status;
	return manager_leave(vgpu, vgpu->space ? vg_memory_space_set(vgpu->space, to, value, size)
					       : plain_set(vgpu->plain, to, value, size));
}

enum vg_status vg_virtual_gpu_copy(struct vg_virtual_gpu *vgpu, vg_address to, vg_address from, size_t size)
{
	VG_ENTRY();
	enum vg_status status = manager_enter(vgpu);

	if (status)
		return status;
	return manager_leave(vgpu, vgpu->space ? vg_memory_space_copy(vgpu->space, to, from, size)
					       : plain_copy(vgpu->plain, to, from, size));
}

// Copies between two vGPUs of which at least one has memory that the driver allocated directly (manager/plain.h). Pins
// blocks of such memory, so that no other thread frees them during the copy. Addresses in a memory space are only
// checked.
static enum vg_status copy_mixed(struct vg_virtual_gpu *to_vgpu, vg_address to, struct vg_virtual_gpu *from_vgpu,
				 vg_address from, size_t size)
{
	struct plain_block *to_block = NULL, *from_block = NULL;

	enum vg_status status = to_vgpu->plain ? plain_pin(to_vgpu->plain, to, size, "to", &to_block)
					       : memory_check(to_vgpu, to, size, "to");
	if (status)
		return status;
	status = from_vgpu->plain ? plain_pin(from_vgpu->plain, from, size, "from", &from_block)
				  : memory_check(from_vgpu, from, size, "from");
	if (status == VG_OK)
		status = plain_copy_raw(to_vgpu->manager->context, to, from_vgpu->manager->context, from, size);
	if (from_block)
		plain_unpin(from_vgpu->plain, from_block);
	if (to_block)
		plain_unpin(to_vgpu->plain, to_block);
	return status;
}

enum vg_status vg_virtual_gpu_copy_peer(struct vg_virtual_gpu *to_vgpu, vg_address to, struct vg_virtual_gpu *from_vgpu,
					vg_address from, size_t size)
{
	VG_ENTRY();
	enum vg_status status = manager_enter(to_vgpu);

	if (status)
		return status;
	status = manager_enter(from_vgpu);
	if (status)
		return manager_leave(to_vgpu, status);
	if (to_vgpu->space && from_vgpu->space)
		status = vg_memory_space_copy_peer(to_vgpu->space, to, from_vgpu->space, from, size);
	else
		status = copy_mixed(to_vgpu, to, from_vgpu, from, size);
	return manager_leave(to_vgpu, manager_leave(from_vgpu, status));
}
