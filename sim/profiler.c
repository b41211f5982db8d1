// Implements the functions that start and stop the profiler. They have no effect.
#include "capture.h"
#include "context.h"
#include "entry.h"

CUresult CUDAAPI cuProfilerStart(void)
{
	struct sim_context *context;

	SIM_ENTER(cuProfilerStart);
	SIM_TRY(sim_capture_check_unsafe());
	return sim_context_current(&context);
}

CUresult CUDAAPI cuProfilerStop(void)
{
	struct sim_context *context;

	SIM_ENTER(cuProfilerStop);
	SIM_TRY(sim_capture_check_unsafe());
	return sim_context_current(&context);
}
