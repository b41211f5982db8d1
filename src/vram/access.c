// Reads, writes, fills and copies regions from the host.
//
// All operations but short writes run on the per-thread default stream. That stream waits for the legacy default
// stream, but not for other threads' streams, so that readers do not wait for each other. Short writes run on the
// legacy default stream. The driver's synchronous copy may return while the data are still in a buffer of the driver,
// and not yet on the device. Later work waits for the legacy default stream, so it reads the new data.
#include "core/error.h"
#include "vram/staging.h"
#include "vram/vram.h"

// Waits for the legacy stream. Call with the region's context current.
static enum vg_status wait_for_legacy_stream(struct vram_region *region)
{
	CUresult r = core_driver->cuStreamSynchronize(CU_STREAM_LEGACY);

	return r ? core_driver_failed(r, "cuStreamSynchronize", "%s", "waiting for what was written") : VG_OK;
}

enum { LONG_WRITE = 1 << 20 }; // in bytes; the wait for the stream takes negligible time compared with a longer write

// A GPU runs the copies of one direction one after another, even in different streams. Long copies are cut into pieces,
// so that short copies of other threads run in between.
enum { PIECE = 32 << 20 };

static CUresult write_long(CUdeviceptr to, const void *from, size_t bytes)
{
	CUresult r = CUDA_SUCCESS;

	for (size_t done = 0; done < bytes && r == CUDA_SUCCESS; done += PIECE)
		r = core_driver->cuMemcpyHtoD_v2_ptds(to + done, (const char *)from + done,
						      bytes - done < PIECE ? bytes - done : PIECE);
	return r ? r : core_driver->cuStreamSynchronize(CU_STREAM_PER_THREAD);
}

static enum vg_status write_region(struct vram_region *region, size_t offset, const void *from, size_t bytes)
{
	const bool is_long = bytes >= LONG_WRITE;
	CORE_SCOPE scope = {false};

	CUresult r = core_enter(&scope, region->vram->context->handle);
	if (r == CUDA_SUCCESS)
		r = is_long ? write_long(region->address + offset, from, bytes)
			    : core_driver->cuMemcpyHtoD_v2(region->address + offset, from, bytes);
	if (r)
		return core_driver_failed(r, "cuMemcpyHtoD", "%zu bytes at offset %zu", bytes, offset);
	if (is_long)
		return VG_OK;
	// Set `write_pending` before reading the count of loans. A thread that makes a loan or an offer counts it
	// first, and reads `write_pending` after that. So at least one of the two threads waits for the write.
	if (!atomic_load_explicit(&region->write_pending, memory_order_relaxed))
		atomic_store(&region->write_pending, true);
	const bool is_visible = vram_table_count_loans(region) || atomic_load(&region->shared);
	return is_visible ? wait_for_legacy_stream(region) : VG_OK;
}

static enum vg_status read_region(struct vram_region *region, size_t offset, void *to, size_t bytes)
{
	CORE_SCOPE scope = {false};

	CUresult r = core_enter(&scope, region->vram->context->handle);
	if (r == CUDA_SUCCESS && bytes >= VRAM_LONG_READ)
		return vram_read_long(&region->vram->staging, to, region->address + offset, bytes);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuMemcpyDtoH_v2_ptds(to, region->address + offset, bytes);
	return r ? core_driver_failed(r, "cuMemcpyDtoH", "%zu bytes at offset %zu", bytes, offset) : VG_OK;
}

// Fills on the per-thread default stream, and waits for the end.
static enum vg_status fill_region(struct vram_region *region, size_t offset, int value, size_t bytes)
{
	CORE_SCOPE scope = {false};

	CUresult r = core_enter(&scope, region->vram->context->handle);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuMemsetD8Async(region->address + offset, (unsigned char)value, bytes,
						 CU_STREAM_PER_THREAD);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuStreamSynchronize(CU_STREAM_PER_THREAD);
	return r ? core_driver_failed(r, "cuMemsetD8", "%zu bytes at offset %zu", bytes, offset) : VG_OK;
}

