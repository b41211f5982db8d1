// Implements copies as operations of streams. Each operation copies a box of up to three dimensions, row by row.
#include <stdlib.h>

#include "capture.h"
#include "copy.h"
#include "cost.h"
#include "host.h"
#include "log.h"
#include "process.h"
#include "sparse.h"
#include "stream.h"

enum { PIECE = 4 << 20 }; // after this many bytes, a copy checks again that the memory is mapped

// The source or the destination of a copy.
struct side {
	CUmemorytype type;
	uintptr_t base; // address of the box's first byte
	size_t pitch, slice;
	struct sim_device *device;
	struct sim_copy_tiles tiles;
};

// Checks that [first, first + length) is inside one allocation, or inside mappings without a gap. If `by` is not NULL
// and the memory is of a pool, the device `by` must have access to it. Stores a device that can do the copy in
// *ret_device.
static CUresult check_device(const struct sim_device *by, CUdeviceptr first, size_t length, enum sim_access access,
			     struct sim_device **ret_device)
{
	struct sim_pointer pointer;

	if (length == 0)
		length = 1;
	if (!sim_pointer_find(first, &pointer) || !pointer.mapped)
		return CUDA_ERROR_INVALID_VALUE;
	if (pointer.host) {
		*ret_device = NULL;
		return length <= pointer.size - (first - pointer.base) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	}
	struct sim_device *device = pointer.device    ? pointer.device
				    : pointer.context ? pointer.context->device
						      : &sim_process.devices[0];
	if (pointer.range->kind != SIM_RANGE_RESERVED && length > pointer.size - (first - pointer.base))
		return CUDA_ERROR_INVALID_VALUE;
	if (pointer.range->kind == SIM_RANGE_GRAPH) { // the graph's launch may allocate the memory later
		*ret_device = device;
		return CUDA_SUCCESS;
	}
	if (by && pointer.range->kind == SIM_RANGE_POOL && pointer.device &&
	    !sim_memory_translate(by, first, length, access)) {
		sim_log("device %d: a copy is unable to access operand %#llx, in a pool of device %d", by->ordinal,
			(unsigned long long)first, pointer.device->ordinal);
		return CUDA_ERROR_INVALID_VALUE;
	}
	// Any device with access to the memory can do the copy. Try the memory's own device first.
	for (int i = -1; i < sim_process.device_count; i++) {
		struct sim_device *other = i < 0 ? device : &sim_process.devices[i];
		if (sim_memory_translate(other, first, length, access)) {
			*ret_device = other;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_VALUE;
}

// Returns whether the bytes are host memory that the host can access at their device address. If no device has access
// to them, the host itself does the copy.
static bool is_host_memory(CUdeviceptr address, size_t length)
{
	struct sim_pointer pointer;

	return sim_pointer_find(address, &pointer) && pointer.type == CU_MEMORYTYPE_HOST && pointer.host_access &&
	       address - pointer.base < pointer.size && length <= pointer.size - (address - pointer.base);
}

// Returns the type of the memory of a unified address.
static CUmemorytype find_memory_type(CUdeviceptr address)
{
	struct sim_pointer pointer;

	if (address - sim_process.window < sim_process.window_size)
		return CU_MEMORYTYPE_DEVICE;
	return sim_host_find(address, &pointer) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
}

// Checks the source or the destination of a copy, as `access` says. Finds its address and its device.
static CUresult resolve_side(struct sim_copy_op *op, const struct sim_device *by, enum sim_access access,
			     struct side *ret_side)
{
	bool write = access == SIM_WRITE;
	const CUDA_MEMCPY3D *c = &op->copy;
	CUmemorytype type = write ? c->dstMemoryType : c->srcMemoryType;
	size_t x = write ? c->dstXInBytes : c->srcXInBytes, y = write ? c->dstY : c->srcY,
	       z = write ? c->dstZ : c->srcZ;
	size_t pitch = write ? c->dstPitch : c->srcPitch, rows = write ? c->dstHeight : c->srcHeight;
	CUdeviceptr device = write ? c->dstDevice : c->srcDevice;
	CUarray handle = write ? c->dstArray : c->srcArray;
	struct side side = {.type = type};

	if (type == CU_MEMORYTYPE_UNIFIED)
		side.type = find_memory_type(device);
	if (side.type == CU_MEMORYTYPE_ARRAY) {
		struct sim_array *array;
		SIM_TRY(sim_array_get(handle, &array));
		if ((!array->base && !array->sparse) || x + c->WidthInBytes > array->width * array->element ||
		    y + c->Height > array->height || z + c->Depth > array->depth || x % array->element ||
		    c->WidthInBytes % array->element)
			return CUDA_ERROR_INVALID_VALUE;
		side.pitch = array->pitch;
		side.slice = array->slice;
		side.base = array->base + z * side.slice + y * side.pitch + x;
		if (array->sparse)
			side.tiles = (struct sim_copy_tiles){array, x, y, z};
		side.device = array->context->device;
		*ret_side = side;
		return CUDA_SUCCESS;
	}
	if (side.type != CU_MEMORYTYPE_HOST && side.type != CU_MEMORYTYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	side.pitch = pitch ? pitch : x + c->WidthInBytes;
	rows = rows ? rows : y + c->Height;
	if ((c->Height > 1 || c->Depth > 1) && (side.pitch < x + c->WidthInBytes || rows < y + c->Height))
		return CUDA_ERROR_INVALID_VALUE;
	side.slice = side.pitch * rows;
	uintptr_t base = type == CU_MEMORYTYPE_HOST ? (uintptr_t)(write ? c->dstHost : c->srcHost) : (uintptr_t)device;
	if (!base)
		return CUDA_ERROR_INVALID_VALUE;
	side.base = base + z * side.slice + y * side.pitch + x;
	size_t length = (c->Depth - 1) * side.slice + (c->Height - 1) * side.pitch + c->WidthInBytes;
	// A program may pass a device address as a host address. Such an address is checked, too.
	if (side.type == CU_MEMORYTYPE_DEVICE || side.base - sim_process.window < sim_process.window_size) {
		CUresult result = check_device(by, side.base, length, access, &side.device);
		if (result != CUDA_SUCCESS && (type != CU_MEMORYTYPE_UNIFIED || !is_host_memory(side.base, length)))
			return result;
		if (result != CUDA_SUCCESS)
			side.type = CU_MEMORYTYPE_HOST;
	}
	*ret_side = side;
	return CUDA_SUCCESS;
}

static CUresult copy_row(struct sim_copy_op *op, uintptr_t to, uintptr_t from, size_t length)
{
	for (size_t done = 0; done < length;) {
		size_t piece = length - done < PIECE ? length - done : PIECE;
		void *target = (void *)(to + done);
		const void *source = (void *)(from + done);
		if (op->target)
			target = sim_memory_translate(op->target, to + done, piece, SIM_WRITE);
		if (op->source)
			source = sim_memory_translate(op->source, from + done, piece, SIM_READ);
		if (!target || !source)
			return CUDA_ERROR_ILLEGAL_ADDRESS; // the memory was unmapped after the call
		if (atomic_load_explicit(&op->op.context->cancel, memory_order_relaxed))
			return CUDA_ERROR_CONTEXT_IS_DESTROYED;
		SIM_PROGRAMS_BYTES(memmove(target, source, piece));
		done += piece;
	}
	return CUDA_SUCCESS;
}

// Finds the address of the byte at (x, y, z) of the box. Reduces *length to the number of bytes that are contiguous
// from there on. *ret_address is 0 if the tile has no memory.
static CUresult find_piece(const struct sim_copy_tiles *tiles, size_t x, size_t y, size_t z, uintptr_t *ret_address,
			   size_t *length)
{
	const struct sim_array *array = tiles->array;
	size_t span;

	if (!array)
		return CUDA_SUCCESS;
	if (array->magic != SIM_ARRAY_MAGIC || !array->sparse || tiles->x + x >= array->width * array->element ||
	    tiles->y + y >= array->height || tiles->z + z >= array->depth)
		// the array was destroyed before the launch of a graph that copies it
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	*ret_address = sim_sparse_find(array, tiles->x + x, tiles->y + y, tiles->z + z, &span);
	*length = *length < span ? *length : span;
	return CUDA_SUCCESS;
}

static CUresult set_zero(struct sim_copy_op *op, uintptr_t to, size_t length)
{
	void *target = op->target ? sim_memory_translate(op->target, to, length, SIM_WRITE) : (void *)to;

	if (!target)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	SIM_PROGRAMS_BYTES(memset(target, 0, length));
	return CUDA_SUCCESS;
}

// Copies a row from or to a sparse array. A tile without memory reads as zeros and ignores writes.
static CUresult copy_sparse_row(struct sim_copy_op *op, uintptr_t to, uintptr_t from, size_t y, size_t z)
{
	size_t length = op->copy.WidthInBytes;

	for (size_t x = 0, piece; x < length; x += piece) {
		uintptr_t target = to + x, source = from + x;
		piece = length - x;
		SIM_TRY(find_piece(&op->to_tiles, x, y, z, &target, &piece));
		SIM_TRY(find_piece(&op->from_tiles, x, y, z, &source, &piece));
		if (!target)
			continue;
		if (source)
			SIM_TRY(copy_row(op, target, source, piece));
		else
			SIM_TRY(set_zero(op, target, piece));
	}
	return CUDA_SUCCESS;
}

static CUresult run_copy(struct sim_op *op_)
{
	struct sim_copy_op *op = (struct sim_copy_op *)op_;
	uintptr_t from = op->from, to = op->to;
	bool sparse = op->from_tiles.array || op->to_tiles.array;

	if (op->staged)
		from = (uintptr_t)op->staged;
	for (size_t z = 0; z < op->copy.Depth; z++)
		for (size_t y = 0; y < op->copy.Height; y++) {
			uintptr_t target = to + z * op->to_slice + y * op->to_pitch;
			uintptr_t source = from + z * op->from_slice + y * op->from_pitch;
			SIM_TRY(sparse ? copy_sparse_row(op, target, source, y, z)
				       : copy_row(op, target, source, op->copy.WidthInBytes));
		}
	return CUDA_SUCCESS;
}

static CUresult clone_copy(struct sim_op *op_)
{
	((struct sim_copy_op *)op_)->staged = NULL;
	return CUDA_SUCCESS;
}

static void finish_copy(struct sim_op *op_)
{
	free(((struct sim_copy_op *)op_)->staged);
}

static unsigned list_pieces(const struct sim_op *op, struct region_piece *ret_pieces, unsigned capacity)
{
	const struct sim_copy_op *copy = (const struct sim_copy_op *)op;
	uint64_t bytes = copy->copy.WidthInBytes * copy->copy.Height * copy->copy.Depth;
	bool within = copy->source && copy->source == copy->target;

	if (capacity)
		ret_pieces[0] =
			within ? sim_cost_device_bytes(bytes) : sim_cost_host_bytes(bytes, copy->source != NULL);
	return 1;
}

const struct sim_op_class sim_copy_class = {.name = "copy",
					    .size = sizeof(struct sim_copy_op),
					    .run = run_copy,
					    .clone = clone_copy,
					    .finish = finish_copy,
					    .pieces = list_pieces};

// Creates a copy operation. If the memory is of a pool, the device `by` must have access to it. If `by` is NULL, any
// device with access does the copy.
static CUresult new_copy_op(struct sim_context *context, const struct sim_device *by, const CUDA_MEMCPY3D *copy,
			    struct sim_op **ret_op)
{
	struct sim_copy_op *op = (struct sim_copy_op *)sim_op_new(&sim_copy_class, context);
	struct side source, target;
	CUresult result;

	op->copy = *copy;
	result = resolve_side(op, by, SIM_READ, &source);
	if (result == CUDA_SUCCESS)
		result = resolve_side(op, by, SIM_WRITE, &target);
	if (result != CUDA_SUCCESS) {
		sim_op_free(&op->op);
		return result;
	}
	op->from = source.base;
	op->from_pitch = source.pitch;
	op->from_slice = source.slice;
	op->source = source.device;
	op->from_tiles = source.tiles;
	op->to_tiles = target.tiles;
	op->to = target.base;
	op->to_pitch = target.pitch;
	op->to_slice = target.slice;
	op->target = target.device;
	*ret_op = &op->op;
	return CUDA_SUCCESS;
}

CUresult sim_copy_op_new(struct sim_context *context, const CUDA_MEMCPY3D *copy, struct sim_op **ret_op)
{
	return new_copy_op(context, context->device, copy, ret_op);
}

// Checks the source or the destination of a copy, which is in host memory. CUDA_ERROR_INVALID_VALUE: only a part of
// that memory is registered (cuMemHostRegister).
static CUresult check_host(const CUDA_MEMCPY3D *copy, uintptr_t first, size_t pitch, size_t slice, bool *ret_pageable)
{
	size_t length = (copy->Depth - 1) * slice + (copy->Height - 1) * pitch + copy->WidthInBytes;

	*ret_pageable = false;
	if (first - sim_process.window < sim_process.window_size)
		return CUDA_SUCCESS;
	enum sim_host_cover cover = sim_host_cover(first, length);
	*ret_pageable = cover == SIM_HOST_NONE;
	return cover == SIM_HOST_PART ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// Submits a copy to a stream. If `peers` is set, the copy is allowed even if the stream's device has no access to a
// pool whose memory is copied.
static CUresult submit_copy(CUstream handle, const CUDA_MEMCPY3D *copy, bool peers, enum sim_call call)
{
	bool asynchronous = call == SIM_ASYNCHRONOUS;
	struct sim_stream *stream;
	struct sim_op *op_;

	SIM_TRY(sim_stream_get(handle, &stream));
	if (copy->WidthInBytes == 0 || copy->Height == 0 || copy->Depth == 0)
		return CUDA_SUCCESS;
	if (!asynchronous && !atomic_load(&stream->capture))
		SIM_TRY(sim_capture_check_unsafe());
	SIM_TRY(new_copy_op(stream->context, peers ? NULL : stream->context->device, copy, &op_));
	struct sim_copy_op *op = (struct sim_copy_op *)op_;
	if (atomic_load(&stream->capture)) {
		if (asynchronous)
			return sim_submit(stream, op_);
		sim_op_free(op_);
		return sim_capture_check_stream(stream);
	}
	bool from_pageable = false, to_pageable = false;
	CUresult result = CUDA_SUCCESS;
	if (!op->source)
		result = check_host(&op->copy, op->from, op->from_pitch, op->from_slice, &from_pageable);
	if (!op->target && result == CUDA_SUCCESS)
		result = check_host(&op->copy, op->to, op->to_pitch, op->to_slice, &to_pageable);
	if (result != CUDA_SUCCESS) {
		sim_op_free(op_);
		return result;
	}
	bool linear = op->copy.Height == 1 && op->copy.Depth == 1,
	     small = linear && op->copy.WidthInBytes <= SIM_STAGED;
	if (!asynchronous && op->source && op->target) { // a copy between devices: the host does not wait
		op_->instant = true;
		return sim_submit(stream, op_);
	}
	// As on hardware, the program may reuse pageable memory of the source when the call returns. If the destination
	// is pageable, the whole copy is complete when the call returns.
	if (asynchronous && from_pageable && !to_pageable && small) {
		op->staged = malloc(op->copy.WidthInBytes);
		if (op->staged) {
			memcpy(op->staged, (void *)op->from, op->copy.WidthInBytes);
			return sim_submit(stream, op_);
		}
	}
	return asynchronous && !from_pageable && !to_pageable ? sim_submit(stream, op_) : sim_submit_wait(stream, op_);
}

CUresult sim_copy(CUstream handle, const CUDA_MEMCPY3D *copy, enum sim_call call)
{
	return submit_copy(handle, copy, false, call);
}

CUresult sim_copy_peer(CUstream handle, const CUDA_MEMCPY3D *copy, enum sim_call call)
{
	return submit_copy(handle, copy, true, call);
}
