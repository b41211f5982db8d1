// The shared words by which the daemon asks the processes of an evictable vGPU to move their device memory to the host
// and back. In the vGPU's ledger there is one page for the vGPU, and one slot for each process. Any thread.
//
// Writers: the daemon writes the page, and `out`, `drain_ms` and `bell` of a slot. `bell` is a counter that wakes the
// pager. A dump, a restore or a deep suspension writes `park`, `drain_ms` and `bell`. In a deep suspension, the driver
// takes the process off the device, too. A restore also writes `file` and `source`. The process
// that owns the slot writes the rest of the slot, most of it by its pager thread. When a process has ended, its slot is
// zeroed before it gets a new owner. In a new ledger all words are zero: there is no request, and no memory has left.
//
// Order: the daemon writes the request (`out`), then adds 1 to `bell` with release, and wakes the futex. The pager
// reads `bell` with acquire before it reads the request. When the pager has carried out the request or given it up, it
// stores that value of `bell` in `answered`: last, and with release.
//
// Hostile values: a tenant may write anything into the ledger of its own vGPU. So the daemon bounds every value that it
// reads here, and compares with NVML whether memory has really left (daemon/doubt.h). With false values a tenant can
// keep its memory on an overcommitted device, or demand its return. It can do the same without false values, by using
// the device all the time. But it cannot change the limit of another vGPU.
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum pager_state {
	PAGER_NONE,    // the process has no evictable memory yet
	PAGER_RUNNING, // all memory is on the device
	PAGER_CLOSING, // the pager waits until threads have left driver calls and the GPU is idle
	PAGER_LEAVING, // memory is moving to the host
	// All memory is in the host. After a move to the host that failed, only a part is in the host, and the device
	// has no room for its return.
	PAGER_OUT,
	PAGER_COMING,	 // memory is moving back to the device
	PAGER_BROKEN,	 // a copy failed: the context and its memory are lost
	PAGER_PREPARING, // the pager pins host memory before the move; threads go on
	PAGER_PARKED,	 // like PAGER_OUT, but the memory is in `file`, which the process does not map
	PAGER_STATE_COUNT
};

// Why the pager gave up a request: values of `reason`.
enum pager_reason {
	PAGER_DONE,
	PAGER_THREAD,  // a thread did not return from driver call `row` in time
	PAGER_GPU,     // the GPU did not finish its work in time
	PAGER_CAPTURE, // a stream capture did not end in time
	PAGER_HOST,    // the host lacks `missing` bytes
	PAGER_DEVICE,  // the device lacks `missing` bytes; the pager goes on trying
	PAGER_DRIVER,  // the driver failed; `row` is its result
	PAGER_FILE,    // the memory cannot be put into a file, or cannot be mapped again; `row` is the errno
	PAGER_RESTORE, // the restore failed or ended before the memory was back
	PAGER_REASON_COUNT
};

// Bits of `park`: the number of the request, and two flags. In a vGPU that is not evictable only the flags are used.
enum pager_park {
	PAGER_PARK_NUMBER = 0x3fffffff,
	PAGER_PARK_DEEP_DONE = 0x40000000,  // the driver has taken the process off the device
	PAGER_PARK_DEEP = (int)0x80000000u, // the driver must take the process off the device: suspend --deep
};

// What `file` is.
enum pager_source {
	PAGER_WHOLE_FILE,
	PAGER_WINDOW,	// a window (pager/window.h)
	PAGER_EXCHANGE, // the restore is exchanging the window for a file; wait
};

enum { PAGER_NAME = 64 };

struct pager_page {
	// 1: the memory of all processes must leave, also of processes that start later.
	_Alignas(64) _Atomic uint32_t out;
	_Atomic uint32_t suspended; // 1: a user suspended the vGPU; `out` is then 1, too
	_Atomic uint32_t ask_ms;    // interval at which pagers check whether threads use the device; 0: never
	// Not 0: memory of other vGPUs is leaving, and this one may use the device already. So it may find too little
	// room for a moment: its memory returns in pieces, and its allocations wait. The number is another one each
	// time, also from the next daemon: a process does not wait again for a number for which no room came.
	_Atomic uint32_t room_comes;
	// Name of the vGPU that has the device. The text may change while it is read.
	char holder[PAGER_NAME];
	// Where the daemon removes the named files of ended processes (pager_file_place() of the daemon); 0: unknown
	_Atomic uint64_t swept;
};

struct pager_slot {
	_Alignas(128) _Atomic uint32_t bell; // the pager waits on this futex
	_Atomic uint32_t out;		     // 1: the memory of this process must leave the device
	_Atomic uint32_t drain_ms;	     // how long the pager waits for threads and the GPU; 0: 10 seconds
	_Atomic uint32_t answered;
	_Atomic uint32_t state;	 // enum pager_state
	_Atomic uint32_t reason; // enum pager_reason
	// Depends on `reason`. PAGER_THREAD: a driver function (enum vg_entry). PAGER_GPU and PAGER_DRIVER: a CUresult.
	// PAGER_FILE: an errno.
	_Atomic uint32_t row;
	_Atomic uint32_t waiting; // number of threads that wait until the memory is back
	_Atomic uint64_t bytes;	  // bytes of device memory that can leave
	// Bytes charged to the process for memory that can leave. All else that it charged, except managed memory,
	// belongs to the vGPU's fixed part. The process adds to this word before it charges the ledger, so that the
	// fixed part is never overestimated.
	_Atomic uint64_t charged;
	_Atomic uint64_t host; // how many of `bytes` are not on the device
	_Atomic uint64_t missing;
	_Atomic uint64_t since_ns;  // when the process entered `state`, by the kernel's CLOCK_MONOTONIC
	_Atomic uint64_t moved_ns;  // duration of the last move
	_Atomic uint64_t waited_ns; // sum of the waits of all threads at the gate
	_Atomic uint64_t active_ns; // when a thread last used the device; the pager checks this every `ask_ms`
	_Atomic uint32_t moves;	    // how many times the memory was moved to the host
	// Request of a dump, a restore or a deep suspension: a number that changes with each request, and flags (enum
	// pager_park). 0: no request. The process moves its device memory to the host and puts the host memory into a
	// file. It carries out no other request until this is 0 again. With PAGER_PARK_DEEP, it keeps its host memory
	// mapped and stays in PAGER_OUT.
	_Atomic uint32_t park;
	// The file with the memory (struct pager_file), in PAGER_PARKED and, before that, in PAGER_OUT while the pager
	// unpins and unmaps the file. The contents of the file do not change meanwhile. 0 in `file[2]`: no file. Other
	// words change only while `file[2]` is 0.
	_Atomic uint64_t file[3];
	// Bytes that the last move to the host did not copy, because the host already had the same bytes.
	_Atomic uint64_t unchanged;
	_Atomic uint32_t hash_result;  // CUresult of hashing on the GPU; not 0: it failed, and all blocks were copied
	_Atomic uint32_t knows_window; // 1: the process can take its memory from a window (pager/window.h)
	// enum pager_source. A restore writes it: before the process runs, and if the process declines the window.
	_Atomic uint32_t source;
};
_Static_assert(sizeof(struct pager_slot) == 256, "four cache lines");