// Copies on the per-thread default stream, and waits for the end. First waits for writes to the source, because a
// stream does not wait for the legacy stream of another device.
static enum vg_status copy_region(struct vram_region *to, size_t to_offset, struct vram_region *from,
				  size_t from_offset, size_t bytes)
{
	CUcontext here = to->vram->context->handle, there = from->vram->context->handle;
	CORE_SCOPE scope = {false};

	enum vg_status status = here == there ? VG_OK : vram_wait_for_writes(from);
	if (status)
		return status;
	CUresult r = core_enter(&scope, here);
	if (r == CUDA_SUCCESS)
		r = here == there
			    ? core_driver->cuMemcpyDtoDAsync_v2(to->address + to_offset, from->address + from_offset,
								bytes, CU_STREAM_PER_THREAD)
			    : core_driver->cuMemcpyPeerAsync(to->address + to_offset, here, from->address + from_offset,
							     there, bytes, CU_STREAM_PER_THREAD);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuStreamSynchronize(CU_STREAM_PER_THREAD);
	return r ? core_driver_failed(r, here == there ? "cuMemcpyDtoD" : "cuMemcpyPeer",
				      "%zu bytes from offset %zu to offset %zu", bytes, from_offset, to_offset)
		 : VG_OK;
}

enum vg_status vram_wait_for_writes(struct vram_region *region)
{
	CORE_SCOPE scope = {false};

	if (!atomic_load(&region->write_pending))
		return VG_OK;
	CUresult r = core_enter(&scope, region->vram->context->handle);
	return r ? core_driver_failed(r, "cuCtxPushCurrent", "%s", "") : wait_for_legacy_stream(region);
}

enum vg_status vg_vram_write_at(struct vg_vram_handle handle, size_t offset, const void *from, size_t bytes)
{
	VG_ENTRY();
	struct vram_region *region;

	enum vg_status status = vram_pin(handle, VRAM_WRITE, &region);
	if (status)
		return status;
	status = vram_check_range(region, offset, bytes);
	if (status == VG_OK && bytes && !from)
		status = vg_fail(VG_INVALID, 0, "from is NULL, and bytes %zu", bytes);
	if (status == VG_OK && bytes)
		status = write_region(region, offset, from, bytes);
	vram_unpin(region, VRAM_WRITE);
	return status;
}

enum vg_status vg_vram_read_at(struct vg_vram_handle handle, size_t offset, void *to, size_t bytes)
{
	VG_ENTRY();
	struct vram_region *region;

	enum vg_status status = vram_pin(handle, VRAM_READ, &region);
	if (status)
		return status;
	status = vram_check_range(region, offset, bytes);
	if (status == VG_OK && bytes && !to)
		status = vg_fail(VG_INVALID, 0, "to is NULL, and bytes %zu", bytes);
	if (status == VG_OK && bytes)
		status = read_region(region, offset, to, bytes);
	vram_unpin(region, VRAM_READ);
	return status;
}

enum vg_status vg_vram_fill(struct vg_vram_handle handle, size_t offset, int value, size_t bytes)
{
	VG_ENTRY();
	struct vram_region *region;

	enum vg_status status = vram_pin(handle, VRAM_WRITE, &region);
	if (status)
		return status;
	status = vram_check_range(region, offset, bytes);
	if (status == VG_OK && (value < 0 || value > 255))
		status = vg_fail(VG_INVALID, 0, "value is %d: a byte is 0 to 255", value);
	if (status == VG_OK && bytes)
		status = fill_region(region, offset, value, bytes);
	vram_unpin(region, VRAM_WRITE);
	return status;
}

static enum vg_status check_copy(const struct vram_region *to, size_t to_offset, const struct vram_region *from,
				 size_t from_offset, size_t bytes)
{
	enum vg_status status = vram_check_range(from, from_offset, bytes);

	if (status == VG_OK)
		status = vram_check_range(to, to_offset, bytes);
	if (status || to != from || bytes == 0)
		return status;
	size_t apart = to_offset > from_offset ? to_offset - from_offset : from_offset - to_offset;
	return apart >= bytes ? VG_OK
			      : vg_fail(VG_INVALID, 0, "%zu bytes from offset %zu to %zu of one region overlap", bytes,
					from_offset, to_offset);
}

enum vg_status vg_vram_copy(struct vg_vram_handle to, size_t to_offset, struct vg_vram_handle from, size_t from_offset,
			    size_t bytes)
{
	VG_ENTRY();
	struct vram_region *source, *target;

	enum vg_status status = vram_pin(from, VRAM_READ, &source);
	if (status)
		return status;
	status = vram_pin(to, VRAM_WRITE, &target);
	if (status) {
		vram_unpin(source, VRAM_READ);
		return status;
	}
	status = check_copy(target, to_offset, source, from_offset, bytes);
	if (status == VG_OK && bytes)
		status = copy_region(target, to_offset, source, from_offset, bytes);
	vram_unpin(target, VRAM_WRITE);
	vram_unpin(source, VRAM_READ);
	return status;
}
