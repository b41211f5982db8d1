// Exports physical memory as descriptors.
#include "shim/evict.h"
#include "shim/exported.h"
#include "shim/mapping.h"
#include "shim/registration.h"
#include "shim/shared.h"

SHIM_EXPORT CUresult CUDAAPI cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
							  CUmemAllocationHandleType type, unsigned long long flags)
{
	struct shim_physical *physical = NULL;
	uint64_t bytes;
	CUresult result;

	if (shim_counting() && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		physical = shim_handle_find(handle, &bytes);
	if (!physical)
		return REAL(cuMemExportToShareableHandle)(shareable, handle, type, flags);
	// The driver does not export imported memory (docs/hardware.md). If it did, the descriptor could outlive the
	// process that is charged for the memory.
	result = shim_shared_is_joined(physical) ? CUDA_ERROR_INVALID_VALUE
						 : REAL(cuMemExportToShareableHandle)(shareable, handle, type, flags);
	if (result != CUDA_SUCCESS) {
		shim_physical_unref(physical);
		return result;
	}
	bytes = physical->bytes;
	shim_shared_mark(physical, *(int *)shareable);
	if (shim_exported_watch(*(int *)shareable, physical, bytes))
		shim_register(vg_ledger_name(shim_session_ledger()));
	return result;
}

static void watch_range(int descriptor, struct shim_physical *physical, uint64_t bytes)
{
	shim_exported_watch(descriptor, physical, bytes);
	shim_register(vg_ledger_name(shim_session_ledger()));
}

// Returns the physical memory that contains a range, with a new reference. A dma-buf of a part of that memory keeps the
// whole memory allocated.
static struct shim_physical *find_piece(CUdeviceptr address, size_t size, uint64_t *ret_bytes)
{
	struct shim_physical *physical = shim_mapping_find(address, size, ret_bytes);
	CUdeviceptr base = address;
	size_t whole;

	if (physical)
		return physical;
	if (REAL(cuMemGetAddressRange_v2)(&base, &whole, address) != CUDA_SUCCESS)
		base = address;
	return shim_physical_of_allocation(base, ret_bytes);
}

// Exports a range that is not inside one allocation of this process: it is in several, in a pool, or in memory of
// another process. Charges the range once more, until its descriptors are closed.
static CUresult export_additionally(int *descriptor, CUdeviceptr address, size_t size, CUmemRangeHandleType type,
				    unsigned long long flags)
{
	uint64_t bytes = shim_round_granularity(size);
	struct shim_physical *physical;
	CUresult result = shim_charge(VG_ENTRY_cuMemGetHandleForAddressRange, VG_LEDGER_VMM, bytes);

	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuMemGetHandleForAddressRange)(descriptor, address, size, type, flags);
	physical = result == CUDA_SUCCESS ? shim_physical_create(VG_LEDGER_VMM, bytes) : NULL;
	if (physical)
		watch_range(*descriptor, physical, bytes);
	else if (result != CUDA_SUCCESS)
		shim_refund(VG_LEDGER_VMM, bytes);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t size,
							   CUmemRangeHandleType type, unsigned long long flags)
{
	struct shim_physical *physical;
	uint64_t bytes;
	CUresult result;

	if (shim_is_evictable(address) || shim_evict_is_mapped(address, size))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!shim_counting() || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || shim_exceeds_device(size))
		return REAL(cuMemGetHandleForAddressRange)(handle, address, size, type, flags);
	physical = find_piece(address, size, &bytes);
	if (!physical)
		return export_additionally(handle, address, size, type, flags);
	result = REAL(cuMemGetHandleForAddressRange)(handle, address, size, type, flags);
	if (result == CUDA_SUCCESS)
		watch_range(*(int *)handle, physical, bytes);
	else
		shim_physical_unref(physical);
	return result;
}
