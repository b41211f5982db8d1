// Implements memory operations in streams: writing a value, and waiting for a value.
#include <stdlib.h>
#include <time.h>

#include "entry.h"
#include "memory.h"
#include "op_time.h"

enum { BATCH_MOST = 256 };

// Returns whether the value in memory satisfies the wait. *ret_gone: the memory cannot be read.
static bool is_satisfied(struct sim_op *op, const CUstreamBatchMemOpParams *param, bool *ret_gone)
{
	bool wide = param->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
	const void *at = sim_memory_translate(op->context->device, param->waitValue.address, wide ? 8 : 4, SIM_READ);
	uint64_t now, want = wide ? param->waitValue.value64 : param->waitValue.value;

	if (!at) {
		*ret_gone = true;
		return false;
	}
	now = wide ? __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE)
		   : __atomic_load_n((const uint32_t *)at, __ATOMIC_ACQUIRE);
	switch (param->waitValue.flags & 3) {
	case CU_STREAM_WAIT_VALUE_GEQ:
		return wide ? (int64_t)(now - want) >= 0 : (int32_t)((uint32_t)now - (uint32_t)want) >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return now == want;
	case CU_STREAM_WAIT_VALUE_AND:
		return (now & want) != 0;
	default:
		return wide ? ~(now | want) != 0 : (uint32_t) ~(now | want) != 0;
	}
}

static CUresult wait_value(struct sim_op *op, const CUstreamBatchMemOpParams *param)
{
	const struct timespec nap = {.tv_nsec = 20000};
	bool gone = false;

	for (unsigned tries = 0; !is_satisfied(op, param, &gone); tries++) {
		if (gone)
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		if (atomic_load_explicit(&op->context->cancel, memory_order_relaxed))
			return CUDA_ERROR_CONTEXT_IS_DESTROYED;
		if (tries > 64)
			nanosleep(&nap, NULL);
	}
	return CUDA_SUCCESS;
}

static CUresult write_value(struct sim_op *op, const CUstreamBatchMemOpParams *param)
{
	bool wide = param->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
	void *at = sim_memory_translate(op->context->device, param->writeValue.address, wide ? 8 : 4, SIM_WRITE);

	if (!at)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	if (wide)
		__atomic_store_n((uint64_t *)at, param->writeValue.value64, __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint32_t *)at, param->writeValue.value, __ATOMIC_RELEASE);
	return CUDA_SUCCESS;
}

static CUresult run_memop(struct sim_op *op_)
{
	struct sim_memop_op *op = (struct sim_memop_op *)op_;

	for (unsigned i = 0; i < op->count; i++) {
		switch (op->params[i].operation) {
		case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		case CU_STREAM_MEM_OP_WAIT_VALUE_64:
			SIM_TRY(wait_value(op_, &op->params[i]));
			break;
		case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		case CU_STREAM_MEM_OP_WRITE_VALUE_64:
			SIM_TRY(write_value(op_, &op->params[i]));
			break;
		default: // barriers have no effect, because operations run in order
			atomic_thread_fence(memory_order_seq_cst);
		}
	}
	return CUDA_SUCCESS;
}

static CUresult clone_memop(struct sim_op *op_)
{
	struct sim_memop_op *op = (struct sim_memop_op *)op_;
	CUstreamBatchMemOpParams *params = malloc(op->count * sizeof *params);

	if (!params)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(params, op->params, op->count * sizeof *params);
	op->params = params;
	return CUDA_SUCCESS;
}

static void finish_memop(struct sim_op *op)
{
	free(((struct sim_memop_op *)op)->params);
}

const struct sim_op_class sim_memop_class = {.name = "memory operations",
					     .size = sizeof(struct sim_memop_op),
					     .run = run_memop,
					     .clone = clone_memop,
					     .finish = finish_memop,
					     .pieces = sim_time_host_piece};

