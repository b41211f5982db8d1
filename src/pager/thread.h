// Shared by the files of the pager's thread: its state, and the contexts of the process. Only files of src/pager
// include this header. Only the pager's thread calls these functions, after pager_start().
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pager/host.h"
#include "pager/page.h"
#include "pager/pager.h"

enum { PAGER_CONTEXTS = 64, PAGER_RETRY_FIRST_NS = 10000000, PAGER_RETRY_MOST_NS = 1000000000 };

struct pager_file;

extern struct pager_thread {
	struct pager_options options;
	// The state that the slot shows; kept here, too, because the process has no slot during a dump.
	enum pager_state state;
	// True: a move to the host failed, and the part that has moved cannot return to the device yet.
	bool is_partly_out;
} pager_thread __attribute__((visibility("hidden")));

void pager_enter_state(struct pager_slot *slot, enum pager_state next);
// Stores in the slot why a request cannot be carried out.
void pager_give_reason(struct pager_slot *slot, enum pager_reason reason, uint32_t row, uint64_t missing);
// Returns whether the daemon, a user or a dump requests that the memory leaves the device.
bool pager_is_to_leave(const struct pager_slot *slot);
// Stores the contexts of the process and makes one of them current. Returns CUDA_ERROR_INVALID_CONTEXT if the process
// has no context.
CUresult pager_push_context(CUcontext ret_contexts[PAGER_CONTEXTS], size_t *ret_count);
void pager_pop_context(void);

// ---- prepare.c: host memory before and after a move

// Pins one more piece of host memory for the device memory that can move. Leaves at least `kept` bytes of host memory
// available, or else pins nothing and returns PAGER_HOST_SHORT. *ret_missing is then how many bytes the host lacks; 0:
// no context could be made current.
enum pager_host_step pager_prepare_piece(uint64_t kept, uint64_t *ret_missing);
// Unpins one piece of host memory, if the host memory contains only copies of bytes that are on the device. After the
// last piece, releases all host memory. Unpinning waits for the GPU. Returns whether pieces are left.
bool pager_release_piece(void);
// Prepares the next move: pins host memory ahead of need, and releases unneeded host memory. Returns in how many
// nanoseconds to call this again; 0: no further call is needed.
long pager_look_ahead(struct pager_slot *slot);

// ---- leave.c and return.c: the moves. Functions that return false must be called again later.

// Moves all memory to the host. If that is impossible, the memory stays on the device, and the slot has the reason.
bool pager_leave_device(struct pager_slot *slot);
// Tries a failed move to the host again. The gate is closed.
bool pager_leave_device_again(struct pager_slot *slot);
// Moves all memory to the device. If the device has too little room, only the first attempt may keep the part that has
// moved, and wait for other processes to leave. If all attempts did so, two processes could each keep a part, and wait
// for each other.
bool pager_return_to_device(struct pager_slot *slot, bool is_first);
// Waits a moment for room that other processes make. Returns false if this process must leave again, or has waited too
// long.
bool pager_wait_for_others(uint64_t waited_ns);
// Moves all memory to the device through the window `file`. If the memory cannot be on the device now, declines the
// window: the restore then puts the memory into a file. Ends the process if the restore has failed or ended.
bool pager_return_through_window(struct pager_slot *slot, const struct pager_file *file, bool is_first);
// Moves the part that has left back to the device, after a move to the host failed.
bool pager_undo_leaving(struct pager_slot *slot);
// Stores the file with the memory in the slot. A dump may read the slot meanwhile, so the number is 0 while the other
// words change.
void pager_write_file(struct pager_slot *slot, const struct pager_file *file);
// Ends an attempt to leave: opens the gate, and reports why the memory stays.
void pager_stay(struct pager_slot *slot);
// Gives up, because the memory of the process was lost: opens the gate, and reports the reason.
void pager_give_up(struct pager_slot *slot);

// ---- park.c: dump and restore. Functions that return false must be called again later.

// Moves all memory to the host, and puts it into a file with a name, by which the dump finds it. In a deep suspension
// the host memory stays mapped and pinned instead. `request`: the number in `park`. On failure the slot has the reason.
bool pager_park(struct pager_slot *slot, uint32_t request, bool is_deep);
// Maps and pins the memory that was put into a file. After a restore, the file may be a window: then moves the memory
// to the device through it.
bool pager_unpark(struct pager_slot *slot, bool is_first);
// Forgets a park request that could not be carried out. Call it when the request was withdrawn.
void pager_forget_refusal(struct pager_slot *slot);
