// The state of captures, between capture*.c. One lock for all captures; it is taken before every other lock.
#pragma once

#include "graph.h"

// One capture: the graph that it fills, and the streams that take part.
struct sim_capture {
	unsigned long long id;
	struct CUgraph_st *graph;
	CUstreamCaptureMode mode;
	pthread_t thread; // that began it
	bool invalidated;
	bool into_given; // the graph is the program's (cuStreamBeginCaptureToGraph)
	struct sim_captured *origin, *streams;
	struct sim_recorded *records;
	struct sim_capture *next; // of all in the process
};

// A stream in a capture: what its next node depends on. stream->capture points to it.
struct sim_captured {
	struct sim_capture *capture;
	struct sim_stream *stream; // NULL: destroyed
	struct sim_edges tips;
	bool placed; // cuStreamUpdateCaptureDependencies has set the tips: they need not be joined at the end
	CUgraphNode *listed; // arrays that cuStreamGetCaptureInfo has returned
	CUgraphEdgeData *listed_data;
	struct sim_captured *next;
};

// An event's record in a capture. event->capture points to it.
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
