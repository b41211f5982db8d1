// Parks the process for a dump, and unparks it after a restore. While it is parked, all memory is in the host, in a
// file that the process does not map.
#include <errno.h>

#include "pager/host_file.h"
#include "pager/memory.h"
#include "pager/thread.h"

static uint32_t refused; // number of the park request that could not be carried out; 0: none

// Stores the file with the host memory in the slot, so that a dump begins to read it. Then unpins and unmaps it.
// Returns 0 or -errno.
static int publish_and_unmap(struct pager_slot *slot)
{
	struct pager_file file;
	int r = pager_host_finish_file(&file);

	if (r < 0)
		return r;
	pager_write_file(slot, &file);
	r = pager_host_park();
	if (r < 0)
		pager_write_file(slot, &(struct pager_file){0});
	return r;
}

// Puts away the host memory, after all memory has moved there. Returns false on failure.
static bool park_memory(struct pager_slot *slot)
{
	CUcontext contexts[PAGER_CONTEXTS];
	size_t count;
	CUresult pushed = pager_push_context(contexts, &count);
	int r = publish_and_unmap(slot);

	if (pushed == CUDA_SUCCESS)
		pager_pop_context();
	if (r < 0) {
		pager_give_reason(slot, PAGER_FILE, (uint32_t)-r, 0);
		return false;
	}
	pager_enter_state(slot, PAGER_PARKED);
	return true;
}

// Releases the host memory, which contains only copies, if another process has removed the name of its file: a file
// cannot get a name twice. The memory that replaces it lies in a new file.
static void release_nameless(void)
{
	CUcontext contexts[PAGER_CONTEXTS];
	size_t count;

	if (pager_thread.state != PAGER_RUNNING || !pager_host_has_lost_name())
		return;
	CUresult pushed = pager_push_context(contexts, &count);
	pager_memory_forget_copies();
	pager_host_release();
	if (pushed == CUDA_SUCCESS)
		pager_pop_context();
}

bool pager_park(struct pager_slot *slot, uint32_t request, bool is_deep)
{
	if (pager_thread.state == PAGER_PARKED || request == refused)
		return true;
	release_nameless();
	if (pager_thread.is_partly_out ? !pager_leave_device_again(slot)
				       : pager_thread.state != PAGER_OUT && !pager_leave_device(slot))
		return false;
	bool is_out = pager_thread.state == PAGER_OUT;
	if (is_out && is_deep)
		return true;
	if (is_out ? park_memory(slot) : !atomic_load(&slot->park))
		return true;
	// If the host has too little memory, the device memory stays on the device, and the process is dumped without
	// being parked. Unpin all host memory, because CRIU would write it into the image. If the memory could not
	// leave for another reason, the dump fails.
	if (pager_thread.state == PAGER_RUNNING && atomic_load(&slot->reason) == PAGER_HOST)
		while (pager_release_piece())
			;
	refused = request;
	return true;
}

static void pin_again(void)
{
	CUcontext contexts[PAGER_CONTEXTS];
	uint64_t missing;
	size_t count;

	if (pager_push_context(contexts, &count) != CUDA_SUCCESS)
		return;
	while (pager_host_grow(0, 0, &missing) == PAGER_HOST_MORE)
		;
	pager_pop_context();
}

bool pager_unpark(struct pager_slot *slot, bool is_first)
{
	uint32_t source = atomic_load(&slot->source);
	const struct pager_file file = {atomic_load(&slot->file[0]), atomic_load(&slot->file[1]),
					atomic_load(&slot->file[2])};

	if (source == PAGER_EXCHANGE || source != atomic_load(&slot->source))
		return false;
	if (source == PAGER_WINDOW)
		return pager_return_through_window(slot, &file, is_first);
	int r = pager_host_unpark(&file);

	if (r == -ENOMEM || r == -EMFILE || r == -ENFILE || r == -EINTR)
		return false;
	if (r < 0) {
		pager_give_reason(slot, PAGER_FILE, (uint32_t)-r, 0);
		pager_give_up(slot);
		return true;
	}
	pager_write_file(slot, &(struct pager_file){0});
	pager_enter_state(slot, PAGER_OUT);
	pin_again();
	return true;
}

void pager_forget_refusal(struct pager_slot *slot)
{
	if (!refused)
		return;
	pager_give_reason(slot, PAGER_DONE, 0, 0);
	refused = 0;
}
