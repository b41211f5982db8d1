// The shared words by which the daemon asks the processes of an evictable vGPU to move their device memory to the host
// and back. One page for the vGPU and one slot for each process, in the vGPU's ledger. Any thread.
//
// Who writes: the page, and `wish`, `drain_ms` and `bell` of a slot: the daemon. The rest of a slot: the pager, a
// thread of the process that owns the slot in the ledger. Whoever reaps the process zeroes the slot, before it has a
// new owner. A new ledger has zeroes: no wish, nothing has left.
//
// Order: the daemon writes the wish, then adds 1 to `bell` with release and wakes it as a futex. The pager reads `bell`
// with acquire before the wish. It writes `answered` last, with release: the value of `bell` whose wish it has carried
// out or given up.
//
// Hostile values: a tenant may write anything into the ledger of its own vGPU. The daemon only shows what it reads here,
// and bounds it; it decides nothing about others by it.
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum pager_state {
	PAGER_NONE,    // the process has no evictable memory yet
	PAGER_RUNNING, // all memory is on the device
	PAGER_CLOSING, // waits until threads and the GPU have finished what they began
	PAGER_LEAVING, // memory moves to the host
	PAGER_OUT,     // in the host
	PAGER_COMING,  // memory moves back to the device
	PAGER_BROKEN,  // a copy failed: the context is lost, and memory with it
	PAGER_PREPARING, // pins host memory to leave; threads go on
	PAGER_STATE_COUNT
};

// Why the pager gave up a wish, in `reason`.
enum pager_reason {
	PAGER_DONE,
	PAGER_THREAD,  // a thread did not return from a driver call within the limit: `row`
	PAGER_GPU,     // the GPU did not finish within the limit
	PAGER_CAPTURE, // a stream capture did not end within the limit
	PAGER_HOST,    // the host has no room: `missing`
	PAGER_DEVICE,  // the device has no room yet: `missing`; the pager goes on trying
	PAGER_DRIVER,  // the driver failed: `row` is its result
	PAGER_REASON_COUNT
};

enum { PAGER_NAME = 64 };

struct pager_page {
	_Alignas(64) _Atomic uint32_t out; // 1: all processes of the vGPU shall leave, also those that come later
	_Atomic uint32_t suspended;	   // 1: a user wishes so. `out` says whether the daemon does, for whatever reason
	_Atomic uint32_t ask_ms;	   // how often the pagers look whether threads use the device; 0: never
	// The vGPU that has the device. Text, which may change while it is read.
	char holder[PAGER_NAME];
};

struct pager_slot {
	_Alignas(128) _Atomic uint32_t bell; // futex of the pager
	_Atomic uint32_t out;		     // 1: this process shall leave
	_Atomic uint32_t drain_ms;	     // how long the pager waits for threads and the GPU; 0: 10 seconds
	_Atomic uint32_t answered;
	_Atomic uint32_t state;	 // enum pager_state
	_Atomic uint32_t reason; // enum pager_reason
	_Atomic uint32_t row;	 // of enum vg_entry, or a CUresult; see enum pager_reason
	_Atomic uint32_t waiting; // threads that wait until the memory is back
	_Atomic uint64_t bytes;	  // of device memory that can leave
	_Atomic uint64_t charged; // for such memory: in the ledger, or about to be
	_Atomic uint64_t host;	  // of these, not on the device
	_Atomic uint64_t missing;
	_Atomic uint64_t since_ns;  // when `state` was entered, by the kernel's CLOCK_MONOTONIC
	_Atomic uint64_t moved_ns;  // duration of the last move
	_Atomic uint64_t waited_ns; // of all threads at the gate, ever
	_Atomic uint64_t active_ns; // when a thread was last seen to use the device, if the pager looks
	_Atomic uint32_t moves;	    // to the host, ever
};
_Static_assert(sizeof(struct pager_slot) == 128, "two cache lines");
