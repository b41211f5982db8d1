// Declares the state of captures for capture*.c. One lock guards all captures. It is taken before every other lock.
#pragma once

#include "graph.h"

// One capture: the graph that it fills, and the streams that take part.
struct sim_capture {
	unsigned long long id;
	struct CUgraph_st *graph;
	CUstreamCaptureMode mode;
	pthread_t thread; // the thread that began the capture
	bool invalidated;
	bool into_given; // the program passed the graph (cuStreamBeginCaptureToGraph)
	struct sim_captured *origin, *streams;
	struct sim_recorded *records;
	struct sim_capture *next; // list of all captures of the process
};

// A capturing stream. stream->capture points to this struct. `tips` has the nodes on which the stream's next node
// depends.
struct sim_captured {
	struct sim_capture *capture;
	struct sim_stream *stream; // NULL: destroyed
	struct sim_edges tips;
	// True: cuStreamUpdateCaptureDependencies has set `tips`. Then the capture may end even if its first stream
	// does not wait for the nodes in `tips`.
	bool placed;
	CUgraphNode *listed; // arrays that cuStreamGetCaptureInfo has returned
	CUgraphEdgeData *listed_data;
	struct sim_captured *next;
};

// An event that was recorded in a capture. event->capture points to this struct. `tips` has the nodes on which a stream
// depends after it has waited for the event.
struct sim_recorded {
	struct sim_capture *capture;
	struct sim_event *event;
	struct sim_edges tips;
	struct sim_recorded *next;
};

extern struct sim_capture *sim_captures; // all captures of the process, under the lock
extern _Atomic unsigned sim_capture_count;
void sim_capture_lock(void);
void sim_capture_unlock(void);
CUresult sim_capture_begin(struct sim_stream *stream, CUstreamCaptureMode mode, struct CUgraph_st *graph,
			   const CUgraphNode *dependencies, const CUgraphEdgeData *data, size_t count);
// Ends the capture. ret_graph may be NULL if the program passed the graph to fill (cuStreamBeginCaptureToGraph).
CUresult sim_capture_end(struct sim_stream *stream, CUgraph *ret_graph);
