// Runs operations on a device that shares its time between contexts (`slice` in the configuration; without it this file
// is not used). When an operation is submitted, its pieces of work are added to the channel of its stream
// (region_time.h). The device serves the pieces in this order, even while this process does not run. The process itself
// changes the memory, and wakes waiting threads.
#pragma once

#include "region_time.h"
#include "stream.h"

enum { SIM_PIECES_MOST = TIME_DEPTH / 2 }; // an operation has at most this many pieces of work

// How far the timing of a graph's launch has come: `next` is the number of the piece of work that the next node gets.
struct sim_time_cursor {
	struct sim_stream *stream;
	uint64_t next, end_ns;
	bool gathers; // the graph has one piece of work for all nodes; gathered_ns is the time that they need
	uint64_t gathered_ns;
};

// Describes the only piece of work of an operation that runs on the host. Later work of the stream waits for that
// piece. Writes nothing if `capacity` is 0. Returns 1, the number of pieces.
unsigned sim_time_host_piece(const struct sim_op *op, struct region_piece *ret_pieces, unsigned capacity);

// Returns whether the channel has room for the operation's pieces. Call it with context->lock held.
bool sim_time_has_room(const struct sim_stream *stream, const struct sim_op *op);
// Adds the operation's pieces of work to the channel. Call it with context->lock held. CUDA_ERROR_OUT_OF_MEMORY: no
// channel is free.
CUresult sim_time_append(struct sim_stream *stream, struct sim_op *op);
// Lets the operation begin. ready_ns: end of the latest operation that it waited for.
void sim_time_ready(struct sim_op *op, uint64_t ready_ns);
// Runs an operation in the time that the device gives its piece of work. Returns when the piece has ended.
CUresult sim_time_run(struct sim_op *op);
// Runs a node of a graph in the time that the device gives its piece of work. Returns when the piece has ended.
CUresult sim_time_run_node(struct sim_op *op, struct sim_time_cursor *cursor);
// The following two functions begin and end the bodies of a conditional node, which has one piece of work for all
// bodies.
struct sim_time_cursor sim_time_begin_bodies(struct sim_context *context, struct sim_time_cursor *cursor);
void sim_time_end_bodies(struct sim_context *context, struct sim_time_cursor *cursor,
			 const struct sim_time_cursor *bodies);
// Ends the launch of a graph, which has run or was cancelled. Removes its remaining pieces of work.
void sim_time_end_graph(struct sim_op *op, struct sim_time_cursor *cursor);
// Removes the pieces of work of an operation that will not run.
void sim_time_skip(struct sim_op *op);
// Frees the room that an ended operation had in the channel. Call it with context->lock held.
void sim_time_end(struct sim_stream *stream, struct sim_op *op);
