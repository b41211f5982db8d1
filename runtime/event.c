// Events.
#include "runtime.h"

cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t *event)
{
	RT_CALL(rt_driver.cuEventCreate(event, CU_EVENT_DEFAULT));
}

cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
	RT_CALL(rt_driver.cuEventCreate(event, flags));
}

cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event)
{
	RT_CALL(rt_driver.cuEventQuery(event));
}

cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t event)
{
	RT_CALL(rt_driver.cuEventSynchronize(event));
}

cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event)
{
	RT_CALL(rt_driver.cuEventDestroy_v2(event));
}

cudaError_t CUDARTAPI cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
	RT_CALL(rt_driver.cuEventElapsedTime_v2(ms, start, end));
}
