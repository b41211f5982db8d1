// Operations: the asynchronous work of streams and graphs (op.c). Any thread.
#pragma once

#include "sim.h"

struct ptx_space;
struct region_piece;

// A kind of operation. The struct of each kind begins with a struct sim_op. So operations can be cloned: the nodes of a
// graph are operations that serve as templates.
struct sim_op_class {
	const char *name;
	size_t size;
	// Runs the operation to its end on the calling thread: the stream's worker, or the thread of a graph's launch.
	// A result other than success becomes the sticky error.
	CUresult (*run)(struct sim_op *op);
	// Called after a plain copy of the struct: duplicates or references what the operation owns. May be NULL.
	CUresult (*clone)(struct sim_op *op);
	// Frees what the operation owns. May be NULL.
	void (*finish)(struct sim_op *op);
	// Writes at most `capacity` of the operation's pieces of work, for a device that shares its time (op_time.h).
	// Returns their number. NULL: the operation has no pieces, unless it waits for something.
	unsigned (*pieces)(const struct sim_op *op, struct region_piece *ret_pieces, unsigned capacity);
	bool runs_pieces; // `run` itself waits for the pieces
};

// Times of an operation on a device that shares its time.
struct sim_op_time {
	uint64_t first; // sequence of the operation's first piece of work in the stream's channel
	uint64_t submitted_ns;
	uint64_t ready_ns; // when the last operation ended for which this one waited; 0: it waited for none
	uint64_t ended_ns; // when the operation ended; 0: not yet
};

struct sim_op {
	const struct sim_op_class *class;
	struct sim_op *next;	     // next operation in the stream's queue
	struct sim_stream *stream;   // NULL until submitted
	struct sim_context *context; // context whose memory the operation uses
	struct sim_mark *mark;	     // mark that is finished with the operation
	struct sim_mark **waits;     // marks that must be done before the operation runs
	unsigned wait_count, wait_capacity;
	bool instant;  // the operation takes no time: an idle stream may run it on the submitting thread
	bool always;   // the operation runs even after a failure, because it cleans up in the host
	bool finished; // class->finish was called
	// On a device that shares its time:
	bool performed;		  // the operation's effect on memory is complete
	unsigned pieces;	  // number of the operation's pieces of work in the stream's channel
	struct sim_op_time *time; // NULL before it is submitted
};

struct sim_op *sim_op_new(const struct sim_op_class *class, struct sim_context *context); // zeroed
struct sim_op *sim_op_clone(const struct sim_op *op); // Returns a copy without marks and stream
void sim_op_free(struct sim_op *op);		      // NULL: does nothing
// Makes the operation wait for a mark, and references that. Ignores NULL and marks that are done. Call it only before
// the operation is submitted.
void sim_op_wait_for(struct sim_op *op, struct sim_mark *mark);
// Returns the device's memory as kernels and copies of the context see it.
const struct ptx_space *sim_op_space(const struct sim_op *op);
// Runs one operation of a graph now: waits for its marks, runs it, finishes its mark. Does not free the operation.
// `cursor`: NULL unless the device shares its time.
CUresult sim_op_execute(struct sim_op *op, struct sim_time_cursor *cursor);
