#include "pager/drain.h"

#include <time.h>

#include "base/clock.h"

void pager_sleep(long ns)
{
	nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL);
}

long pager_longer(long pause_ns, long most_ns)
{
	return pause_ns < most_ns / 2 ? pause_ns * 2 : most_ns;
}

// Waits until the GPU has reached the event, which covers the work of all streams of the context.
static CUresult wait_for_event(CUcontext context, CUevent event, uint64_t deadline_ns)
{
	CUresult result = pager_driver.cuCtxRecordEvent(context, event);
	long pause_ns = PAGER_POLL_LEAST_NS;

	if (result != CUDA_SUCCESS)
		return result;
	for (;;) {
		result = pager_driver.cuEventQuery(event);
		if (result != CUDA_ERROR_NOT_READY || vg_clock_monotonic_ns() >= deadline_ns)
			return result;
		pager_sleep(pause_ns);
		pause_ns = pager_longer(pause_ns, PAGER_POLL_MOST_NS);
	}
}

static CUresult drain_context(CUcontext context, uint64_t deadline_ns)
{
	CUresult result = pager_driver.cuCtxPushCurrent_v2(context);
	CUcontext popped;
	CUevent event;

	if (result != CUDA_SUCCESS)
		return result;
	result = pager_driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	if (result == CUDA_SUCCESS) {
		result = wait_for_event(context, event, deadline_ns);
		pager_driver.cuEventDestroy_v2(event);
	}
	pager_driver.cuCtxPopCurrent_v2(&popped);
	return result;
}

CUresult pager_drain(const CUcontext *contexts, size_t count, uint64_t deadline_ns)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = drain_context(contexts[i], deadline_ns);
	return result;
}
