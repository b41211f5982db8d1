// Memory of other processes by handles and pointers. What somebody has charged already is joined before it is opened
// (ledger/share.h); for what nobody knows the opener is charged.
#include "ledger/share.h"
#include "shim/evict.h"
#include "shim/pool.h"
#include "shim/share.h"

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

// For memory that an open has just made visible. Nothing was allocated by it, so the charge may come after the call.
static CUresult charge_unknown(enum vg_entry entry, CUdeviceptr address, uint64_t key,
			       struct shim_physical **ret_physical)
{
	uint64_t bytes = shim_round_granularity(range_size(address));
	CUresult result = shim_charge(entry, VG_LEDGER_IMPORT, bytes);

	if (result != CUDA_SUCCESS)
		return result;
	*ret_physical = shim_physical_new(VG_LEDGER_IMPORT, bytes);
	if (!*ret_physical) {
		shim_refund(VG_LEDGER_IMPORT, bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	shim_share_offer(*ret_physical, key);
	return CUDA_SUCCESS;
}

// Takes over the hold of `physical`, which may be NULL. One address opened twice holds once.
static CUresult keep_opened(enum vg_entry entry, CUdeviceptr address, uint64_t key, struct shim_physical *physical)
{
	struct shim_record record;
	CUresult result = CUDA_SUCCESS;

	if (is_opened(address) && shim_record_count(SHIM_POINTER, address, 1, &record)) {
		if (physical)
			shim_physical_drop(physical);
		return CUDA_SUCCESS;
	}
	if (!physical)
		result = charge_unknown(entry, address, key, &physical);
	if (result != CUDA_SUCCESS)
		return result;
	record = (struct shim_record){.key = address, .data = physical, .context = shim_current_context(),
				      .references = 1, .what = SHIM_POINTER, .kind = VG_LEDGER_IMPORT,
				      .origin = SHIM_OPENED};
	if (shim_record_put(&record) == 0)
		return CUDA_SUCCESS;
	shim_physical_drop(physical);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult open_handle(enum vg_entry entry, CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags,
			    CUresult (*real)(CUdeviceptr *, CUipcMemHandle, unsigned int))
{
	uint64_t key = vg_ledger_key(SHIM_KEY_IPC, &handle, sizeof handle);
	struct shim_physical *physical;
	CUresult result;

	if (!shim_enforcing())
		return real(address, handle, flags);
	physical = shim_share_hold(key);
	result = real(address, handle, flags);
	if (result != CUDA_SUCCESS) {
		if (physical)
			shim_physical_drop(physical);
		return result;
	}
	result = keep_opened(entry, *address, key, physical);
	if (result != CUDA_SUCCESS)
		REAL(cuIpcCloseMemHandle)(*address);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
	return open_handle(VG_ENTRY_cuIpcOpenMemHandle_v2, address, handle, flags, REAL(cuIpcOpenMemHandle_v2));
}

SHIM_EXPORT CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
	return open_handle(VG_ENTRY_cuIpcOpenMemHandle, address, handle, flags, REAL(cuIpcOpenMemHandle));
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
		shim_physical_drop(record.data);
	} else {
		record.references = 1;
		shim_record_put(&record);
	}
	return result;
}

// Whoever opens the handle finds what is charged here. The memory may be a small allocation's, which shares a block
// with others, and has a handle of its own: the block has both names then.
SHIM_EXPORT CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
	struct shim_physical *physical;
	CUdeviceptr base = address;
	uint64_t bytes;
	size_t size;

	if (shim_is_evictable(address))
		return CUDA_ERROR_NOT_SUPPORTED;
	CUresult result = REAL(cuIpcGetMemHandle)(handle, address);
	if (result != CUDA_SUCCESS || !shim_counting())
		return result;
	if (REAL(cuMemGetAddressRange_v2)(&base, &size, address) != CUDA_SUCCESS)
		base = address;
	physical = shim_physical_lend(base, &bytes);
	if (!physical)
		return result; // nothing that is ours: its importers are charged
	shim_share_publish(physical, vg_ledger_key(SHIM_KEY_IPC, handle, sizeof *handle));
	shim_physical_drop(physical);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuMemPoolImportPointer(CUdeviceptr *address, CUmemoryPool pool,
						    CUmemPoolPtrExportData *data)
{
	struct shim_physical *physical;
	CUresult result;
	uint64_t key;

	if (!shim_enforcing() || !data)
		return REAL(cuMemPoolImportPointer)(address, pool, data);
	key = vg_ledger_key(SHIM_KEY_POINTER, data, sizeof *data);
	physical = shim_pool_hold(pool);
	if (!physical)
		physical = shim_share_hold(key); // somebody else here has it from outside
	result = REAL(cuMemPoolImportPointer)(address, pool, data);
	if (result != CUDA_SUCCESS) {
		if (physical)
			shim_physical_drop(physical);
		return result;
	}
	result = keep_opened(VG_ENTRY_cuMemPoolImportPointer, *address, key, physical);
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
