// The checks at the begin of every driver call, called the gate in the simulator. Any thread.
#pragma once

#include "sim.h"

// Bits of the gate: reasons why a call needs further checks. A call tests all bits at once.
enum sim_gate {
	SIM_GATE_UNINITIALIZED = 1, // cuInit was not called; for ever in a forked child
	SIM_GATE_FAULTS = 2,	    // VIRGATE_SIM_FAULT names entries (fault.c)
	SIM_GATE_LOCKED = 4,	    // another process has locked this one (checkpoint_service.c)
	SIM_GATE_MPS = 8,	    // a fault of another client of MPS may end this process (mps.c)
	SIM_GATE_COSTS = 16,	    // VIRGATE_SIM_COST names calls (cost.c)
	// From this bit on: the number of host functions that are running. They may not call the driver.
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

// First line of every driver entry: passes the gate, or returns from the entry with the gate's error.
#define SIM_ENTER(abi) SIM_TRY(sim_enter(VG_ENTRY_##abi))
// Returns the stream of a _ptsz or _ptds entry.
#define SIM_PTSZ(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)
