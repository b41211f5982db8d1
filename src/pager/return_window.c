// Moves the memory of a restored process to the device through the window (pager/window.h).
#include <errno.h>
#include <unistd.h>

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

// Begins to take blocks, and moves all memory in. *ret_declined: the memory cannot be on the device now.
static CUresult take_memory(struct pager_slot *slot, bool is_first, bool *ret_declined)
{
	bool waits = is_first && atomic_load(&pager_thread.options.page->room_comes);
	uint64_t missing;

	pager_move_list();
	if (pager_is_to_leave(slot) || !pager_window_begin()) {
		*ret_declined = true;
		return CUDA_SUCCESS;
	}
	pager_enter_state(slot, PAGER_COMING);
	CUresult result = pager_move_in(slot, waits ? pager_wait_for_others : NULL, &missing);
	*ret_declined = result == CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS)
		release_host();
	return result;
}

// Makes a context current, for which it waits until the driver has restored the process.
static CUresult move_in(struct pager_slot *slot, bool is_first, bool *ret_declined)
{
	CUcontext contexts[PAGER_CONTEXTS];
	size_t count;
	CUresult result = pager_push_context(contexts, &count);

	*ret_declined = false;
	if (result != CUDA_SUCCESS) // the process has no context, and then no memory either
		return pager_memory_bytes() ? result : CUDA_SUCCESS;
	result = take_memory(slot, is_first, ret_declined);
	pager_window_unpin();
	pager_pop_context();
	return result;
}

static bool decline(struct pager_slot *slot)
{
	pager_window_end(WINDOW_DECLINED);
	pager_enter_state(slot, PAGER_PARKED);
	return true;
}

// Ends the process, whose memory is lost because the restore has failed or ended. The image still exists. Without this,
// the process would go on, and its next use of the device would fail.
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

static bool cannot_open(struct pager_slot *slot, const struct pager_file *file, int r)
{
	if (r == -ECANCELED)
		return true;
	// The restore may have exchanged the window for a file meanwhile.
	if (atomic_load(&slot->source) != PAGER_WINDOW || r == -ENOMEM || r == -EMFILE || r == -ENFILE || r == -EINTR)
		return false;
	if (r == -ECONNRESET || r == -ENOENT) {
		pager_file_unlink(file);
		end_process(slot);
	}
	pager_give_reason(slot, PAGER_FILE, (uint32_t)-r, 0);
	pager_give_up(slot);
	return true;
}

bool pager_return_through_window(struct pager_slot *slot, const struct pager_file *file, bool is_first)
{
	bool is_declined;
	int r = pager_window_open(file);

	if (r < 0)
		return cannot_open(slot, file, r);
	CUresult result = move_in(slot, is_first, &is_declined);
	if (is_declined)
		return decline(slot);
	if (result != CUDA_SUCCESS)
		return lose(slot, result);
	pager_window_end(WINDOW_DONE);
	pager_write_file(slot, &(struct pager_file){0});
	atomic_store(&slot->source, PAGER_WHOLE_FILE);
	pager_give_reason(slot, PAGER_DONE, 0, 0);
	pager_enter_state(slot, PAGER_RUNNING);
	pager_gate_open();
	return true;
}
