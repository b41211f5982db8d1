// The profiler switches: there is nothing to profile, switching is legal.
#include "sim.h"

CUresult CUDAAPI cuProfilerStart(void)
{
	struct sim_context *context;

	SIM_ENTER(cuProfilerStart);
	return sim_context_current(&context);
}

CUresult CUDAAPI cuProfilerStop(void)
{
	struct sim_context *context;

	SIM_ENTER(cuProfilerStop);
	return sim_context_current(&context);
}
