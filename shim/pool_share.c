// Pools between processes. Who imports one holds all of its owner's: what it has opened of it stays until it destroys
// the imported pool, and nobody says how much that is.
#include "ledger/share.h"
#include "shim/physical.h"
#include "shim/pool.h"

SHIM_EXPORT CUresult CUDAAPI cuMemPoolExportToShareableHandle(void *handle, CUmemoryPool pool,
							      CUmemAllocationHandleType type, unsigned long long flags)
{
	CUresult result = REAL(cuMemPoolExportToShareableHandle)(handle, pool, type, flags);

	if (result == CUDA_SUCCESS && shim_counting() && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		shim_pool_exported(pool, *(int *)handle);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle,
								CUmemAllocationHandleType type,
								unsigned long long flags)
{
	struct shim_physical *physical = NULL;
	CUresult result;

	if (shim_counting() && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		physical = shim_share_hold_descriptor(SHIM_KEY_POOL, (int)(intptr_t)handle);
	result = REAL(cuMemPoolImportFromShareableHandle)(pool, handle, type, flags);
	if (result == CUDA_SUCCESS && shim_counting())
		shim_pool_imported(*pool, physical);
	else if (physical)
		shim_physical_drop(physical);
	return result;
}
