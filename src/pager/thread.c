#include "pager/thread.h"

#include "pager/host_file.h"

struct pager_thread pager_thread;

void pager_enter_state(struct pager_slot *slot, enum pager_state next)
{
	pager_thread.state = next;
	atomic_store(&slot->since_ns, pager_thread.options.clock_ns());
	atomic_store(&slot->state, next);
}

void pager_give_reason(struct pager_slot *slot, enum pager_reason reason, uint32_t row, uint64_t missing)
{
	atomic_store(&slot->row, row);
	atomic_store(&slot->missing, missing);
	atomic_store(&slot->reason, reason);
}

void pager_write_file(struct pager_slot *slot, const struct pager_file *file)
{
	atomic_store(&slot->file[2], 0);
	atomic_store(&slot->file[0], file->process);
	atomic_store(&slot->file[1], file->start_time);
	atomic_store(&slot->file[2], file->number);
}

bool pager_is_to_leave(const struct pager_slot *slot)
{
	return atomic_load(&pager_thread.options.page->out) || atomic_load(&slot->out) || atomic_load(&slot->park);
}

// Allows this thread to make driver calls that a capture in another thread forbids. The driver must be initialized.
static void relax_capture_mode(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	static bool is_relaxed;

	if (!is_relaxed)
		is_relaxed = pager_driver.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS;
}

CUresult pager_push_context(CUcontext ret_contexts[PAGER_CONTEXTS], size_t *ret_count)
{
	CUresult result = CUDA_ERROR_INVALID_CONTEXT;

	*ret_count = pager_thread.options.contexts(ret_contexts, PAGER_CONTEXTS);
	for (size_t i = 0; i < *ret_count && result != CUDA_SUCCESS; i++)
		result = pager_driver.cuCtxPushCurrent_v2(ret_contexts[i]);
	if (result == CUDA_SUCCESS)
		relax_capture_mode();
	return result;
}

void pager_pop_context(void)
{
	CUcontext popped;

	pager_driver.cuCtxPopCurrent_v2(&popped);
}
