// Opens memory of other processes: by IPC handles, pool pointers and external memory. If a vGPU is already charged for
// the memory, this process only notes in that vGPU's ledger that it has the memory open. Otherwise this process is
// charged.
#include "ledger/shared.h"
#include "shim/contexts.h"
#include "shim/evict.h"
#include "shim/log.h"
#include "shim/pool_charge.h"
#include "shim/shared.h"

static uint64_t measure_range(CUdeviceptr address)
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

// Charges this process for opened memory for which no vGPU is charged. The charge comes after the opening, which
// allocates nothing.
static CUresult charge_unknown(enum vg_entry entry, CUdeviceptr address, uint64_t key,
			       struct shim_physical **ret_physical)
{
	uint64_t bytes = shim_round_granularity(measure_range(address));
	CUresult result = shim_charge(entry, VG_LEDGER_IMPORT, bytes);

	if (result != CUDA_SUCCESS)
		return result;
	*ret_physical = shim_physical_create(VG_LEDGER_IMPORT, bytes);
	if (!*ret_physical) {
		shim_refund(VG_LEDGER_IMPORT, bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	shim_shared_name_or_join(*ret_physical, key);
	return CUDA_SUCCESS;
}

// Stores `physical` in the record of an opened address, and takes over the caller's reference to it. If `physical` is
// NULL, this process is charged first (charge_unknown). If the process has opened the address before, its record has a
// reference already. Then the record counts one more opening, and the caller's reference is dropped.
static CUresult store_opened(enum vg_entry entry, CUdeviceptr address, uint64_t key, struct shim_physical *physical)
{
	struct shim_record record;
	CUresult result = CUDA_SUCCESS;

	if (is_opened(address) && shim_record_add_references(SHIM_POINTER, address, 1, &record)) {
		shim_physical_unref(physical);
		return CUDA_SUCCESS;
	}
	if (!physical)
		result = charge_unknown(entry, address, key, &physical);
	if (result != CUDA_SUCCESS)
		return result;
	record = (struct shim_record){.key = address,
				      .data = physical,
				      .context = shim_current_context(),
				      .references = 1,
				      .type = SHIM_POINTER,
				      .kind = VG_LEDGER_IMPORT,
				      .origin = SHIM_OPENED};
	if (shim_record_put(&record) == 0)
		return CUDA_SUCCESS;
	shim_physical_unref(physical);
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
	physical = shim_shared_join(key);
	result = real(address, handle, flags);
	if (result != CUDA_SUCCESS) {
		shim_physical_unref(physical);
		return result;
	}
	result = store_opened(entry, *address, key, physical);
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

	if (!shim_counting() || !is_opened(address) || !shim_record_add_references(SHIM_POINTER, address, -1, &record))
		return REAL(cuIpcCloseMemHandle)(address);
	result = REAL(cuIpcCloseMemHandle)(address);
	if (record.references > 0) {
		if (result != CUDA_SUCCESS)
			shim_record_add_references(SHIM_POINTER, address, 1, &record);
		return result;
	}
	if (result == CUDA_SUCCESS) {
		shim_physical_unref(record.data);
	} else {
		record.references = 1;
		shim_record_put(&record);
	}
	return result;
}

// Says once why the call fails. Libraries that have another way to share memory take it after this error.
static CUresult refuse_sharing(void)
{
	static atomic_flag is_said = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&is_said))
		shim_log(SHIM_ERROR,
			 "vGPU %s: cuIpcGetMemHandle: memory that can move to the host cannot be shared with other "
			 "processes; a program that needs this, such as PyTorch for CUDA tensors, needs a vGPU without "
			 "--evictable",
			 vg_ledger_name(shim_session_ledger()));
	return CUDA_ERROR_NOT_SUPPORTED;
}

// Makes the memory known to processes that open the handle, so that they are not charged again. Small allocations share
// a charged block of 2 MiB, but have a handle each. So several handles may name one block.
SHIM_EXPORT CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
	struct shim_physical *physical;
	CUdeviceptr base = address;
	uint64_t bytes;
	size_t size;

	if (shim_is_evictable(address))
		return refuse_sharing();
	CUresult result = REAL(cuIpcGetMemHandle)(handle, address);
	if (result != CUDA_SUCCESS || !shim_counting())
		return result;
	if (REAL(cuMemGetAddressRange_v2)(&base, &size, address) != CUDA_SUCCESS)
		base = address;
	physical = shim_physical_of_allocation(base, &bytes);
	if (!physical)
		return result; // no vGPU is charged for the memory, so each importer is charged
	shim_shared_name(physical, vg_ledger_key(SHIM_KEY_IPC, handle, sizeof *handle));
	shim_physical_unref(physical);
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
	physical = shim_pool_find_import(pool);
	if (!physical)
		physical = shim_shared_join(key); // another process of the vGPU may have opened the memory before
	result = REAL(cuMemPoolImportPointer)(address, pool, data);
	if (result != CUDA_SUCCESS) {
		shim_physical_unref(physical);
		return result;
	}
	result = store_opened(VG_ENTRY_cuMemPoolImportPointer, *address, key, physical);
	if (result != CUDA_SUCCESS)
		REAL(cuMemFree_v2)(*address);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuImportExternalMemory(CUexternalMemory *memory,
						    const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *description)
{
	struct shim_record record = {.type = SHIM_EXTERNAL, .kind = VG_LEDGER_IMPORT};
	CUresult result;

	if (!shim_enforcing() || !description)
		return REAL(cuImportExternalMemory)(memory, description);
	record.bytes = description->size;
	result = shim_charge(VG_ENTRY_cuImportExternalMemory, VG_LEDGER_IMPORT, record.bytes);
	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuImportExternalMemory)(memory, description);
	if (result != CUDA_SUCCESS) {
		shim_refund_record(&record);
		return result;
	}
	record.key = (uintptr_t)*memory;
	if (shim_record_put(&record) == 0)
		return CUDA_SUCCESS;
	REAL(cuDestroyExternalMemory)(*memory);
	shim_refund_record(&record);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

SHIM_EXPORT CUresult CUDAAPI cuDestroyExternalMemory(CUexternalMemory memory)
{
	struct shim_record record;
	CUresult result;

	if (!shim_counting() || !shim_record_remove(SHIM_EXTERNAL, (uintptr_t)memory, &record))
		return REAL(cuDestroyExternalMemory)(memory);
	result = REAL(cuDestroyExternalMemory)(memory);
	if (result == CUDA_SUCCESS)
		shim_refund_record(&record);
	else
		shim_record_put(&record);
	return result;
}
