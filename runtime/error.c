// Implements the functions for the thread's last error, and for the names and texts of errors.
#include "runtime.h"

#include "unsupported.h"

static const struct {
	cudaError_t error;
	const char *name, *text;
} errors[] = {
#define CUDART_ERROR(error, value, text) {error, #error, text},
#include "abi/toolkit/cudart/error.def"
};

cudaError_t rt_record(cudaError_t error)
{
	if (error != cudaSuccess && error != cudaErrorNotReady)
		rt_thread.last_error = error;
	return error;
}

cudaError_t CUDARTAPI cudaGetLastError(void)
{
	cudaError_t error = rt_thread.last_error;

	rt_thread.last_error = cudaSuccess;
	return error;
}

cudaError_t CUDARTAPI cudaPeekAtLastError(void)
{
	return rt_thread.last_error;
}

const char *CUDARTAPI cudaGetErrorName(cudaError_t error)
{
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].error == error)
			return errors[i].name;
	return "unrecognized error code";
}

const char *CUDARTAPI cudaGetErrorString(cudaError_t error)
{
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].error == error)
			return errors[i].text;
	return "unrecognized error code";
}

int rt_not_supported(void)
{
	return rt_record(cudaErrorNotSupported);
}
