// Operations on a device that shares its time (`slice` in the configuration). When an operation is submitted, pieces of
// work are added to the channel of its stream (region_time.h), in the order of the stream. So the device serves them
// even while this process does not run. The process performs the operation's effect on memory, and wakes waiting
// threads. Without `slice` this file is not used.
#pragma once

#include "region_time.h"
#include "stream.h"

enum { SIM_PIECES_MOST = TIME_DEPTH / 2 }; // pieces of one operation

// During a graph's launch: the piece of the next node.
struct sim_time_cursor {
	struct sim_stream *stream;
	uint64_t next, end_ns;
	bool gathers; // the nodes have no pieces of their own: gathered_ns is the sum of the time that they need
	uint64_t gathered_ns;
};

// Writes at most `capacity` of the pieces of work of the host for which a stream waits. Returns their number.
unsigned sim_time_host_piece(const struct sim_op *op, struct region_piece *ret_pieces, unsigned capacity);

// With context->lock held: returns whether the operation's pieces fit the stream's queue.
bool sim_time_has_room(const struct sim_stream *stream, const struct sim_op *op);
// Adds the operation's pieces to the channel. With context->lock held. CUDA_ERROR_OUT_OF_MEMORY: no channel is free.
CUresult sim_time_append(struct sim_stream *stream, struct sim_op *op);
// Lets the operation begin. ready_ns: when the last of the operations ended for which it waited.
void sim_time_ready(struct sim_op *op, uint64_t ready_ns);
// Runs an operation when the device serves its piece of work, and returns when the piece has ended.
CUresult sim_time_run(struct sim_op *op);
// Runs a node of a graph when the device serves its piece of work, and returns when the piece has ended.
CUresult sim_time_run_node(struct sim_op *op, struct sim_time_cursor *cursor);
// A conditional node has one piece of work for all of its bodies.
struct sim_time_cursor sim_time_begin_bodies(struct sim_context *context, struct sim_time_cursor *cursor);
void sim_time_end_bodies(struct sim_context *context, struct sim_time_cursor *cursor,
			 const struct sim_time_cursor *bodies);
// Ends a graph's launch, which has run or was cancelled: removes the remaining pieces.
void sim_time_end_graph(struct sim_op *op, struct sim_time_cursor *cursor);
// Removes the pieces of an operation that is not run.
void sim_time_skip(struct sim_op *op);
// With context->lock held, when the operation has ended: frees its part of the queue.
void sim_time_end(struct sim_stream *stream, struct sim_op *op);
