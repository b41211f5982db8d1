// Holds the state of this process: whether it belongs to a vGPU, and the ledger in which it is charged. A job has a
// vGPU, and so a ledger, on each of its devices. The first call that needs the state initializes it. Any thread; safe
// over fork.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "abi/cuda_abi.h"
#include "ledger/ledger.h"
#include "shim/ledgers.h"

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

// Lets code access a thread-local variable without a function call. This works because the library is loaded when the
// program starts.
#define SHIM_TLS __attribute__((tls_model("initial-exec")))

// Number of devices that this process sees: 1, unless it belongs to a job. Their ordinals are those of the driver,
// because start.c sets CUDA_VISIBLE_DEVICES.
extern unsigned int shim_device_count;

// Returns the ordinal of the device for which the calling thread charges: the selected one, or else the device of its
// current context.
unsigned int shim_device(void);
// Selects a device for the calling thread until the end of the enclosing block. A device out of range selects nothing.
#define SHIM_ON_DEVICE(device)                                                     \
	__attribute__((cleanup(shim_device_restore), unused)) int before_device_ = \
		shim_device_select((unsigned int)(device))
int shim_device_select(unsigned int device);
void shim_device_restore(const int *before);

// Returns the ledger in which this process is charged on shim_device(). NULL unless the state is SHIM_TENANT.
struct vg_ledger *shim_session_ledger(void);
// Returns the ledger of a device. NULL unless the state is SHIM_TENANT, or if the device is out of range.
struct vg_ledger *shim_session_ledger_of(unsigned int device);

// Takes a slot in `ledger`, and uses this ledger for the device with the next ordinal. Returns SHIM_TENANT, or
// SHIM_BROKEN after a message. Only start.c calls it.
enum shim_state shim_session_enter(struct vg_ledger *ledger);
