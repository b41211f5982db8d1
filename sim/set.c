// Implements cuMemset*, which fills rows with equal elements.
#include "capture.h"
#include "copy.h"
#include "cost.h"
#include "entry.h"
#include "memory.h"
#include "process.h"
#include "stream.h"

static void fill_row(void *at, const CUDA_MEMSET_NODE_PARAMS *set, size_t elements)
{
	if (set->elementSize == 1) {
		memset(at, (int)(set->value & 0xff), elements);
	} else if (set->elementSize == 2) {
		uint16_t *to = at;
		for (size_t i = 0; i < elements; i++)
			to[i] = (uint16_t)set->value;
	} else {
		uint32_t *to = at;
		for (size_t i = 0; i < elements; i++)
			to[i] = set->value;
	}
}

static CUresult run_set(struct sim_op *op_)
{
	const struct sim_set_op *op = (struct sim_set_op *)op_;
	const size_t piece = SIM_GRANULE / op->set.elementSize;

	for (size_t y = 0; y < op->set.height; y++) {
		CUdeviceptr row = op->set.dst + y * op->set.pitch;
		for (size_t done = 0; done < op->set.width;) {
			size_t count = op->set.width - done < piece ? op->set.width - done : piece;
			void *at = sim_memory_translate(op->device, row + done * op->set.elementSize,
							count * op->set.elementSize, SIM_WRITE);
			if (!at) // the memory was unmapped after the call
				return CUDA_ERROR_ILLEGAL_ADDRESS;
			if (atomic_load_explicit(&op_->context->cancel, memory_order_relaxed))
				return CUDA_ERROR_CONTEXT_IS_DESTROYED;
			SIM_PROGRAMS_BYTES(fill_row(at, &op->set, count));
			done += count;
		}
	}
	return CUDA_SUCCESS;
}

static unsigned list_pieces(const struct sim_op *op, struct region_piece *ret_pieces, unsigned capacity)
{
	const CUDA_MEMSET_NODE_PARAMS *set = &((const struct sim_set_op *)op)->set;

	if (capacity)
		ret_pieces[0] = sim_cost_device_bytes(set->width * set->elementSize * set->height);
	return 1;
}

const struct sim_op_class sim_set_class = {
	.name = "set", .size = sizeof(struct sim_set_op), .run = run_set, .pieces = list_pieces};

CUresult sim_set_op_new(struct sim_context *context, const CUDA_MEMSET_NODE_PARAMS *set, struct sim_op **ret_op)
{
	struct sim_pointer pointer;
	size_t row;

	if ((set->elementSize != 1 && set->elementSize != 2 && set->elementSize != 4) || set->dst % set->elementSize ||
	    __builtin_mul_overflow(set->width, (size_t)set->elementSize, &row) ||
	    (set->height > 1 && set->pitch < row) || (set->height > 1 && set->pitch % set->elementSize))
		return CUDA_ERROR_INVALID_VALUE;
	size_t length = (set->height ? set->height - 1 : 0) * set->pitch + row;
	if (!sim_pointer_find(set->dst, &pointer) || !pointer.mapped)
		return CUDA_ERROR_INVALID_VALUE;
	if (!(pointer.range && pointer.range->kind == SIM_RANGE_RESERVED) &&
	    length > pointer.size - (set->dst - pointer.base))
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_device *device = context->device;
	if (pointer.range &&
	    pointer.range->kind == SIM_RANGE_GRAPH) { // the launch of the graph may allocate the memory later
		device = pointer.device ? pointer.device : device;
	} else if (!sim_memory_translate(device, set->dst, length ? length : 1, SIM_WRITE)) {
		device = pointer.device; // another device has the memory, so that device sets it
		if (!device || !sim_memory_translate(device, set->dst, length ? length : 1, SIM_WRITE))
			return CUDA_ERROR_INVALID_VALUE;
	}
	struct sim_set_op *op = (struct sim_set_op *)sim_op_new(&sim_set_class, context);
	op->set = *set;
	op->device = device;
	if (op->set.height == 0)
		op->set.height = 1;
	*ret_op = &op->op;
	return CUDA_SUCCESS;
}

