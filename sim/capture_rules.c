// Decides which calls threads and streams must not make while a stream captures.
#include "capture.h"
#include "capture_state.h"
#include "entry.h"
#include "event.h"
#include "green.h"
#include "stream.h"

static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

CUresult sim_capture_check_unsafe(void)
{
	CUresult result = CUDA_SUCCESS;

	if (__builtin_expect(atomic_load_explicit(&sim_capture_count, memory_order_relaxed) == 0, 1) ||
	    thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_SUCCESS;
	sim_capture_lock();
	for (struct sim_capture *capture = sim_captures; capture; capture = capture->next) {
		CUstreamCaptureMode mode = capture->mode;
		bool mine = pthread_equal(capture->thread, pthread_self()) && mode != CU_STREAM_CAPTURE_MODE_RELAXED;
		bool any = mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
		if (mine || any) {
			capture->invalidated = true;
			result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	}
	sim_capture_unlock();
	return result;
}

CUresult sim_capture_check_stream(struct sim_stream *stream)
{
	CUresult result = CUDA_SUCCESS;

	if (__builtin_expect(atomic_load_explicit(&sim_capture_count, memory_order_relaxed) == 0, 1))
		return CUDA_SUCCESS;
	sim_capture_lock();
	struct sim_captured *captured = stream->capture;
	if (captured) {
		captured->capture->invalidated = true;
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	} else if (stream->legacy) {
		for (struct sim_capture *capture = sim_captures; capture; capture = capture->next) {
			for (const struct sim_captured *one = capture->streams; one; one = one->next) {
				if (!one->stream || one->stream->context != stream->context ||
				    (one->stream->flags & CU_STREAM_NON_BLOCKING))
					continue;
				capture->invalidated = true;
				result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
			}
		}
	}
	sim_capture_unlock();
	return result;
}

CUresult sim_capture_check_context(const struct sim_context *context, const struct sim_green *green)
{
	CUresult result = CUDA_SUCCESS;

	if (__builtin_expect(atomic_load_explicit(&sim_capture_count, memory_order_relaxed) == 0, 1))
		return CUDA_SUCCESS;
	sim_capture_lock();
	for (struct sim_capture *capture = sim_captures; capture; capture = capture->next) {
		for (const struct sim_captured *one = capture->streams; one; one = one->next) {
			if (!one->stream || sim_stream_green(one->stream) != green ||
			    !sim_stream_is_of(one->stream, context, green))
				continue;
			capture->invalidated = true;
			result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	}
	sim_capture_unlock();
	return result;
}

CUresult sim_capture_reject_event(struct sim_event *event)
{
	sim_capture_lock();
	struct sim_recorded *recorded = event->capture;
	if (recorded)
		recorded->capture->invalidated = true;
	sim_capture_unlock();
	return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	SIM_ENTER(cuThreadExchangeStreamCaptureMode);
	if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	CUstreamCaptureMode before = thread_mode;
	thread_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}
