// Moves the memory of a restored process to the device through the window (pager/window.h).
#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "pager/gate.h"
#include "pager/host_file.h"
#include "pager/memory.h"
#include "pager/move.h"
#include "pager/thread.h"
#include "pager/window.h"

enum { EXIT_LOST = 125 };

// Releases the host memory, which contains nothing any more: the bytes came from the window.
static void release_host(void)
{
	pager_memory_forget_copies();
	pager_host_forget_file();
	pager_host_release();
}

static CUresult move_in(struct pager_slot *slot, bool waits, bool *ret_declined)
{
	CUcontext contexts[PAGER_CONTEXTS];
	uint64_t missing;
	size_t count;
	CUresult result = pager_push_context(contexts, &count);

	*ret_declined = false;
	if (result != CUDA_SUCCESS) // the process has no context, and then no memory either
		return pager_memory_bytes() ? result : CUDA_SUCCESS;
	pager_move_list();
	if (pager_window_begin()) {
		pager_enter_state(slot, PAGER_COMING);
		result = pager_move_in(slot, waits ? pager_wait_for_others : NULL, &missing);
		*ret_declined = result == CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		*ret_declined = true;
	}
	pager_window_unpin();
	if (result == CUDA_SUCCESS && !*ret_declined)
		release_host();
	pager_pop_context();
	return result;
}

static bool decline(struct pager_slot *slot)
{
	pager_window_end(WINDOW_DECLINED);
	pager_enter_state(slot, PAGER_PARKED);
	return false;
}

// Ends the process, whose memory is lost because the restore has ended. The image still exists. Without this, the
// process would go on, and its next use of the device would fail.
static void end_process(struct pager_slot *slot)
{
	pager_give_reason(slot, PAGER_RESTORE, 0, 0);
	pager_enter_state(slot, PAGER_BROKEN);
	pager_thread.options.failed(slot);
	_exit(EXIT_LOST);
}

static bool lose(struct pager_slot *slot, CUresult result)
{
	int error = pager_window_error();

	pager_window_end(WINDOW_BROKEN);
	if (error)
		end_process(slot);
	pager_give_reason(slot, PAGER_DRIVER, result, 0);
	pager_give_up(slot);
	return true;
}

static bool cannot_open(struct pager_slot *slot, int r)
{
	// The restore may have exchanged the window for a file meanwhile.
	if (r == -ECANCELED || atomic_load(&slot->source) != PAGER_WINDOW || r == -ENOMEM || r == -EMFILE ||
	    r == -ENFILE || r == -EINTR)
		return false;
	if (r == -ECONNRESET || r == -ENOENT)
		end_process(slot);
	pager_give_reason(slot, PAGER_FILE, (uint32_t)-r, 0);
	pager_give_up(slot);
	return true;
}

bool pager_return_through_window(struct pager_slot *slot, const struct pager_file *file, bool is_first)
{
	bool waits = is_first && atomic_load(&pager_thread.options.page->room_comes), is_declined;
	uint64_t began_ns = vg_clock_monotonic_ns();
	int r = pager_window_open(file);

	if (r < 0)
		return cannot_open(slot, r);
	if (pager_is_to_leave(slot))
		return decline(slot);
	CUresult result = move_in(slot, waits, &is_declined);
	if (is_declined)
		return decline(slot);
	if (result != CUDA_SUCCESS)
		return lose(slot, result);
	pager_window_end(WINDOW_DONE);
	pager_write_file(slot, &(struct pager_file){0});
	atomic_store(&slot->source, PAGER_WHOLE_FILE);
	pager_give_reason(slot, PAGER_DONE, 0, 0);
	atomic_store(&slot->moved_ns, vg_clock_monotonic_ns() - began_ns);
	pager_enter_state(slot, PAGER_RUNNING);
	pager_gate_open();
	return true;
}
