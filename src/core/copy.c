// Copies and fills buffers.
#include "core/buffer.h"
#include "core/resource.h"

#include <string.h>

static CUresult queue_copy(CUdeviceptr to, CUdeviceptr from, size_t size, struct vg_stream *stream)
{
	return size ? core_driver->cuMemcpyAsync(to, from, size, stream->handle) : CUDA_SUCCESS;
}

enum vg_status vg_buffer_copy(struct vg_buffer *to, const struct vg_buffer *from, struct vg_stream *stream)
{
	VG_ENTRY();
	CORE_USABLE(to, "to");
	CORE_USABLE(from, "from");
	CORE_USABLE(stream, "stream");
	if (to->size != from->size)
		return vg_fail(VG_INVALID, 0, "a buffer of %zu bytes into one of %zu: their sizes must be the same",
			       from->size, to->size);
	CORE_ENTER(scope, stream->context->handle);
	CUresult r = queue_copy(to->address, from->address, from->size, stream);
	return r ? core_driver_failed(r, "cuMemcpyAsync", "%zu bytes", from->size) : VG_OK;
}

enum vg_status vg_buffer_duplicate(const struct vg_buffer *from, struct vg_stream *stream,
				   struct vg_buffer **ret_buffer)
{
	VG_ENTRY();
	struct vg_buffer *made;

	CORE_USABLE(from, "from");
	CORE_USABLE(stream, "stream");
	CORE_NEEDED(ret_buffer);
	if (!from->resource)
		return vg_fail(VG_INVALID, 0,
			       "the buffer was borrowed and has no memory resource: create one of its size, and "
			       "vg_buffer_copy()");
	CORE_TRY(vg_buffer_create(from->resource, from->size, stream, &made));
	CORE_SCOPE scope = {false};
	CUresult r = core_enter(&scope, stream->context->handle);
	if (r == CUDA_SUCCESS)
		r = queue_copy(made->address, from->address, from->size, stream);
	if (r) {
		enum vg_status status = core_driver_failed(r, "cuMemcpyAsync", "%zu bytes", from->size);
		vg_buffer_destroy(made);
		return status;
	}
	*ret_buffer = made;
	return VG_OK;
}

// Checks that a copy from or to the host stays within the buffer.
static enum vg_status check_range(const struct vg_buffer *buffer, size_t offset, const void *host, size_t size,
				  struct vg_stream *stream)
{
	CORE_USABLE(buffer, "buffer");
	CORE_USABLE(stream, "stream");
	if (size && !host)
		return vg_fail(VG_INVALID, 0, "the host's address is NULL");
	if (offset > buffer->size || size > buffer->size - offset)
		return vg_fail(VG_INVALID, 0, "%zu bytes at offset %zu: the buffer has %zu bytes", size, offset,
			       buffer->size);
	return VG_OK;
}

enum vg_status vg_buffer_write(struct vg_buffer *buffer, size_t offset, const void *from, size_t size,
			       struct vg_stream *stream)
{
	VG_ENTRY();
	CORE_TRY(check_range(buffer, offset, from, size, stream));
	CORE_ENTER(scope, stream->context->handle);
	CUresult r = queue_copy(buffer->address + offset, (CUdeviceptr)(uintptr_t)from, size, stream);
	return r ? core_driver_failed(r, "cuMemcpyAsync", "%zu bytes", size) : VG_OK;
}

enum vg_status vg_buffer_read(const struct vg_buffer *buffer, size_t offset, void *to, size_t size,
			      struct vg_stream *stream)
{
	VG_ENTRY();
	CORE_TRY(check_range(buffer, offset, to, size, stream));
	CORE_ENTER(scope, stream->context->handle);
	CUresult r = queue_copy((CUdeviceptr)(uintptr_t)to, buffer->address + offset, size, stream);
	return r ? core_driver_failed(r, "cuMemcpyAsync", "%zu bytes", size) : VG_OK;
}

static CUresult queue_fill(CUdeviceptr address, size_t size, const void *pattern, size_t width, CUstream stream)
{
	unsigned char byte;
	unsigned short half;
	unsigned int word;

	switch (width) {
	case 1:
		memcpy(&byte, pattern, sizeof byte);
		return core_driver->cuMemsetD8Async(address, byte, size, stream);
	case 2:
		memcpy(&half, pattern, sizeof half);
		return core_driver->cuMemsetD16Async(address, half, size / 2, stream);
	default:
		memcpy(&word, pattern, sizeof word);
		return core_driver->cuMemsetD32Async(address, word, size / 4, stream);
	}
}

static enum vg_status fill_buffer(struct vg_buffer *buffer, const void *pattern, size_t width, struct vg_stream *stream)
{
	CORE_SCOPE scope = {false};

	if (buffer->size % width || buffer->address % width)
		return vg_fail(VG_INVALID, 0,
			       "a pattern of %zu bytes in a buffer of %zu bytes at 0x%llx: size and address must be "
			       "multiples of it",
			       width, buffer->size, (unsigned long long)buffer->address);
	if (buffer->size == 0)
		return VG_OK;
	CUresult r = core_enter(&scope, stream->context->handle);
	if (r == CUDA_SUCCESS)
		r = queue_fill(buffer->address, buffer->size, pattern, width, stream->handle);
	return r ? core_driver_failed(r, "cuMemsetAsync", "%zu bytes", buffer->size) : VG_OK;
}

enum vg_status vg_buffer_fill(struct vg_buffer *buffer, const void *pattern, size_t width, struct vg_stream *stream)
{
	VG_ENTRY();
	CORE_USABLE(buffer, "buffer");
	CORE_USABLE(stream, "stream");
	CORE_NEEDED(pattern);
	if (width != 1 && width != 2 && width != 4)
		return vg_fail(VG_INVALID, 0, "a pattern of %zu bytes: a buffer is filled with 1, 2 or 4", width);
	return fill_buffer(buffer, pattern, width, stream);
}

enum vg_status vg_buffer_fill_byte(struct vg_buffer *buffer, int value, struct vg_stream *stream)
{
	VG_ENTRY();
	CORE_USABLE(buffer, "buffer");
	CORE_USABLE(stream, "stream");
	if (value < 0 || value > UINT8_MAX)
		return vg_fail(VG_INVALID, 0, "%d is not a byte: 0 to 255", value);
	return fill_buffer(buffer, &(unsigned char){(unsigned char)value}, 1, stream);
}
