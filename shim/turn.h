// Turns on the device: what must wait until the vGPU may launch (turn/page.h has the protocol). In a vGPU, the rows of
// turns.def go through a stub that looks at one word before it jumps to the driver. Any thread; no lock is held over a
// driver call that waits.
#pragma once
#include "shim/entries.h"

struct vg_ledger;

// The library is there when the program starts, so its thread variables need no call to find them.
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

// Puts the stubs in place of the driver's functions. Once, before the program's first call returns.
void shim_turn_start(const struct vg_ledger *ledger);
// In a forked child, which may not use CUDA: nothing waits there.
void shim_turn_stop(void);
// Its streams and events went with it.
void shim_turn_context_gone(CUcontext context);
// A capture begins, in any thread.
extern _Atomic bool shim_turn_captures;

// turn_stream.c: what is in flight, by stream.

struct shim_turn_stream;
// The stream's entry; NULL: there are too many streams, or no context.
struct shim_turn_stream *shim_turn_stream(CUstream stream);
// After launches that were estimated at so much together: a mark in the stream, now and then.
void shim_turn_mark(struct shim_turn_stream *stream, unsigned int launches, uint64_t estimate_ns, uint64_t now);
// Before the thread waits: marks what was launched since the last mark.
void shim_turn_mark_rest(struct shim_turn_stream *stream, uint64_t now);
// Notes that the work of a stream, or without one that of a context (NULL: the current one), has ended: all that was
// launched before `began_ns`. Call it after a synchronization that began then.
void shim_turn_ended(CUstream stream, CUcontext context, uint64_t began_ns, uint64_t now);
// The process was restored: nothing is in flight.
void shim_turn_forget_flight(void);
// Measures the launch between the two, for shim_turn_estimates. False: another one is being measured.
bool shim_turn_measure_begin(struct shim_turn_stream *stream, uint64_t shape);
void shim_turn_measure_end(struct shim_turn_stream *stream, bool launched);
// Asks the marks of all streams: the estimated time of what is left. 0: nothing is in flight.
uint64_t shim_turn_left(uint64_t now);

extern struct turn_estimates shim_turn_estimates;
