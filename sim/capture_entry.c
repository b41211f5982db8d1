// Implements the driver's functions for stream capture.
#include <stdlib.h>

#include "capture_state.h"
#include "entry.h"
#include "stream.h"

static CUresult begin_capture(CUstream handle, CUstreamCaptureMode mode)
{
	struct sim_stream *stream;

	SIM_TRY(sim_stream_get(handle, &stream));
	return sim_capture_begin(stream, mode, NULL, NULL, NULL, 0);
}

static CUresult begin_capture_to_graph(CUstream handle, CUgraph graph, const CUgraphNode *dependencies,
				       const CUgraphEdgeData *data, size_t count, CUstreamCaptureMode mode)
{
	struct sim_stream *stream;

	SIM_TRY(sim_graph_get(graph));
	if (count && !dependencies)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		SIM_TRY(sim_node_get(dependencies[i]));
		if (dependencies[i]->graph != graph)
			return CUDA_ERROR_INVALID_VALUE;
	}
	SIM_TRY(sim_stream_get(handle, &stream));
	return sim_capture_begin(stream, mode, graph, dependencies, data, count);
}

static CUresult end_capture(CUstream handle, CUgraph *ret_graph)
{
	struct sim_stream *stream;

	if (ret_graph)
		*ret_graph = NULL;
	SIM_TRY(sim_stream_get(handle, &stream));
	return sim_capture_end(stream, ret_graph);
}

static CUresult get_status(struct sim_stream *stream, CUstreamCaptureStatus *ret_status,
			   struct sim_captured **ret_captured)
{
	struct sim_captured *captured = stream->capture;

	*ret_status = !captured			       ? CU_STREAM_CAPTURE_STATUS_NONE
		      : captured->capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
						       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
	*ret_captured = captured;
	// While a blocking stream of the context captures, a query of the legacy stream fails.
	return stream->legacy && stream->context->captures ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

static CUresult query_status(CUstream handle, CUstreamCaptureStatus *ret_status)
{
	struct sim_captured *captured;
	struct sim_stream *stream;

	if (!ret_status)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_stream_get(handle, &stream));
	sim_capture_lock();
	CUresult result = get_status(stream, ret_status, &captured);
	sim_capture_unlock();
	return result;
}

struct info {
	CUstreamCaptureStatus *status;
	cuuint64_t *id;
	CUgraph *graph;
	const CUgraphNode **dependencies;
	const CUgraphEdgeData **data;
	size_t *count;
};

// Returns the dependencies in arrays that belong to the stream. They are valid until the next query of the stream.
static CUresult fill_dependencies(const struct info *info, struct sim_captured *captured)
{
	size_t count = captured->tips.count;
	CUgraphNode *nodes = realloc(captured->listed, (count + 1) * sizeof *nodes);
	if (!nodes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	captured->listed = nodes;
	CUgraphEdgeData *data = realloc(captured->listed_data, (count + 1) * sizeof *data);
	if (!data)
		return CUDA_ERROR_OUT_OF_MEMORY;
	captured->listed_data = data;
	bool plain = true;
	for (size_t i = 0; i < count; i++) {
		nodes[i] = captured->tips.items[i].node;
		data[i] = captured->tips.items[i].data;
		plain &= !data[i].from_port && !data[i].type;
	}
	if (info->dependencies && !info->data && !plain)
		return CUDA_ERROR_LOSSY_QUERY;
	if (info->dependencies)
		*info->dependencies = nodes;
	if (info->data)
		*info->data = data;
	if (info->count)
		*info->count = count;
	return CUDA_SUCCESS;
}

static CUresult get_info(CUstream handle, const struct info *info)
{
	struct sim_captured *captured;
	struct sim_stream *stream;

	if (!info->status)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_stream_get(handle, &stream));
	sim_capture_lock();
	CUresult result = get_status(stream, info->status, &captured);
	if (result == CUDA_SUCCESS && *info->status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
		if (info->id)
			*info->id = captured->capture->id;
		if (info->graph)
			*info->graph = captured->capture->graph;
		result = fill_dependencies(info, captured);
	}
	sim_capture_unlock();
	return result;
}

static CUresult change_dependencies(CUstream handle, const CUgraphNode *nodes, const CUgraphEdgeData *data,
				    size_t count, unsigned flags)
{
	struct sim_stream *stream;
	CUresult result = CUDA_SUCCESS;

	if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (count && !nodes))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_stream_get(handle, &stream));
	sim_capture_lock();
	struct sim_captured *captured = stream->capture;
	if (!captured)
		result = CUDA_ERROR_ILLEGAL_STATE;
	else if (captured->capture->invalidated)
		result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		if (sim_node_get(nodes[i]) != CUDA_SUCCESS || nodes[i]->graph != captured->capture->graph)
			result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS && flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
		captured->tips.count = 0;
		captured->placed = true;
	}
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		if (!sim_edges_find(&captured->tips, nodes[i]))
			result = sim_edges_add(&captured->tips, nodes[i], data ? &data[i] : NULL);
	sim_capture_unlock();
	return result;
}

