// Declares operations: the asynchronous work of streams and graphs (op.c). Any thread.
#pragma once

#include "sim.h"

struct ptx_space;
struct region_piece;

// A kind of operation. The struct of each kind begins with a struct sim_op. Operations can be cloned: a graph node has
// an operation as a template, and each executable graph runs a clone of it.
struct sim_op_class {
	const char *name;
	size_t size;
	// Runs the operation to its end on the calling thread: the stream's worker, or the thread of a graph's launch.
	// A result other than success becomes the sticky error.
	CUresult (*run)(struct sim_op *op);
	// Called for a new clone, which is a plain copy of the struct. Duplicates what the operation owns, or takes
	// references to it. May be NULL.
	CUresult (*clone)(struct sim_op *op);
	// Frees what the operation owns. May be NULL.
	void (*finish)(struct sim_op *op);
	// Lists the operation's pieces of work, at most `capacity`, for a device that shares its time (op_time.h).
	// Returns their number. NULL: the operation has one piece on the host, or none if it is instant and waits for
	// nothing.
	unsigned (*pieces)(const struct sim_op *op, struct region_piece *ret_pieces, unsigned capacity);
	bool runs_pieces; // `run` waits until the device has had time for the pieces; otherwise op_time.c waits
};

// Times of an operation on a device that shares its time.
struct sim_op_time {
	uint64_t first; // number of the operation's first piece of work in the stream's channel (device_time.h)
	uint64_t submitted_ns;
	uint64_t ready_ns; // end of the latest operation that this one waited for; 0: it waited for none
	uint64_t ended_ns; // when the operation ended; 0: not yet
};

struct sim_op {
	const struct sim_op_class *class;
	struct sim_op *next;	     // next operation in the stream's queue
	struct sim_stream *stream;   // NULL until submitted
	struct sim_context *context; // context whose memory the operation uses
	struct sim_mark *mark;	     // the mark (mark.h) that is finished when the operation ends
	struct sim_mark **waits;     // marks that must be done before the operation may run
	unsigned wait_count, wait_capacity;
	bool instant;  // the operation takes no device time; if the stream is idle, the submitting thread may run it
	bool always;   // the operation runs even after a failure, because it frees something in the host
	bool finished; // class->finish was called
	// The following members are for a device that shares its time.
	bool performed;		  // the operation's effect on memory is complete
	unsigned pieces;	  // number of the operation's pieces of work in the channel
	struct sim_op_time *time; // NULL before the operation is submitted
};

struct sim_op *sim_op_new(const struct sim_op_class *class, struct sim_context *context); // zeroed
struct sim_op *sim_op_clone(const struct sim_op *op); // Returns a copy without marks and stream
void sim_op_free(struct sim_op *op);		      // NULL: does nothing
// Makes the operation wait for a mark, and takes a reference to the mark. Ignores NULL and marks that are done. Call it
// only before the operation is submitted.
void sim_op_wait_for(struct sim_op *op, struct sim_mark *mark);
// Returns how kernels and copies of the operation's context access the device's memory.
const struct ptx_space *sim_op_space(const struct sim_op *op);
// Runs one operation of a graph on this thread: waits for its marks, runs it, finishes its mark. Does not free the
// operation. `cursor` says which piece of device time the operation uses; NULL unless contexts share the device's time
// (op_time.h).
CUresult sim_op_execute(struct sim_op *op, struct sim_time_cursor *cursor);