static CUresult submit_set(CUstream handle, CUdeviceptr dst, size_t pitch, unsigned value, unsigned element,
			   size_t width, size_t height, enum sim_call call)
{
	bool asynchronous = call == SIM_ASYNCHRONOUS;
	CUDA_MEMSET_NODE_PARAMS params = {
		.dst = dst, .pitch = pitch, .value = value, .elementSize = element, .width = width, .height = height};
	struct sim_pointer pointer;
	struct sim_stream *stream;
	struct sim_op *op;

	SIM_TRY(sim_stream_get(handle, &stream));
	if (width == 0 || height == 0)
		return CUDA_SUCCESS;
	if (!asynchronous && !atomic_load(&stream->capture))
		SIM_TRY(sim_capture_check_unsafe());
	if (!asynchronous && atomic_load(&stream->capture))
		return sim_capture_check_stream(stream);
	SIM_TRY(sim_set_op_new(stream->context, &params, &op));
	op->instant = !asynchronous || width * element * height <= SIM_STAGED;
	// The call waits for pinned host memory to be set. It does not wait for device memory.
	bool wait = !asynchronous && sim_pointer_find(dst, &pointer) && pointer.host && !pointer.managed;
	return wait ? sim_submit_wait(stream, op) : sim_submit(stream, op);
}

#define SET_1D(name, bits, type)                                                                            \
	CUresult CUDAAPI cuMemset##name##_v2(CUdeviceptr dst, type value, size_t N)                         \
	{                                                                                                   \
		SIM_ENTER(cuMemset##name##_v2);                                                             \
		return submit_set(NULL, dst, 0, value, bits / 8, N, 1, SIM_SYNCHRONOUS);                    \
	}                                                                                                   \
	CUresult CUDAAPI cuMemset##name##_v2_ptds(CUdeviceptr dst, type value, size_t N)                    \
	{                                                                                                   \
		SIM_ENTER(cuMemset##name##_v2_ptds);                                                        \
		return submit_set(CU_STREAM_PER_THREAD, dst, 0, value, bits / 8, N, 1, SIM_SYNCHRONOUS);    \
	}                                                                                                   \
	CUresult CUDAAPI cuMemset##name##Async(CUdeviceptr dst, type value, size_t N, CUstream stream)      \
	{                                                                                                   \
		SIM_ENTER(cuMemset##name##Async);                                                           \
		return submit_set(stream, dst, 0, value, bits / 8, N, 1, SIM_ASYNCHRONOUS);                 \
	}                                                                                                   \
	CUresult CUDAAPI cuMemset##name##Async_ptsz(CUdeviceptr dst, type value, size_t N, CUstream stream) \
	{                                                                                                   \
		SIM_ENTER(cuMemset##name##Async_ptsz);                                                      \
		return submit_set(SIM_PTSZ(stream), dst, 0, value, bits / 8, N, 1, SIM_ASYNCHRONOUS);       \
	}
SET_1D(D8, 8, unsigned char)
SET_1D(D16, 16, unsigned short)
SET_1D(D32, 32, unsigned int)

#define SET_2D(name, bits, type)                                                                                       \
	CUresult CUDAAPI cuMemset##name##_v2(CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height)   \
	{                                                                                                              \
		SIM_ENTER(cuMemset##name##_v2);                                                                        \
		return submit_set(NULL, dst, pitch, value, bits / 8, width, height, SIM_SYNCHRONOUS);                  \
	}                                                                                                              \
	CUresult CUDAAPI cuMemset##name##_v2_ptds(CUdeviceptr dst, size_t pitch, type value, size_t width,             \
						  size_t height)                                                       \
	{                                                                                                              \
		SIM_ENTER(cuMemset##name##_v2_ptds);                                                                   \
		return submit_set(CU_STREAM_PER_THREAD, dst, pitch, value, bits / 8, width, height, SIM_SYNCHRONOUS);  \
	}                                                                                                              \
	CUresult CUDAAPI cuMemset##name##Async(CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height, \
					       CUstream stream)                                                        \
	{                                                                                                              \
		SIM_ENTER(cuMemset##name##Async);                                                                      \
		return submit_set(stream, dst, pitch, value, bits / 8, width, height, SIM_ASYNCHRONOUS);               \
	}                                                                                                              \
	CUresult CUDAAPI cuMemset##name##Async_ptsz(CUdeviceptr dst, size_t pitch, type value, size_t width,           \
						    size_t height, CUstream stream)                                    \
	{                                                                                                              \
		SIM_ENTER(cuMemset##name##Async_ptsz);                                                                 \
		return submit_set(SIM_PTSZ(stream), dst, pitch, value, bits / 8, width, height, SIM_ASYNCHRONOUS);     \
	}
SET_2D(D2D8, 8, unsigned char)
SET_2D(D2D16, 16, unsigned short)
SET_2D(D2D32, 32, unsigned int)
