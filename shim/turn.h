// Turns on the device: calls that wait until their vGPU may launch (turn/page.h has the protocol). In a vGPU, the rows
// of turns.def go through a stub that reads one word before it jumps to the driver. Any thread; no lock is held during
// a driver call that waits.
#pragma once
#include "shim/entries.h"

struct vg_ledger;

// Makes access to a thread variable need no call. This works because the library is loaded when the program starts.
#define SHIM_TLS __attribute__((tls_model("initial-exec")))

enum shim_turn_row {
#define TURN(abi, class, stream, shape) SHIM_TURN_##abi,
#include "shim/turns.def"
#undef TURN
	SHIM_TURN_COUNT
};

// The driver's functions below the stubs.
extern void *shim_turn_below[SHIM_TURN_COUNT];
#define SHIM_TURN_BELOW(abi) ((__typeof__(&abi))shim_turn_below[SHIM_TURN_##abi])

// Puts the stubs in place of the driver's functions. Call it once, before the program's first call returns.
void shim_turn_start(const struct vg_ledger *ledger);
// Opens the gate in a forked child, which may not use CUDA.
void shim_turn_stop(void);
// Forgets the streams of a context that is destroyed, and with it their events.
void shim_turn_forget_context(CUcontext context);
// A thread has begun a capture: from then on, launches check whether they are captured.
extern _Atomic bool shim_turn_captures;

// turn_stream.c: the work in flight, by stream.

struct shim_turn_stream;
// Returns the stream's entry. NULL: there are too many streams, or there is no context.
struct shim_turn_stream *shim_turn_stream(CUstream stream);
// After launches with a total estimate of estimate_ns: records a mark in the stream, if it is time for one.
void shim_turn_mark(struct shim_turn_stream *stream, unsigned int launches, uint64_t estimate_ns, uint64_t now);
// Before the thread waits: records a mark for what was launched since the last one.
void shim_turn_mark_rest(struct shim_turn_stream *stream, uint64_t now);
// Notes that all work launched before `began_ns` in a stream has ended; without a stream, in a context (NULL: the
// current one). Call it after a synchronization that began then.
void shim_turn_note_end(CUstream stream, CUcontext context, uint64_t began_ns, uint64_t now);
// Forgets all work in flight, after the process was restored.
void shim_turn_forget_flight(void);
// Measures the launch between the two calls, for shim_turn_estimates. Returns false if another launch is being
// measured.
bool shim_turn_measure_begin(struct shim_turn_stream *stream, uint64_t shape);
void shim_turn_measure_end(struct shim_turn_stream *stream, bool launched);
// Returns the estimated time of the work in flight, by the marks of all streams. 0: nothing is in flight.
uint64_t shim_turn_left(uint64_t now);

extern struct turn_estimates shim_turn_estimates;
