// Finds the driver's functions by name for the program. Compiled twice, for the legacy and the per-thread default
// stream.
#include "runtime.h"

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
enum { DEFAULT_FLAGS = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM };
#else
enum { DEFAULT_FLAGS = CU_GET_PROC_ADDRESS_DEFAULT };
#endif

static cudaError_t find_entry(const char *name, void **ret_function, unsigned version, unsigned long long flags,
			      enum cudaDriverEntryPointQueryResult *ret_status)
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;

	if (!name || !*name || !ret_function || flags > cudaEnablePerThreadDefaultStream)
		return cudaErrorInvalidValue;
	CUresult result = rt_driver.cuGetProcAddress_v2(name, ret_function, (int)version,
							flags ? flags : (unsigned long long)DEFAULT_FLAGS, &status);
	if (ret_status)
		*ret_status = (enum cudaDriverEntryPointQueryResult)status;
	// If the caller requests the status, the call succeeds, and the status says that the driver lacks the function.
	return result == CUDA_ERROR_NOT_FOUND && ret_status ? cudaSuccess : rt_error(result);
}

cudaError_t CUDARTAPI cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags,
					      enum cudaDriverEntryPointQueryResult *driverStatus)
{
	RT_CALL_INITIALIZED(find_entry(symbol, funcPtr, CUDART_VERSION, flags, driverStatus));
}

cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr, unsigned int cudaVersion,
						       unsigned long long flags,
						       enum cudaDriverEntryPointQueryResult *driverStatus)
{
	RT_CALL_INITIALIZED(find_entry(symbol, funcPtr, cudaVersion, flags, driverStatus));
}