static CUresult check_param(const struct sim_context *context, const CUstreamBatchMemOpParams *param)
{
	enum sim_access access = SIM_READ;
	bool wide = false;

	switch (param->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		wide = true;
		/* fallthrough */
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		if (param->waitValue.flags & ~3u) // FLUSH is refused, because the device attribute for it is 0
			return CUDA_ERROR_INVALID_VALUE;
		break;
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		wide = true;
		/* fallthrough */
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		access = SIM_WRITE;
		if (param->writeValue.flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)
			return CUDA_ERROR_INVALID_VALUE;
		break;
	case CU_STREAM_MEM_OP_BARRIER:
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	CUdeviceptr address = param->waitValue.address; // waitValue.address has the same offset as writeValue.address
	if (address % (wide ? 8 : 4) || !sim_memory_translate(context->device, address, wide ? 8 : 4, access))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult sim_memop_op_new(struct sim_context *context, unsigned count, const CUstreamBatchMemOpParams *params,
			  unsigned flags, struct sim_op **ret_op)
{
	if (!params || count == 0 || count > BATCH_MOST || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++)
		SIM_TRY(check_param(context, &params[i]));
	struct sim_memop_op *op = (struct sim_memop_op *)sim_op_new(&sim_memop_class, context);
	op->count = count;
	op->params = malloc(count * sizeof *params);
	if (!op->params) {
		op->count = 0;
		sim_op_free(&op->op);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	memcpy(op->params, params, count * sizeof *params);
	*ret_op = &op->op;
	return CUDA_SUCCESS;
}

static CUresult submit_batch(CUstream handle, unsigned count, const CUstreamBatchMemOpParams *params, unsigned flags)
{
	struct sim_stream *stream;
	struct sim_op *op;

	SIM_TRY(sim_stream_get(handle, &stream));
	SIM_TRY(sim_memop_op_new(stream->context, count, params, flags, &op));
	return sim_submit(stream, op);
}

static CUresult submit_one(CUstream stream, CUstreamBatchMemOpType operation, CUdeviceptr address, cuuint64_t value,
			   unsigned flags)
{
	CUstreamBatchMemOpParams param = {0};

	// The fields operation, address, value and flags of waitValue are at the same offsets as those of writeValue.
	param.writeValue.operation = operation;
	param.writeValue.address = address;
	param.writeValue.value64 = value;
	param.writeValue.flags = flags;
	return submit_batch(stream, 1, &param, 0);
}

#define VALUE(name, operation, type)                                                                    \
	CUresult CUDAAPI name(CUstream stream, CUdeviceptr addr, type value, unsigned int flags)        \
	{                                                                                               \
		SIM_ENTER(name);                                                                        \
		return submit_one(stream, operation, addr, value, flags);                               \
	}                                                                                               \
	CUresult CUDAAPI name##_ptsz(CUstream stream, CUdeviceptr addr, type value, unsigned int flags) \
	{                                                                                               \
		SIM_ENTER(name##_ptsz);                                                                 \
		return submit_one(SIM_PTSZ(stream), operation, addr, value, flags);                     \
	}
VALUE(cuStreamWaitValue32, CU_STREAM_MEM_OP_WAIT_VALUE_32, cuuint32_t)
VALUE(cuStreamWaitValue32_v2, CU_STREAM_MEM_OP_WAIT_VALUE_32, cuuint32_t)
VALUE(cuStreamWaitValue64, CU_STREAM_MEM_OP_WAIT_VALUE_64, cuuint64_t)
VALUE(cuStreamWaitValue64_v2, CU_STREAM_MEM_OP_WAIT_VALUE_64, cuuint64_t)
VALUE(cuStreamWriteValue32, CU_STREAM_MEM_OP_WRITE_VALUE_32, cuuint32_t)
VALUE(cuStreamWriteValue32_v2, CU_STREAM_MEM_OP_WRITE_VALUE_32, cuuint32_t)
VALUE(cuStreamWriteValue64, CU_STREAM_MEM_OP_WRITE_VALUE_64, cuuint64_t)
VALUE(cuStreamWriteValue64_v2, CU_STREAM_MEM_OP_WRITE_VALUE_64, cuuint64_t)

#define BATCH(name)                                                                                             \
	CUresult CUDAAPI name(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,        \
			      unsigned int flags)                                                               \
	{                                                                                                       \
		SIM_ENTER(name);                                                                                \
		return submit_batch(stream, count, paramArray, flags);                                          \
	}                                                                                                       \
	CUresult CUDAAPI name##_ptsz(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray, \
				     unsigned int flags)                                                        \
	{                                                                                                       \
		SIM_ENTER(name##_ptsz);                                                                         \
		return submit_batch(SIM_PTSZ(stream), count, paramArray, flags);                                \
	}
BATCH(cuStreamBatchMemOp)
BATCH(cuStreamBatchMemOp_v2)
