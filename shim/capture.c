// Captures: from the first one on, every launch asks whether it is captured.
#include <stdatomic.h>

#include "shim/turn.h"

#define BEGIN(abi, parameters, ...)                                                                \
	SHIM_EXPORT CUresult CUDAAPI abi parameters                                                \
	{                                                                                          \
		shim_turn_captures = true;                                                         \
		return REAL(abi)(__VA_ARGS__);                                                     \
	}
BEGIN(cuStreamBeginCapture, (CUstream stream), stream)
BEGIN(cuStreamBeginCapture_ptsz, (CUstream stream), stream)
BEGIN(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode), stream, mode)
BEGIN(cuStreamBeginCapture_v2_ptsz, (CUstream stream, CUstreamCaptureMode mode), stream, mode)

#define BEGIN_TO_GRAPH(abi)                                                                        \
	BEGIN(abi,                                                                                 \
	      (CUstream stream, CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges, \
	       size_t count, CUstreamCaptureMode mode),                                            \
	      stream, graph, dependencies, edges, count, mode)
BEGIN_TO_GRAPH(cuStreamBeginCaptureToGraph)
BEGIN_TO_GRAPH(cuStreamBeginCaptureToGraph_ptsz)
