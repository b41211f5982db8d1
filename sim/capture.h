// Declares what calls on streams and events must do while streams are captured (capture.c, capture_rules.c). Any
// thread.
#pragma once

#include "sim.h"

// Adds an operation to the graph of a capturing stream. The graph then owns the operation, which is freed on failure.
CUresult sim_capture_op(struct sim_stream *stream, struct sim_op *op);
// Checks a call that is unsafe while a thread captures, such as cuMemAlloc or cuEventQuery. If a capture forbids the
// call, invalidates the captures and returns CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED.
CUresult sim_capture_check_unsafe(void);
// Checks a call that is not allowed on a capturing stream, such as cuStreamSynchronize. Returns an error if the stream
// captures. A call on the legacy stream fails if any stream of its context captures.
CUresult sim_capture_check_stream(struct sim_stream *stream);
// If a stream of the context captures, invalidates its capture and returns an error. With `green`, looks only at the
// streams of that green context; without it (NULL), at all streams but those of green contexts.
CUresult sim_capture_check_context(const struct sim_context *context, const struct sim_green *green);
// Call it when an event that was recorded in a capture is queried: invalidates the capture and returns
// CUDA_ERROR_CAPTURED_EVENT.
CUresult sim_capture_reject_event(struct sim_event *event);
// Adds an allocation node for a stream-ordered allocation on a capturing stream. If `props` is NULL, the memory is on
// the stream's device.
CUresult sim_capture_alloc(struct sim_stream *stream, size_t size, const CUmemPoolProps *props,
			   CUdeviceptr *ret_address);
CUresult sim_capture_free(struct sim_stream *stream, CUdeviceptr address);
// Invalidates the capture of a stream that is being destroyed.
void sim_capture_abandon(struct sim_stream *stream);
// Makes `stream` wait for an event that was recorded in a capture (event->capture is set). The stream joins the
// capture.
CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event, unsigned flags);
