// Declares the gate: the checks at the start of every driver call. Any thread.
#pragma once

#include "sim.h"

// Reasons why a driver call needs further checks. Each is a bit, so that a call tests all of them at once.
enum sim_gate {
	SIM_GATE_UNINITIALIZED = 1, // cuInit was not called; always set in a forked child
	SIM_GATE_FAULTS = 2,	    // VIRGATE_SIM_FAULT injects faults into calls (fault.c)
	SIM_GATE_LOCKED = 4,	    // another process has locked this one (checkpoint_service.c)
	SIM_GATE_MPS = 8,	    // this process is a client of MPS, so another client's fault may end it (mps.c)
	SIM_GATE_COSTS = 16,	    // VIRGATE_SIM_COST sets durations of calls (cost.c)
	// This bit and the bits above it count the program's host functions that are running. Host functions must not
	// call the driver.
	SIM_GATE_CALLBACK = 0x100,
};
extern _Atomic unsigned sim_gate;
extern _Thread_local bool sim_in_callback; // the thread runs a host function of the program

void sim_gate_set(unsigned bits);
void sim_gate_clear(unsigned bits);

CUresult sim_enter_slow(enum vg_entry entry);
static inline CUresult sim_enter(enum vg_entry entry)
{
	if (__builtin_expect(atomic_load_explicit(&sim_gate, memory_order_acquire) == 0, 1))
		return CUDA_SUCCESS;
	return sim_enter_slow(entry);
}

// Stands in the first line of every driver function: makes the checks of the gate, and returns their error if they
// fail.
#define SIM_ENTER(abi) SIM_TRY(sim_enter(VG_ENTRY_##abi))
// Returns the stream that a _ptsz or _ptds function uses. A NULL handle stands for the per-thread default stream.
#define SIM_PTSZ(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)
