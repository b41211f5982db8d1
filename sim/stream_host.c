// Implements host functions and callbacks in streams.
#include "capture.h"
#include "entry.h"
#include "memory.h"
#include "op_time.h"
#include "process.h"

static CUresult run_host_function(struct sim_op *op_)
{
	struct sim_host_op *op = (struct sim_host_op *)op_;
	CUresult error = sim_failure();

	atomic_fetch_add(&sim_gate, SIM_GATE_CALLBACK);
	sim_in_callback = true;
	if (op->callback) // a callback is called after errors, too
		op->callback(sim_stream_handle(op_->stream), error, op->data);
	else if (error == CUDA_SUCCESS)
		op->function(op->data);
	sim_in_callback = false;
	atomic_fetch_sub(&sim_gate, SIM_GATE_CALLBACK);
	return CUDA_SUCCESS;
}

const struct sim_op_class sim_host_class = {.name = "host function",
					    .size = sizeof(struct sim_host_op),
					    .run = run_host_function,
					    .pieces = sim_time_host_piece};

struct sim_op *sim_host_op_new(struct sim_context *context, CUhostFn function, void *data)
{
	struct sim_host_op *op = (struct sim_host_op *)sim_op_new(&sim_host_class, context);

	op->function = function;
	op->data = data;
	return &op->op;
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
	struct sim_stream *stream;

	SIM_ENTER(cuLaunchHostFunc);
	SIM_TRY(sim_stream_get(hStream, &stream));
	if (!fn)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_submit(stream, sim_host_op_new(stream->context, fn, userData));
}

CUresult CUDAAPI cuLaunchHostFunc_ptsz(CUstream hStream, CUhostFn fn, void *userData)
{
	SIM_ENTER(cuLaunchHostFunc_ptsz);
	return cuLaunchHostFunc(SIM_PTSZ(hStream), fn, userData);
}

CUresult CUDAAPI cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags)
{
	struct sim_stream *stream;

	SIM_ENTER(cuStreamAddCallback);
	SIM_TRY(sim_stream_get(hStream, &stream));
	if (!callback || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (atomic_load(&stream->capture))
		return sim_capture_check_stream(stream);
	struct sim_op *op = sim_host_op_new(stream->context, NULL, userData);
	((struct sim_host_op *)op)->callback = callback;
	op->always = true;
	return sim_submit(stream, op);
}

CUresult CUDAAPI cuStreamAddCallback_ptsz(CUstream hStream, CUstreamCallback callback, void *userData,
					  unsigned int flags)
{
	SIM_ENTER(cuStreamAddCallback_ptsz);
	return cuStreamAddCallback(SIM_PTSZ(hStream), callback, userData, flags);
}

CUresult CUDAAPI cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags)
{
	struct sim_stream *stream;
	struct sim_pointer pointer;

	SIM_ENTER(cuStreamAttachMemAsync);
	SIM_TRY(sim_capture_check_unsafe());
	SIM_TRY(sim_stream_get(hStream, &stream));
	if (!sim_pointer_find(dptr, &pointer) || !pointer.managed || (length && length != pointer.size) ||
	    (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS; // in the simulator the host and every device may use the memory at any time
}

CUresult CUDAAPI cuStreamAttachMemAsync_ptsz(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags)
{
	SIM_ENTER(cuStreamAttachMemAsync_ptsz);
	return cuStreamAttachMemAsync(SIM_PTSZ(hStream), dptr, length, flags);
}
