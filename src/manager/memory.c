// A virtual GPU's memory, whichever kind it has.
#include "manager/manager.h"
#include "manager/plain.h"

#include "core/error.h"

// ---- blocks -----------------------------------------------------------------------------------------------

enum vg_status vg_virtual_gpu_allocate(struct vg_virtual_gpu *vgpu, size_t size, size_t alignment,
				       vg_address *ret_address)
{
	CORE_NEEDED(ret_address);
	enum vg_status status = manager_enter(vgpu, __func__);
	if (status)
		return status;
	if (size == 0)
		status = vg_fail(VG_INVALID, 0, __func__, "a block of 0 bytes has no address: ask for one at least");
	else if (alignment & (alignment - 1))
		status = vg_fail(VG_INVALID, 0, __func__, "an alignment of %zu is no power of two: use 256, 4096, …",
				 alignment);
	else
		status = plain_allocate(vgpu->plain, size, alignment ? alignment : 256, __func__, ret_address);
	if (status == VG_OK)
		atomic_store(&vgpu->used, true);
	return manager_leave(vgpu, status);
}

enum vg_status vg_virtual_gpu_free(struct vg_virtual_gpu *vgpu, vg_address address)
{
	enum vg_status status = manager_enter(vgpu, __func__);

	return status ? status : manager_leave(vgpu, plain_free(vgpu->plain, address, __func__));
}

// ---- what is in them ------------------------------------------------------------------------------------

struct part {
	struct vg_virtual_gpu *vgpu;
	vg_address address;
	struct plain_block *block;
};

static enum vg_status pin(struct part *part, size_t size, const char *argument, const char *function)
{
	return plain_pin(part->vgpu->plain, part->address, size, argument, function, &part->block);
}

static void unpin(const struct part *part)
{
	plain_unpin(part->vgpu->plain, part->block);
}

// The program's memory, and not an address of the device where such belongs. What is pinned or managed is the
// program's.
static enum vg_status check_host(const struct vg_virtual_gpu *vgpu, const void *host, const char *argument,
				 const char *function)
{
	CUmemorytype type = 0;
	CORE_SCOPE scope = {false};

	if (!host)
		return vg_fail(VG_INVALID, 0, function, "%s is NULL", argument);
	if (core_enter(&scope, vgpu->manager->context->handle) == CUDA_SUCCESS &&
	    core_driver->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)host) ==
		    CUDA_SUCCESS &&
	    type == CU_MEMORYTYPE_DEVICE) {
		int managed = 0;
		if (core_driver->cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED,
						       (CUdeviceptr)(uintptr_t)host) == CUDA_SUCCESS &&
		    managed)
			return VG_OK;
		return vg_fail(VG_INVALID, 0, function,
			       "%s is %p, an address of the device: the program's memory belongs here; "
			       "vg_virtual_gpu_copy() copies within the device",
			       argument, host);
	}
	return VG_OK;
}

