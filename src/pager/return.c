// Moves the memory back to the device, and handles moves that failed.
#include <unistd.h>

#include "base/clock.h"
#include "pager/drain.h"
#include "pager/gate.h"
#include "pager/host_file.h"
#include "pager/memory.h"
#include "pager/move.h"
#include "pager/thread.h"

static const long look_for_room_ns = 500000;
static const uint64_t patience_ns = 10000000000; // longest wait for device memory for one chunk

void pager_stay(struct pager_slot *slot)
{
	pager_thread.is_partly_out = false;
	pager_enter_state(slot, PAGER_RUNNING);
	pager_gate_open();
	pager_thread.options.failed(slot);
}

void pager_give_up(struct pager_slot *slot)
{
	pager_thread.is_partly_out = false;
	pager_enter_state(slot, PAGER_BROKEN);
	pager_gate_open();
	pager_thread.options.failed(slot);
}

// Notes that the device lacks `missing` bytes; the pager will try again later. `is_known`: a message to the user has
// already said this.
static void wait_for_room(struct pager_slot *slot, uint64_t missing, bool is_known)
{
	pager_give_reason(slot, PAGER_DEVICE, 0, missing);
	pager_enter_state(slot, PAGER_OUT);
	if (!is_known)
		pager_thread.options.failed(slot);
}

bool pager_undo_leaving(struct pager_slot *slot)
{
	bool is_known = pager_thread.is_partly_out;
	uint64_t missing;
	CUresult result = pager_move_in(slot, NULL, &missing);

	if (result == CUDA_SUCCESS) {
		pager_stay(slot);
		return true;
	}
	if (result != CUDA_ERROR_OUT_OF_MEMORY) {
		pager_give_up(slot);
		return true;
	}
	pager_thread.is_partly_out = true;
	if (!is_known)
		// Tell the user why the move to the host failed, before `reason` is overwritten.
		pager_thread.options.failed(slot);
	wait_for_room(slot, missing, is_known);
	return false;
}

bool pager_wait_for_others(uint64_t waited_ns)
{
	const struct pager_slot *slot = pager_thread.options.slot();

	if (!slot || pager_is_to_leave(slot) || waited_ns > patience_ns)
		return false;
	pager_sleep(look_for_room_ns);
	return true;
}

// Returns whether the daemon removes the named file of this process when it has ended: it must see the same processes
// and the same directory, and be root's or this user's. For most containers that is not so.
static bool is_swept(void)
{
	uint64_t swept = atomic_load(&pager_thread.options.page->swept);

	return swept != 0 && (swept == pager_file_place(0) || swept == pager_file_place(geteuid()));
}

// After a dump, the host memory lies in a file with a name. The next dump needs that name: a file whose name was
// removed cannot get another one. Releases the memory and removes the name if otherwise the file would remain after the
// process has ended. Unpinning waits for the GPU, which is idle now.
static void release_named(void)
{
	if (!pager_host_is_named() || is_swept())
		return;
	pager_memory_forget_copies();
	pager_host_release();
}

static CUresult move_in(struct pager_slot *slot, bool waits, uint64_t *ret_missing)
{
	CUcontext contexts[PAGER_CONTEXTS];
	size_t count;
	CUresult result = pager_push_context(contexts, &count);

	*ret_missing = 0;
	pager_enter_state(slot, PAGER_COMING);
	if (result != CUDA_SUCCESS)
		return pager_memory_bytes() ? result : CUDA_SUCCESS;
	result = pager_move_in(slot, waits ? pager_wait_for_others : NULL, ret_missing);
	if (result == CUDA_SUCCESS)
		release_named();
	pager_pop_context();
	return result;
}

bool pager_return_to_device(struct pager_slot *slot, bool is_first)
{
	bool waits = is_first && atomic_load(&pager_thread.options.page->room_comes);
	uint64_t began_ns = vg_clock_monotonic_ns(), missing;
	CUresult result = move_in(slot, waits, &missing);

	if (result == CUDA_ERROR_OUT_OF_MEMORY && pager_is_to_leave(slot)) { // the memory must leave again
		pager_give_reason(slot, PAGER_DONE, 0, 0);
		pager_enter_state(slot, PAGER_OUT);
		return true;
	}
	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		wait_for_room(slot, missing, atomic_load(&slot->reason) == PAGER_DEVICE);
		return false;
	}
	pager_give_reason(slot, result == CUDA_SUCCESS ? PAGER_DONE : PAGER_DRIVER, result, 0);
	atomic_store(&slot->moved_ns, vg_clock_monotonic_ns() - began_ns);
	if (result != CUDA_SUCCESS) {
		pager_give_up(slot);
		return true;
	}
	pager_thread.is_partly_out = false;
	pager_enter_state(slot, PAGER_RUNNING);
	pager_gate_open();
	return true;
}
