// Implements the functions for memory and events of other processes.
#include "runtime.h"

_Static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle), "handles are passed unchanged");
_Static_assert(sizeof(cudaIpcEventHandle_t) == sizeof(CUipcEventHandle), "handles are passed unchanged");

cudaError_t CUDARTAPI cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *devPtr)
{
	RT_CALL(rt_driver.cuIpcGetMemHandle((CUipcMemHandle *)handle, (CUdeviceptr)devPtr));
}

static cudaError_t open_memory(void **ret_pointer, const cudaIpcMemHandle_t *handle, unsigned flags)
{
	CUipcMemHandle given;

	memcpy(&given, handle, sizeof given);
	return rt_error(rt_driver.cuIpcOpenMemHandle_v2((CUdeviceptr *)ret_pointer, given, flags));
}

cudaError_t CUDARTAPI cudaIpcOpenMemHandle(void **devPtr, cudaIpcMemHandle_t handle, unsigned int flags)
{
	RT_CALL(open_memory(devPtr, &handle, flags));
}

cudaError_t CUDARTAPI cudaIpcCloseMemHandle(void *devPtr)
{
	RT_CALL(rt_driver.cuIpcCloseMemHandle((CUdeviceptr)devPtr));
}

cudaError_t CUDARTAPI cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
	RT_CALL(rt_driver.cuIpcGetEventHandle((CUipcEventHandle *)handle, event));
}

static cudaError_t open_event(cudaEvent_t *ret_event, const cudaIpcEventHandle_t *handle)
{
	CUipcEventHandle given;

	memcpy(&given, handle, sizeof given);
	return rt_error(rt_driver.cuIpcOpenEventHandle(ret_event, given));
}

cudaError_t CUDARTAPI cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
	RT_CALL(open_event(event, &handle));
}
