// Operations on a device that shares its time (`slice` in the configuration). Each has pieces of work in the channel of
// its stream (region_time.h), in the order of the stream, from the call that submits it. So the device serves them
// whether or not this process runs. The process does what the operation does to memory, and wakes waiting threads.
//
// Without `slice` none of this is called.
#pragma once

#include "region_time.h"
#include "stream.h"

enum { SIM_PIECES_MOST = TIME_DEPTH / 2 }; // of one operation

// During a graph's launch: the piece of the next node.
struct sim_time_cursor {
	struct sim_stream *stream;
	uint64_t next, end_ns;
	bool gathers; // the nodes have no pieces of their own: the time that they need is added to gathered_ns
	uint64_t gathered_ns;
};

// Writes at most `capacity` of the pieces of work of the host that a stream waits for, and returns their number.
unsigned sim_time_host_piece(const struct sim_op *op, struct region_piece *ret_pieces, unsigned capacity);

// With context->lock held: returns whether the operation's pieces fit the stream's queue.
bool sim_time_has_room(const struct sim_stream *stream, const struct sim_op *op);
// With context->lock held. CUDA_ERROR_OUT_OF_MEMORY: no channel.
CUresult sim_time_append(struct sim_stream *stream, struct sim_op *op);
// Lets the operation begin: the last of those that it waits for ended at ready_ns.
void sim_time_ready(struct sim_op *op, uint64_t ready_ns);
// Runs an operation when the device serves its piece of work, and returns when that has ended.
CUresult sim_time_run(struct sim_op *op);
// Likewise for a node of a graph.
CUresult sim_time_run_node(struct sim_op *op, struct sim_time_cursor *cursor);
// A conditional node has one piece of work for all of its bodies.
struct sim_time_cursor sim_time_begin_bodies(struct sim_context *context, struct sim_time_cursor *cursor);
void sim_time_end_bodies(struct sim_context *context, struct sim_time_cursor *cursor,
			 const struct sim_time_cursor *bodies);
// Ends a graph's launch, which has run or was cancelled: removes the pieces that are left.
void sim_time_end_graph(struct sim_op *op, struct sim_time_cursor *cursor);
// Removes the pieces of an operation that is not run.
void sim_time_skip(struct sim_op *op);
// With context->lock held, when the operation has ended: frees its part of the queue.
void sim_time_end(struct sim_stream *stream, struct sim_op *op);
