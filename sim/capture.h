// Streams that capture. One lock for all captures; taken before every other lock.
#pragma once

#include "graph.h"

// A capture sequence: the graph it fills and the streams that take part.
struct sim_capture {
	unsigned long long id;
	struct CUgraph_st *graph;
	CUstreamCaptureMode mode;
	pthread_t thread; // that began it
	bool invalidated;
	bool into_given; // by cuStreamBeginCaptureToGraph
	struct sim_captured *origin, *streams;
	struct sim_recorded *records;
	struct sim_capture *next; // of all in the process
};

// A stream's part: what its next node depends on. stream->capture points here.
struct sim_captured {
	struct sim_capture *capture;
	struct sim_stream *stream; // NULL: destroyed
	struct sim_edges tips;
	bool placed; // the tips were set by cuStreamUpdateCaptureDependencies: nobody misses them
	CUgraphNode *listed; // what cuStreamGetCaptureInfo handed out
	CUgraphEdgeData *listed_data;
	struct sim_captured *next;
};

// An event's record within a capture. event->capture points here.
struct sim_recorded {
	struct sim_capture *capture;
	struct sim_event *event;
	struct sim_edges tips;
	struct sim_recorded *next;
};

extern struct sim_capture *sim_captures; // all of the process, under the lock
extern _Atomic unsigned sim_capture_count;
void sim_capture_lock(void);
void sim_capture_unlock(void);
CUresult sim_capture_begin(struct sim_stream *stream, CUstreamCaptureMode mode, struct CUgraph_st *graph,
			   const CUgraphNode *dependencies, const CUgraphEdgeData *data, size_t count);
// ret_graph may be NULL if the capture is into a given graph.
CUresult sim_capture_end(struct sim_stream *stream, CUgraph *ret_graph);
