// Implements the functions for queries of streams, events, callbacks and capture. Compiled twice, for the legacy and
// the per-thread default stream.
#include "runtime.h"

cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	RT_CALL(RT_PTSZ(cuEventRecord)(event, stream));
}

cudaError_t CUDARTAPI cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
	RT_CALL(RT_PTSZ(cuEventRecordWithFlags)(event, stream, flags));
}

cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
	RT_CALL(RT_PTSZ(cuStreamWaitEvent)(stream, event, flags));
}

cudaError_t CUDARTAPI cudaStreamQuery(cudaStream_t stream)
{
	RT_CALL(RT_PTSZ(cuStreamQuery)(stream));
}

cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t stream)
{
	RT_CALL(RT_PTSZ(cuStreamSynchronize)(stream));
}

cudaError_t CUDARTAPI cudaStreamGetPriority(cudaStream_t hStream, int *priority)
{
	RT_CALL(RT_PTSZ(cuStreamGetPriority)(hStream, priority));
}

cudaError_t CUDARTAPI cudaStreamGetFlags(cudaStream_t hStream, unsigned int *flags)
{
	RT_CALL(RT_PTSZ(cuStreamGetFlags)(hStream, flags));
}

cudaError_t CUDARTAPI cudaStreamGetId(cudaStream_t hStream, unsigned long long *streamId)
{
	RT_CALL(RT_PTSZ(cuStreamGetId)(hStream, streamId));
}

static cudaError_t get_stream_device(cudaStream_t stream, int *ret_ordinal)
{
	CUdevice handle;

	if (!ret_ordinal)
		return cudaErrorInvalidValue;
	RT_TRY(RT_PTSZ(cuStreamGetDevice)(stream, &handle));
	*ret_ordinal = rt_device_ordinal(handle);
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamGetDevice(cudaStream_t hStream, int *device)
{
	RT_CALL(get_stream_device(hStream, device));
}

_Static_assert(sizeof(cudaLaunchAttributeValue) == sizeof(CUlaunchAttributeValue), "values are passed unchanged");

cudaError_t CUDARTAPI cudaStreamCopyAttributes(cudaStream_t dst, cudaStream_t src)
{
	RT_CALL(RT_PTSZ(cuStreamCopyAttributes)(dst, src));
}

cudaError_t CUDARTAPI cudaStreamGetAttribute(cudaStream_t hStream, cudaLaunchAttributeID attr,
					     cudaLaunchAttributeValue *value_out)
{
	RT_CALL(RT_PTSZ(cuStreamGetAttribute)(hStream, (CUlaunchAttributeID)attr, (CUlaunchAttributeValue *)value_out));
}

cudaError_t CUDARTAPI cudaStreamSetAttribute(cudaStream_t hStream, cudaLaunchAttributeID attr,
					     const cudaLaunchAttributeValue *value)
{
	RT_CALL(RT_PTSZ(cuStreamSetAttribute)(hStream, (CUlaunchAttributeID)attr,
					      (const CUlaunchAttributeValue *)value));
}

cudaError_t CUDARTAPI cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *userData,
					    unsigned int flags)
{
	RT_CALL(RT_PTSZ(cuStreamAddCallback)(stream, (CUstreamCallback)callback, userData, flags));
}

cudaError_t CUDARTAPI cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
	RT_CALL(RT_PTSZ(cuStreamBeginCapture_v2)(stream, (CUstreamCaptureMode)mode));
}

cudaError_t CUDARTAPI cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
						    const cudaGraphNode_t *dependencies,
						    const cudaGraphEdgeData *dependencyData, size_t numDependencies,
						    enum cudaStreamCaptureMode mode)
{
	RT_CALL(RT_PTSZ(cuStreamBeginCaptureToGraph)(stream, graph, dependencies,
						     (const CUgraphEdgeData *)dependencyData, numDependencies,
						     (CUstreamCaptureMode)mode));
}

cudaError_t CUDARTAPI cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph)
{
	RT_CALL(RT_PTSZ(cuStreamEndCapture)(stream, pGraph));
}

cudaError_t CUDARTAPI cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus)
{
	RT_CALL(RT_PTSZ(cuStreamIsCapturing)(stream, (CUstreamCaptureStatus *)pCaptureStatus));
}

cudaError_t CUDARTAPI cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
					       unsigned long long *id_out, cudaGraph_t *graph_out,
					       const cudaGraphNode_t **dependencies_out,
					       const cudaGraphEdgeData **edgeData_out, size_t *numDependencies_out)
{
	RT_CALL(RT_PTSZ(cuStreamGetCaptureInfo_v3)(stream, (CUstreamCaptureStatus *)captureStatus_out,
						   (cuuint64_t *)id_out, graph_out, dependencies_out,
						   (const CUgraphEdgeData **)edgeData_out, numDependencies_out));
}

cudaError_t CUDARTAPI cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *dependencies,
							  const cudaGraphEdgeData *dependencyData,
							  size_t numDependencies, unsigned int flags)
{
	RT_CALL(RT_PTSZ(cuStreamUpdateCaptureDependencies_v2)(
		stream, dependencies, (const CUgraphEdgeData *)dependencyData, numDependencies, flags));
}