// On the thread's own stream, and done when it returns.
#define AT_ONCE(vgpu, function, entry, ...)                                                                            \
	({                                                                                                             \
		CORE_SCOPE scope_ = {false};                                                                           \
		CUresult r_ = core_enter(&scope_, (vgpu)->manager->context->handle);                                   \
		if (r_ == CUDA_SUCCESS)                                                                                \
			r_ = core_driver->entry(__VA_ARGS__, CU_STREAM_PER_THREAD);                                    \
		if (r_ == CUDA_SUCCESS)                                                                                \
			r_ = core_driver->cuStreamSynchronize(CU_STREAM_PER_THREAD);                                   \
		r_ ? core_driver_failed(r_, function, #entry, "%zu bytes", size) : VG_OK;                              \
	})

enum vg_status vg_virtual_gpu_write(struct vg_virtual_gpu *vgpu, vg_address to, const void *from, size_t size)
{
	struct part part = {vgpu, to, NULL};
	enum vg_status status = manager_enter(vgpu, __func__);

	if (status)
		return status;
	status = pin(&part, size, "to", __func__);
	if (status)
		return manager_leave(vgpu, status);
	if (size)
		status = check_host(vgpu, from, "from", __func__);
	if (size && status == VG_OK)
		status = AT_ONCE(vgpu, __func__, cuMemcpyHtoDAsync_v2, to, from, size);
	unpin(&part);
	return manager_leave(vgpu, status);
}

enum vg_status vg_virtual_gpu_read(struct vg_virtual_gpu *vgpu, void *to, vg_address from, size_t size)
{
	struct part part = {vgpu, from, NULL};
	enum vg_status status = manager_enter(vgpu, __func__);

	if (status)
		return status;
	status = pin(&part, size, "from", __func__);
	if (status)
		return manager_leave(vgpu, status);
	if (size)
		status = check_host(vgpu, to, "to", __func__);
	if (size && status == VG_OK)
		status = AT_ONCE(vgpu, __func__, cuMemcpyDtoHAsync_v2, to, from, size);
	unpin(&part);
	return manager_leave(vgpu, status);
}

enum vg_status vg_virtual_gpu_set(struct vg_virtual_gpu *vgpu, vg_address to, int value, size_t size)
{
	struct part part = {vgpu, to, NULL};
	enum vg_status status = manager_enter(vgpu, __func__);

	if (status)
		return status;
	if (value < 0 || value > 255)
		return manager_leave(vgpu, vg_fail(VG_INVALID, 0, __func__, "%d is no byte: 0 to 255", value));
	status = pin(&part, size, "to", __func__);
	if (status)
		return manager_leave(vgpu, status);
	if (size)
		status = AT_ONCE(vgpu, __func__, cuMemsetD8Async, to, (unsigned char)value, size);
	unpin(&part);
	return manager_leave(vgpu, status);
}

static enum vg_status copy(const struct part *to, const struct part *from, size_t size, const char *function)
{
	struct vg_virtual_gpu *vgpu = to->vgpu;

	if (size == 0)
		return VG_OK;
	if (to->address < from->address + size && from->address < to->address + size)
		return vg_fail(VG_INVALID, 0, function, "%zu bytes from %#llx and to %#llx overlap", size,
			       (unsigned long long)from->address, (unsigned long long)to->address);
	if (vgpu->manager->context == from->vgpu->manager->context ||
	    vgpu->manager->context->device == from->vgpu->manager->context->device)
		return AT_ONCE(vgpu, function, cuMemcpyDtoDAsync_v2, to->address, from->address, size);
	return AT_ONCE(vgpu, function, cuMemcpyPeerAsync, to->address, vgpu->manager->context->handle, from->address,
		       from->vgpu->manager->context->handle, size);
}

enum vg_status vg_virtual_gpu_copy(struct vg_virtual_gpu *vgpu, vg_address to, vg_address from, size_t size)
{
	struct part parts[2] = {{vgpu, to, NULL}, {vgpu, from, NULL}};
	enum vg_status status = manager_enter(vgpu, __func__);

	if (status)
		return status;
	status = pin(&parts[0], size, "to", __func__);
	if (status)
		return manager_leave(vgpu, status);
	status = pin(&parts[1], size, "from", __func__);
	if (status == VG_OK) {
		status = copy(&parts[0], &parts[1], size, __func__);
		unpin(&parts[1]);
	}
	unpin(&parts[0]);
	return manager_leave(vgpu, status);
}

enum vg_status vg_virtual_gpu_copy_peer(struct vg_virtual_gpu *to_vgpu, vg_address to, struct vg_virtual_gpu *from_vgpu,
					vg_address from, size_t size)
{
	struct part parts[2] = {{to_vgpu, to, NULL}, {from_vgpu, from, NULL}};
	enum vg_status status = manager_enter(to_vgpu, __func__);

	if (status)
		return status;
	status = manager_enter(from_vgpu, __func__);
	if (status)
		return manager_leave(to_vgpu, status);
	status = pin(&parts[0], size, "to", __func__);
	if (status == VG_OK) {
		status = pin(&parts[1], size, "from", __func__);
		if (status == VG_OK) {
			status = copy(&parts[0], &parts[1], size, __func__);
			unpin(&parts[1]);
		}
		unpin(&parts[0]);
	}
	return manager_leave(to_vgpu, manager_leave(from_vgpu, status));
}