// Each of the following functions exists for the legacy and for the per-thread default stream.
CUresult cuStreamBeginCapture(CUstream hStream)
{
	SIM_ENTER(cuStreamBeginCapture);
	return begin_capture(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamBeginCapture_ptsz(CUstream hStream)
{
	SIM_ENTER(cuStreamBeginCapture_ptsz);
	return begin_capture(SIM_PTSZ(hStream), CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
	SIM_ENTER(cuStreamBeginCapture_v2);
	return begin_capture(hStream, mode);
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream hStream, CUstreamCaptureMode mode)
{
	SIM_ENTER(cuStreamBeginCapture_v2_ptsz);
	return begin_capture(SIM_PTSZ(hStream), mode);
}

CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
				     const CUgraphEdgeData *dependencyData, size_t numDependencies,
				     CUstreamCaptureMode mode)
{
	SIM_ENTER(cuStreamBeginCaptureToGraph);
	return begin_capture_to_graph(hStream, hGraph, dependencies, dependencyData, numDependencies, mode);
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
					  const CUgraphEdgeData *dependencyData, size_t numDependencies,
					  CUstreamCaptureMode mode)
{
	SIM_ENTER(cuStreamBeginCaptureToGraph_ptsz);
	return begin_capture_to_graph(SIM_PTSZ(hStream), hGraph, dependencies, dependencyData, numDependencies, mode);
}

CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
	SIM_ENTER(cuStreamEndCapture);
	return end_capture(hStream, phGraph);
}

CUresult cuStreamEndCapture_ptsz(CUstream hStream, CUgraph *phGraph)
{
	SIM_ENTER(cuStreamEndCapture_ptsz);
	return end_capture(SIM_PTSZ(hStream), phGraph);
}

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
	SIM_ENTER(cuStreamIsCapturing);
	return query_status(hStream, captureStatus);
}

CUresult cuStreamIsCapturing_ptsz(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
	SIM_ENTER(cuStreamIsCapturing_ptsz);
	return query_status(SIM_PTSZ(hStream), captureStatus);
}

CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out)
{
	SIM_ENTER(cuStreamGetCaptureInfo);
	return get_info(hStream, &(struct info){.status = captureStatus_out, .id = id_out});
}

CUresult cuStreamGetCaptureInfo_ptsz(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out)
{
	SIM_ENTER(cuStreamGetCaptureInfo_ptsz);
	return get_info(SIM_PTSZ(hStream), &(struct info){.status = captureStatus_out, .id = id_out});
}

CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
				   CUgraph *graph_out, const CUgraphNode **dependencies_out,
				   size_t *numDependencies_out)
{
	SIM_ENTER(cuStreamGetCaptureInfo_v2);
	return get_info(hStream, &(struct info){captureStatus_out, id_out, graph_out, dependencies_out, NULL,
						numDependencies_out});
}

CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
					CUgraph *graph_out, const CUgraphNode **dependencies_out,
					size_t *numDependencies_out)
{
	SIM_ENTER(cuStreamGetCaptureInfo_v2_ptsz);
	return get_info(SIM_PTSZ(hStream), &(struct info){captureStatus_out, id_out, graph_out, dependencies_out, NULL,
							  numDependencies_out});
}

CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
				   CUgraph *graph_out, const CUgraphNode **dependencies_out,
				   const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out)
{
	SIM_ENTER(cuStreamGetCaptureInfo_v3);
	return get_info(hStream, &(struct info){captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out,
						numDependencies_out});
}

CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
					CUgraph *graph_out, const CUgraphNode **dependencies_out,
					const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out)
{
	SIM_ENTER(cuStreamGetCaptureInfo_v3_ptsz);
	return get_info(SIM_PTSZ(hStream), &(struct info){captureStatus_out, id_out, graph_out, dependencies_out,
							  edgeData_out, numDependencies_out});
}

CUresult cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies, size_t numDependencies,
					   unsigned int flags)
{
	SIM_ENTER(cuStreamUpdateCaptureDependencies);
	return change_dependencies(hStream, dependencies, NULL, numDependencies, flags);
}

CUresult cuStreamUpdateCaptureDependencies_ptsz(CUstream hStream, CUgraphNode *dependencies, size_t numDependencies,
						unsigned int flags)
{
	SIM_ENTER(cuStreamUpdateCaptureDependencies_ptsz);
	return change_dependencies(SIM_PTSZ(hStream), dependencies, NULL, numDependencies, flags);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
					      const CUgraphEdgeData *dependencyData, size_t numDependencies,
					      unsigned int flags)
{
	SIM_ENTER(cuStreamUpdateCaptureDependencies_v2);
	return change_dependencies(hStream, dependencies, dependencyData, numDependencies, flags);
}

CUresult cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream hStream, CUgraphNode *dependencies,
						   const CUgraphEdgeData *dependencyData, size_t numDependencies,
						   unsigned int flags)
{
	SIM_ENTER(cuStreamUpdateCaptureDependencies_v2_ptsz);
	return change_dependencies(SIM_PTSZ(hStream), dependencies, dependencyData, numDependencies, flags);
}
