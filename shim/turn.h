// Delays calls until their vGPU may launch on the device (turn/page.h has the protocol). In a vGPU, calls of the
// functions in turns.def go through a stub, which reads one word before it jumps to the driver. Any thread; no lock is
// held during a driver call that waits.
#pragma once
#include "shim/entries.h"
#include "shim/session.h"

struct vg_ledger;

enum shim_turn_index {
#define TURN(abi, class, stream, shape) SHIM_TURN_##abi,
#include "shim/turns.def"
#undef TURN
	SHIM_TURN_COUNT
};

// A row of turns.def.
struct shim_turn_row {
	void *below; // the driver's function
	unsigned short entry;
	unsigned char class;
	signed char stream, shape;
	bool is_per_thread; // without a stream, the call works in the thread's own default stream
};
// What the stubs and shim_turn_pass() read at each launch is in one cache line, with the commonest rows, because the
// driver's own code pushes most of the interposer out of the processor's first cache.
struct shim_turns {
	_Alignas(64) const _Atomic uint32_t *word; // the word that the stubs read (turn/page.h)
	int32_t counts;				   // offset of the thread's counts (turn.c) from its thread pointer
	_Atomic bool captures; // a thread has begun a capture: from now on, launches check whether they are captured
	struct shim_turn_row rows[SHIM_TURN_COUNT];
};
extern struct shim_turns shim_turns SHIM_HIDDEN;
#define SHIM_TURN_BELOW(abi) ((__typeof__(&abi))shim_turns.rows[SHIM_TURN_##abi].below)

// Replaces the functions in the table shim_slots by the stubs. `ledgers` has one for each device. Call it once, before
// the program's first call returns.
void shim_turn_start(struct vg_ledger *const *ledgers, unsigned int count);
// Opens the gate in a forked child, which may not use CUDA.
void shim_turn_stop(void);
// Forgets the streams of a destroyed context, and the events in them.
void shim_turn_forget_context(CUcontext context);

// The following functions track the work in flight of each stream (turn_stream.c).

struct shim_turn_stream;
// Returns the state of a stream's work in flight. NULL: there are too many streams, or there is no context.
struct shim_turn_stream *shim_turn_stream(CUstream stream);
// Counts `launches` launches with a total estimate of `estimate_ns`.
void shim_turn_add(struct shim_turn_stream *stream, unsigned int launches, uint64_t estimate_ns, uint64_t now);
// Does the same for launches that the thread has just made. Records an event in the stream if enough work was launched
// since the stream's last event: work that takes `every_ns` by estimate.
void shim_turn_mark(struct shim_turn_stream *stream, unsigned int launches, uint64_t estimate_ns, uint64_t every_ns,
		    uint64_t now);
// Records an event in the stream, if work was launched since the stream's last event. Call it before the thread waits.
void shim_turn_mark_rest(struct shim_turn_stream *stream, uint64_t now);
// Notes that all work launched in a stream before `began_ns` has ended. If `stream` is NULL, notes it for all streams
// of a context (NULL: the current one). Call it after a synchronization that began at that time.
void shim_turn_note_end(CUstream stream, CUcontext context, uint64_t began_ns, uint64_t now);
// Forgets all work in flight, after the process was restored from a checkpoint.
void shim_turn_forget_flight(void);
// Measure how long a launch between the two calls takes, and add the result to shim_turn_estimates.
// shim_turn_measure_begin() returns false if another launch is being measured.
bool shim_turn_measure_begin(struct shim_turn_stream *stream, uint64_t shape);
void shim_turn_measure_end(struct shim_turn_stream *stream, bool launched);
// Returns the estimated remaining time of the work in flight in all streams of a device. 0: nothing is in flight.
uint64_t shim_turn_left(unsigned int device, uint64_t now);

extern struct turn_estimates shim_turn_estimates SHIM_HIDDEN;
