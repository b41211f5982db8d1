// Memory that came from elsewhere: it carries no identity, so whoever opens it is charged
// for it too (over-counted, never under).
#include "shim/charge.h"
#include "shim/vmm.h"

static uint64_t range_size(CUdeviceptr address)
{
	SHIM_RELAXED;
	CUdeviceptr base;
	size_t size = 0;

	return REAL(cuMemGetAddressRange_v2)(&base, &size, address) == CUDA_SUCCESS ? size : 0;
}

static bool is_opened(CUdeviceptr address)
{
	struct shim_record record;

	return shim_record_find(SHIM_POINTER, address, &record) && record.origin == SHIM_OPENED;
}

// Charges for memory that an open has just made visible. Nothing was allocated by it, so the
// charge may come after the call. One address opened twice is one charge.
static CUresult charge_opened(enum vg_entry entry, CUdeviceptr address)
{
	struct shim_record record;
	CUresult result;

	if (is_opened(address) && shim_record_count(SHIM_POINTER, address, 1, &record))
		return CUDA_SUCCESS;
	record = (struct shim_record){.key = address, .bytes = range_size(address), .context = shim_current_context(),
				      .references = 1, .what = SHIM_POINTER, .kind = VG_LEDGER_IMPORT,
				      .origin = SHIM_OPENED};
	result = shim_charge(entry, VG_LEDGER_IMPORT, record.bytes);
	if (result != CUDA_SUCCESS)
		return result;
	if (shim_record_put(&record) == 0)
		return CUDA_SUCCESS;
	shim_refund_record(&record);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult finish_open(enum vg_entry entry, CUresult result, CUdeviceptr *address)
{
	if (result != CUDA_SUCCESS || !shim_enforcing())
		return result;
	result = charge_opened(entry, *address);
	if (result != CUDA_SUCCESS)
		REAL(cuIpcCloseMemHandle)(*address);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
	return finish_open(VG_ENTRY_cuIpcOpenMemHandle_v2, REAL(cuIpcOpenMemHandle_v2)(address, handle, flags),
			   address);
}

SHIM_EXPORT CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
	return finish_open(VG_ENTRY_cuIpcOpenMemHandle, REAL(cuIpcOpenMemHandle)(address, handle, flags), address);
}

SHIM_EXPORT CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr address)
{
	struct shim_record record;
	CUresult result;

	if (!shim_counting() || !is_opened(address) || !shim_record_count(SHIM_POINTER, address, -1, &record))
		return REAL(cuIpcCloseMemHandle)(address);
	result = REAL(cuIpcCloseMemHandle)(address);
	if (record.references > 0) {
		if (result != CUDA_SUCCESS)
			shim_record_count(SHIM_POINTER, address, 1, &record);
		return result;
	}
	if (result == CUDA_SUCCESS) {
		shim_refund_record(&record);
	} else {
		record.references = 1;
		shim_record_put(&record);
	}
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuMemPoolImportPointer(CUdeviceptr *address, CUmemoryPool pool,
						    CUmemPoolPtrExportData *data)
{
	CUresult result = REAL(cuMemPoolImportPointer)(address, pool, data);

	if (result != CUDA_SUCCESS || !shim_enforcing())
		return result;
	result = charge_opened(VG_ENTRY_cuMemPoolImportPointer, *address);
	if (result != CUDA_SUCCESS)
		REAL(cuMemFree_v2)(*address);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuImportExternalMemory(CUexternalMemory *memory,
						    const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *description)
{
	struct shim_record record = {.what = SHIM_EXTERNAL, .kind = VG_LEDGER_IMPORT};
	CUresult result;

	if (!shim_enforcing() || !description)
		return REAL(cuImportExternalMemory)(memory, description);
	record.bytes = description->size;
	result = shim_charge(VG_ENTRY_cuImportExternalMemory, VG_LEDGER_IMPORT, record.bytes);
	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuImportExternalMemory)(memory, description);
	if (result == CUDA_SUCCESS) {
		record.key = (uintptr_t)*memory;
		if (shim_record_put(&record) == 0)
			return CUDA_SUCCESS;
		REAL(cuDestroyExternalMemory)(*memory);
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	shim_refund_record(&record);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuDestroyExternalMemory(CUexternalMemory memory)
{
	struct shim_record record;
	CUresult result;

	if (!shim_counting() || !shim_record_take(SHIM_EXTERNAL, (uintptr_t)memory, &record))
		return REAL(cuDestroyExternalMemory)(memory);
	result = REAL(cuDestroyExternalMemory)(memory);
	if (result == CUDA_SUCCESS)
		shim_refund_record(&record);
	else
		shim_record_put(&record);
	return result;
}
