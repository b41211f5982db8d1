// What calls on a stream or an event do while streams capture (capture.c, capture_rules.c). Any thread.
#pragma once

#include "sim.h"

// Adds an operation to the graph of a capturing stream. Consumes it, also on failure.
CUresult sim_capture_op(struct sim_stream *stream, struct sim_op *op);
// For calls that are unsafe while a thread captures (cuMemAlloc, cuEventQuery, …): invalidates the capture and returns
// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; or success.
CUresult sim_capture_check_unsafe(void);
// For calls that a capturing stream does not allow (synchronize, query, …): returns their error, or success. For the
// legacy stream all streams of its context count.
CUresult sim_capture_check_stream(struct sim_stream *stream);
// For calls about all streams of a context (`green` not NULL: of that green context): invalidates their captures and
// returns an error; or success.
CUresult sim_capture_check_context(const struct sim_context *context, const struct sim_green *green);
// For calls that ask about an event recorded in a capture: invalidates the capture and returns
// CUDA_ERROR_CAPTURED_EVENT.
CUresult sim_capture_reject_event(struct sim_event *event);
// Makes nodes of the stream-ordered allocations of a capturing stream. `props` NULL: on the stream's device.
CUresult sim_capture_alloc(struct sim_stream *stream, size_t size, const CUmemPoolProps *props,
			   CUdeviceptr *ret_address);
CUresult sim_capture_free(struct sim_stream *stream, CUdeviceptr address);
// Invalidates the capture of a stream that is destroyed.
void sim_capture_abandon(struct sim_stream *stream);
// cuStreamWaitEvent for an event recorded in a capture (event->capture is set): `stream` joins the capture.
CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event, unsigned flags);
