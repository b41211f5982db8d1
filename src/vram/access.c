// What the host does with a region's contents.
//
// Writes are the driver's synchronous copy on the legacy default stream, which may return while the last bytes are on
// their way from the driver's own buffers. Everything else runs on the calling thread's default stream: that waits for the
// legacy one, and not for other threads', so that readers do not wait for each other.
#include "core/error.h"
#include "vram/vram.h"

static enum vg_status write_region(struct vram_region *region, size_t offset, const void *from, size_t bytes,
				   const char *function)
{
	CORE_SCOPE scope = {false};

	CUresult r = core_enter(&scope, region->vram->context->handle);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuMemcpyHtoD_v2(region->address + offset, from, bytes);
	if (r)
		return core_driver_failed(r, function, "cuMemcpyHtoD", "%zu bytes at offset %zu", bytes, offset);
	if (!atomic_load_explicit(&region->unsettled, memory_order_relaxed))
		atomic_store_explicit(&region->unsettled, true, memory_order_relaxed);
	return VG_OK;
}

static enum vg_status read_region(struct vram_region *region, size_t offset, void *to, size_t bytes,
				  const char *function)
{
	CORE_SCOPE scope = {false};

	CUresult r = core_enter(&scope, region->vram->context->handle);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuMemcpyDtoH_v2_ptds(to, region->address + offset, bytes);
	return r ? core_driver_failed(r, function, "cuMemcpyDtoH", "%zu bytes at offset %zu", bytes, offset) : VG_OK;
}

enum vg_status vram_settle(struct vram_region *region, const char *function)
{
	if (!atomic_load_explicit(&region->unsettled, memory_order_relaxed))
		return VG_OK;
	CUresult r = core_driver->cuStreamSynchronize(CU_STREAM_LEGACY);
	if (r)
		return core_driver_failed(r, function, "cuStreamSynchronize", "%s", "waiting for what was written");
	return VG_OK;
}

enum vg_status vg_vram_write_at(struct vg_vram_handle handle, size_t offset, const void *from, size_t bytes)
{
	struct vram_region *region;

	enum vg_status status = vram_pin(handle, VRAM_WRITE, __func__, &region);
	if (status)
		return status;
	status = vram_check_range(region, offset, bytes, __func__);
	if (status == VG_OK && bytes && !from)
		status = vg_fail(VG_INVALID, 0, __func__, "from is NULL, and bytes %zu", bytes);
	if (status == VG_OK && bytes)
		status = write_region(region, offset, from, bytes, __func__);
	vram_unpin(region, VRAM_WRITE);
	return status;
}

enum vg_status vg_vram_read_at(struct vg_vram_handle handle, size_t offset, void *to, size_t bytes)
{
	struct vram_region *region;

	enum vg_status status = vram_pin(handle, VRAM_READ, __func__, &region);
	if (status)
		return status;
	status = vram_check_range(region, offset, bytes, __func__);
	if (status == VG_OK && bytes && !to)
		status = vg_fail(VG_INVALID, 0, __func__, "to is NULL, and bytes %zu", bytes);
	if (status == VG_OK && bytes)
		status = read_region(region, offset, to, bytes, __func__);
	vram_unpin(region, VRAM_READ);
	return status;
}
