// What calls on a stream or an event do while streams capture (capture.c, capture_rules.c). Any thread.
#pragma once

#include "sim.h"

// Adds an operation to the graph of a capturing stream. Consumes it, also on failure.
CUresult sim_capture_op(struct sim_stream *stream, struct sim_op *op);
// Invalidates the captures and returns CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED if the call is unsafe while a thread
// captures (cuMemAlloc, cuEventQuery, …). Otherwise returns success.
CUresult sim_capture_check_unsafe(void);
// Returns the error of a call that a capturing stream does not allow (synchronize, query, …), or success. For the
// legacy stream all streams of its context count.
CUresult sim_capture_check_stream(struct sim_stream *stream);
// Invalidates the captures of all streams of a context (`green` not NULL: of that green context), and returns an error;
// or success if none captures.
CUresult sim_capture_check_context(const struct sim_context *context, const struct sim_green *green);
// For calls that query an event which was recorded in a capture: invalidates the capture and returns
// CUDA_ERROR_CAPTURED_EVENT.
CUresult sim_capture_reject_event(struct sim_event *event);
// Adds a node for a stream-ordered allocation of a capturing stream. `props` NULL: memory of the stream's device.
CUresult sim_capture_alloc(struct sim_stream *stream, size_t size, const CUmemPoolProps *props,
			   CUdeviceptr *ret_address);
CUresult sim_capture_free(struct sim_stream *stream, CUdeviceptr address);
// Invalidates the capture of a stream that is destroyed.
void sim_capture_abandon(struct sim_stream *stream);
// cuStreamWaitEvent on an event that was recorded in a capture (event->capture is set): `stream` joins the capture.
CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event, unsigned flags);
