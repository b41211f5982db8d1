// The shared words by which the daemon asks the processes of an evictable vGPU to move their device memory to the host
// and back. One page for the vGPU and one slot for each process, in the vGPU's ledger. Any thread.
//
// Writers: the daemon writes the page, and `out`, `drain_ms` and `bell` of a slot. A dump, restore or deep suspension
// writes `park`, `drain_ms` and `bell`, and a restore `file` of a process that it has made again and that has not run
// yet. The process that owns the slot in the ledger writes the rest of the slot, most of it by its pager thread. When a
// process has ended, its slot is zeroed before it gets a new owner. A new ledger has zeroes: there is no request, and
// no memory has left.
//
// Order: the daemon writes the request (`out`), then adds 1 to `bell` with release and wakes the futex. The pager reads
// `bell` with acquire before the request. It writes `answered` last, with release: the value of `bell` whose request it
// has carried out or given up.
//
// Hostile values: a tenant may write anything into the ledger of its own vGPU. The daemon bounds every value that it
// reads here. By false values a tenant can keep or demand room on an overcommitted device, as by any use of the device,
// but it cannot change the limit of another vGPU.
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum pager_state {
	PAGER_NONE,    // the process has no evictable memory yet
	PAGER_RUNNING, // all memory is on the device
	PAGER_CLOSING, // waits until threads have left driver calls and the GPU is idle
	PAGER_LEAVING, // memory moves to the host
	PAGER_OUT,     // all memory is in the host; or a part, and the device has no room for it to come back
	PAGER_COMING,  // memory moves back to the device
	PAGER_BROKEN,  // a copy failed: the context is lost, and memory with it
	PAGER_PREPARING, // pins host memory to leave; threads go on
	PAGER_PARKED,	 // as PAGER_OUT, and the process does not map the file with the memory: `file`
	PAGER_STATE_COUNT
};

// Why the pager gave up a request: values of `reason`.
enum pager_reason {
	PAGER_DONE,
	PAGER_THREAD,  // a thread did not return from a driver call within the limit: `row`
	PAGER_GPU,     // the GPU did not finish within the limit
	PAGER_CAPTURE, // a stream capture did not end within the limit
	PAGER_HOST,    // the host has no room: `missing`
	PAGER_DEVICE,  // the device has no room yet: `missing`; the pager goes on trying
	PAGER_DRIVER,  // the driver failed: `row` is its result
	PAGER_FILE,    // the memory cannot be put into a file, or cannot be mapped again: `row` is an errno
	PAGER_REASON_COUNT
};

// Bits of `park`. The bits without a number also occur in processes of vGPUs that are not evictable.
enum pager_park {
	PAGER_PARK_NUMBER = 0x3fffffff,
	PAGER_PARK_DEEP_DONE = 0x40000000,  // the driver has taken the process off the device
	PAGER_PARK_DEEP = (int)0x80000000u, // virgate suspend --deep asks the driver to do that; a dump does not
};

enum { PAGER_NAME = 64 };

struct pager_page {
	_Alignas(64) _Atomic uint32_t out; // 1: all processes of the vGPU must leave, also those that start later
	_Atomic uint32_t suspended;	   // 1: a user suspended the vGPU; `out` is then 1, too
	_Atomic uint32_t ask_ms;	   // how often the pagers look whether threads use the device; 0: never
	// 1: other vGPUs are leaving, and make room for this one. Its memory returns while their memory leaves.
	_Atomic uint32_t room_comes;
	// Name of the vGPU that has the device. The text may change while it is read.
	char holder[PAGER_NAME];
};

struct pager_slot {
	_Alignas(128) _Atomic uint32_t bell; // futex of the pager
	_Atomic uint32_t out;		     // 1: this process must leave
	_Atomic uint32_t drain_ms;	     // how long the pager waits for threads and the GPU; 0: 10 seconds
	_Atomic uint32_t answered;
	_Atomic uint32_t state;	 // enum pager_state
	_Atomic uint32_t reason; // enum pager_reason
	_Atomic uint32_t row;	 // of enum vg_entry, or a CUresult; see enum pager_reason
	_Atomic uint32_t waiting; // threads that wait until the memory is back
	_Atomic uint64_t bytes;	  // of device memory that can leave
	_Atomic uint64_t charged; // for such memory, in the ledger; added before the ledger is charged
	_Atomic uint64_t host;	  // of these bytes, those that are not on the device
	_Atomic uint64_t missing;
	_Atomic uint64_t since_ns;  // when `state` was entered, by the kernel's CLOCK_MONOTONIC
	_Atomic uint64_t moved_ns;  // duration of the last move
	_Atomic uint64_t waited_ns; // sum over all threads that waited at the gate
	_Atomic uint64_t active_ns; // when a thread was last seen to use the device, if the pager looks
	_Atomic uint32_t moves;	    // how many times memory moved to the host
	// Not 0: the process must leave the device, put its host memory into a file, and do nothing else until this is
	// 0 again. With PAGER_PARK_DEEP it keeps its host memory and stays in PAGER_OUT. A number that differs from one
	// request to the next, and the bits of enum pager_park.
	_Atomic uint32_t park;
	_Atomic uint64_t file[3]; // which file its memory is in while it is parked (struct pager_file); all 0: none
	_Atomic uint64_t unchanged; // bytes that the last move to the host did not copy, because the host had them
	_Atomic uint32_t hash_result; // CUresult of hashing on the GPU; not 0: it failed, and all blocks were copied
};
_Static_assert(sizeof(struct pager_slot) == 256, "four cache lines");
