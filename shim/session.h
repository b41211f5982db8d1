// Holds the state of this process: whether it belongs to a vGPU, and the ledger in which it is charged. The first call
// that needs the state initializes it. Any thread; safe over fork.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "abi/cuda_abi.h"
#include "ledger/ledger.h"

enum shim_state {
	SHIM_UNSET,  // not initialized yet
	SHIM_FREE,   // not in a vGPU: every call passes through
	SHIM_TENANT, // in a vGPU, and charged in shim_session_ledger()
	SHIM_FORKED, // a forked child of a tenant, which may not use CUDA
	SHIM_BROKEN, // in a vGPU whose ledger cannot be used: nothing may be allocated
};

extern _Atomic int shim_state;
// Initializes the state. Defined in start.c, the top layer, because it also starts all other layers.
enum shim_state shim_session_start(void);

// Returns the state; initializes it first if necessary.
static inline enum shim_state shim_session(void)
{
	int state = __atomic_load_n((int *)&shim_state, __ATOMIC_RELAXED);

	return __builtin_expect(state != SHIM_UNSET, 1) ? (enum shim_state)state : shim_session_start();
}

// Returns true if allocations must be charged or refused.
static inline bool shim_enforcing(void)
{
	return shim_session() != SHIM_FREE;
}

// Returns true if this process is a tenant with a slot in a ledger. Only such a process has records and charges.
static inline bool shim_counting(void)
{
	return __atomic_load_n((int *)&shim_state, __ATOMIC_RELAXED) == SHIM_TENANT;
}

// Returns the ledger in which this process is charged. NULL unless the state is SHIM_TENANT.
struct vg_ledger *shim_session_ledger(void);

// Opens the ledger and takes a slot in it. Returns SHIM_TENANT, or SHIM_BROKEN after a message. Only start.c calls it.
enum shim_state shim_session_open(const char *path, struct vg_ledger **ret_ledger);
