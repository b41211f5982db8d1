// Tracks stream captures. After the process's first capture, every launch checks whether its stream is being captured.
// In an evictable vGPU, this file counts the captures in progress, because memory cannot move during a capture.
#include <stdatomic.h>

#include "shim/evict.h"
#include "shim/turn.h"

// The address of this variable stands for the thread's own default stream in the records of captures.
static __thread SHIM_TLS char per_thread_stream;

static uint64_t make_stream_key(CUstream stream, bool per_thread)
{
	if (stream == CU_STREAM_PER_THREAD || (per_thread && !stream))
		return (uintptr_t)&per_thread_stream;
	return (uintptr_t)stream;
}

static void note_begin(CUstream stream, bool per_thread)
{
	const struct shim_record record = {.type = SHIM_CAPTURE, .key = make_stream_key(stream, per_thread)};

	if (shim_record_put(&record) == 0)
		atomic_fetch_add(&shim_captures, 1);
}

// Notes that a capture has ended. Only streams on which a capture began are counted, not those that joined it later.
static void note_end(CUstream stream, bool per_thread)
{
	struct shim_record record;

	if (shim_record_remove(SHIM_CAPTURE, make_stream_key(stream, per_thread), &record))
		atomic_fetch_sub(&shim_captures, 1);
}

#define BEGIN(abi, per_thread, parameters, ...)               \
	SHIM_EXPORT CUresult CUDAAPI abi parameters           \
	{                                                     \
		CUresult result;                              \
		shim_turns.captures = true;                   \
		result = REAL(abi)(__VA_ARGS__);              \
		if (result == CUDA_SUCCESS && shim_evictable) \
			note_begin(stream, per_thread);       \
		return result;                                \
	}
BEGIN(cuStreamBeginCapture, false, (CUstream stream), stream)
BEGIN(cuStreamBeginCapture_ptsz, true, (CUstream stream), stream)
BEGIN(cuStreamBeginCapture_v2, false, (CUstream stream, CUstreamCaptureMode mode), stream, mode)
BEGIN(cuStreamBeginCapture_v2_ptsz, true, (CUstream stream, CUstreamCaptureMode mode), stream, mode)

#define BEGIN_TO_GRAPH(abi, per_thread)                                                                       \
	BEGIN(abi, per_thread,                                                                                \
	      (CUstream stream, CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges, \
	       size_t count, CUstreamCaptureMode mode),                                                       \
	      stream, graph, dependencies, edges, count, mode)
BEGIN_TO_GRAPH(cuStreamBeginCaptureToGraph, false)
BEGIN_TO_GRAPH(cuStreamBeginCaptureToGraph_ptsz, true)

static bool is_capturing(CUstream stream, bool per_thread)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	return (per_thread ? REAL(cuStreamIsCapturing_ptsz)(stream, &status)
			   : REAL(cuStreamIsCapturing)(stream, &status)) == CUDA_SUCCESS &&
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// cuStreamEndCapture() may end an invalidated capture although it returns an error. So this code asks the driver
// whether the stream is still being captured.
#define END(abi, per_thread)                                              \
	SHIM_EXPORT CUresult CUDAAPI abi(CUstream stream, CUgraph *graph) \
	{                                                                 \
		CUresult result = REAL(abi)(stream, graph);               \
		if (shim_evictable && !is_capturing(stream, per_thread))  \
			note_end(stream, per_thread);                     \
		return result;                                            \
	}
END(cuStreamEndCapture, false)
END(cuStreamEndCapture_ptsz, true)

#define DESTROY(abi)                                          \
	SHIM_EXPORT CUresult CUDAAPI abi(CUstream stream)     \
	{                                                     \
		CUresult result = REAL(abi)(stream);          \
		if (result == CUDA_SUCCESS && shim_evictable) \
			note_end(stream, false);              \
		return result;                                \
	}
DESTROY(cuStreamDestroy)
DESTROY(cuStreamDestroy_v2)
