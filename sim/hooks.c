// Weak definitions of what modules, launches, capture, checkpoint and faults implement:
// without those files nothing captures, nothing is injected, nobody asks.
#include "sim.h"

#define WEAK __attribute__((weak))

WEAK CUresult sim_fault_enter(enum vg_entry entry) { return CUDA_SUCCESS; }
WEAK CUresult sim_checkpoint_enter(enum vg_entry entry) { return CUDA_SUCCESS; }
WEAK CUresult sim_fault_start(void) { return CUDA_SUCCESS; }
WEAK void sim_service_start(void) {}
WEAK uint64_t sim_fault_memory(void) { return UINT64_MAX; }
WEAK void sim_fault_delay(struct sim_device *device) {}
WEAK void sim_exec_context_finish(struct sim_context *context) {}
WEAK CUresult sim_exec_context_limit(struct sim_context *context, CUlimit limit, size_t value) { return CUDA_SUCCESS; }
WEAK bool sim_graph_memory_live(CUdeviceptr address) { return true; }
WEAK CUresult sim_graph_memory_give(CUdeviceptr address) { return CUDA_ERROR_INVALID_VALUE; }
WEAK void sim_exec_synchronized(struct sim_context *context) {}
WEAK CUresult sim_capture_op(struct sim_stream *stream, struct sim_op *op)
{
	sim_op_free(op);
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}
WEAK CUresult sim_capture_unsafe(void) { return CUDA_SUCCESS; }
WEAK CUresult sim_capture_forbidden(struct sim_stream *stream) { return CUDA_SUCCESS; }
WEAK CUresult sim_capture_context_forbidden(const struct sim_context *context, const struct sim_green *green)
{
	return CUDA_SUCCESS;
}
WEAK CUresult sim_capture_event_forbidden(struct sim_event *event) { return CUDA_ERROR_CAPTURED_EVENT; }
WEAK CUresult sim_capture_alloc(struct sim_stream *stream, size_t size, const CUmemPoolProps *props,
				CUdeviceptr *ret_address)
{
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}
WEAK CUresult sim_capture_free(struct sim_stream *stream, CUdeviceptr address)
{
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}
WEAK void sim_capture_abandon(struct sim_stream *stream) {}
WEAK CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event, unsigned flags)
{
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}
