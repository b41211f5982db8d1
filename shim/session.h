// The process's place in its vGPU: whether a quota is in force, and the ledger it is counted
// in. Set up by the first call that needs it, never before. Any thread; safe over fork.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "abi/cuda_abi.h"
#include "ledger/ledger.h"

enum shim_state {
	SHIM_UNSET,  // nobody asked yet
	SHIM_FREE,   // no vGPU: everything passes through
	SHIM_TENANT, // counted in shim_session_ledger()
	SHIM_FORKED, // a fork of a tenant: CUDA is not its to use
	SHIM_BROKEN, // there should be a quota and cannot be: nothing may be allocated
};

extern _Atomic int shim_state;
enum shim_state shim_session_start(void);

// The state, set up if need be.
static inline enum shim_state shim_session(void)
{
	int state = __atomic_load_n((int *)&shim_state, __ATOMIC_RELAXED);

	return __builtin_expect(state != SHIM_UNSET, 1) ? (enum shim_state)state : shim_session_start();
}

// True if allocations must be charged (or refused).
static inline bool shim_enforcing(void)
{
	return shim_session() != SHIM_FREE;
}

// True if there are records and charges of this process to look after.
static inline bool shim_counting(void)
{
	return __atomic_load_n((int *)&shim_state, __ATOMIC_RELAXED) == SHIM_TENANT;
}

// NULL unless the state is SHIM_TENANT.
struct vg_ledger *shim_session_ledger(void);
