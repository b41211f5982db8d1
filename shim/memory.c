// Allocations by address: cuMemAlloc, cuMemAllocPitch, cuMemAllocManaged, and every free.
#include "shim/charge.h"
#include "shim/graph.h"
#include "shim/pool.h"
#include "shim/reclaim.h"

// After the driver's call: keeps the charge under its address, or gives it back.
static CUresult keep(CUresult result, CUdeviceptr address, enum vg_ledger_kind kind, uint64_t bytes)
{
	struct shim_record record = {.key = address, .bytes = bytes, .what = SHIM_POINTER, .kind = (uint8_t)kind};

	if (result != CUDA_SUCCESS) {
		shim_refund(kind, bytes);
		return result;
	}
	record.context = shim_current_context();
	if (shim_record_put(&record) != 0) { // no memory to remember it by: as if the device had none
		REAL(cuMemFree_v2)(address);
		shim_refund(kind, bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

SHIM_EXPORT CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	uint64_t bytes = shim_round_allocation(bytesize);
	CUresult result;

	if (!shim_enforcing())
		return REAL(cuMemAlloc_v2)(dptr, bytesize);
	result = shim_charge(VG_ENTRY_cuMemAlloc_v2, VG_LEDGER_DEVICE, bytes);
	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuMemAlloc_v2)(dptr, bytesize);
	return keep(result, result == CUDA_SUCCESS ? *dptr : 0, VG_LEDGER_DEVICE, bytes);
}

SHIM_EXPORT CUresult CUDAAPI cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize)
{
	uint64_t bytes = shim_round_allocation(bytesize);
	CUresult result;

	if (!shim_enforcing())
		return REAL(cuMemAlloc)(dptr, bytesize);
	result = shim_charge(VG_ENTRY_cuMemAlloc, VG_LEDGER_DEVICE, bytes);
	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuMemAlloc)(dptr, bytesize);
	return keep(result, result == CUDA_SUCCESS ? *dptr : 0, VG_LEDGER_DEVICE, bytes);
}

// The pitch is the driver's to choose: a guess is reserved and set right afterwards.
static CUresult settle_pitch(enum vg_entry entry, CUdeviceptr address, uint64_t guess, size_t pitch, size_t height)
{
	uint64_t bytes = shim_round_allocation((uint64_t)pitch * height);

	if (bytes > guess) {
		CUresult result = shim_charge(entry, VG_LEDGER_DEVICE, bytes - guess);
		if (result != CUDA_SUCCESS) {
			REAL(cuMemFree_v2)(address);
			shim_refund(VG_LEDGER_DEVICE, guess);
			return result;
		}
	} else {
		shim_refund(VG_LEDGER_DEVICE, guess - bytes);
	}
	return keep(CUDA_SUCCESS, address, VG_LEDGER_DEVICE, bytes);
}

static uint64_t pitched(size_t width, size_t height)
{
	uint64_t bytes;

	if (width > UINT64_MAX - 511 || __builtin_mul_overflow((width + 511) & ~(size_t)511, height, &bytes))
		return UINT64_MAX; // no device has it
	return shim_round_allocation(bytes);
}

SHIM_EXPORT CUresult CUDAAPI cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height,
						unsigned int element)
{
	uint64_t guess = pitched(width, height);
	CUresult result;

	if (!shim_enforcing())
		return REAL(cuMemAllocPitch_v2)(dptr, pitch, width, height, element);
	result = shim_charge(VG_ENTRY_cuMemAllocPitch_v2, VG_LEDGER_DEVICE, guess);
	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuMemAllocPitch_v2)(dptr, pitch, width, height, element);
	if (result != CUDA_SUCCESS)
		return keep(result, 0, VG_LEDGER_DEVICE, guess);
	return settle_pitch(VG_ENTRY_cuMemAllocPitch_v2, *dptr, guess, *pitch, height);
}

SHIM_EXPORT CUresult CUDAAPI cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pitch, unsigned int width,
					     unsigned int height, unsigned int element)
{
	uint64_t guess = pitched(width, height);
	CUresult result;

	if (!shim_enforcing())
		return REAL(cuMemAllocPitch)(dptr, pitch, width, height, element);
	result = shim_charge(VG_ENTRY_cuMemAllocPitch, VG_LEDGER_DEVICE, guess);
	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuMemAllocPitch)(dptr, pitch, width, height, element);
	if (result != CUDA_SUCCESS)
		return keep(result, 0, VG_LEDGER_DEVICE, guess);
	return settle_pitch(VG_ENTRY_cuMemAllocPitch, *dptr, guess, *pitch, height);
}

SHIM_EXPORT CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	uint64_t bytes = shim_round_allocation(bytesize);
	CUresult result;

	if (!shim_enforcing())
		return REAL(cuMemAllocManaged)(dptr, bytesize, flags);
	result = shim_charge(VG_ENTRY_cuMemAllocManaged, VG_LEDGER_MANAGED, bytes);
	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuMemAllocManaged)(dptr, bytesize, flags);
	return keep(result, result == CUDA_SUCCESS ? *dptr : 0, VG_LEDGER_MANAGED, bytes);
}

// The record goes before the real free, since the address is reused at once; the charge goes
// after it, since the memory is there until then.
static bool take_record(CUdeviceptr address, struct shim_record *ret_record)
{
	if (!address || !shim_counting())
		return false;
	if (shim_record_take(SHIM_POINTER, address, ret_record))
		return true;
	shim_dirty |= shim_graph_memory; // a graph's allocation, perhaps
	return false;
}

static CUresult finish_free(CUresult result, struct shim_record *record)
{
	if (result != CUDA_SUCCESS) {
		shim_record_put(record); // still there
		return result;
	}
	if (record->origin == SHIM_POOLED)
		shim_pool_freed(record);
	shim_refund_record(record);
	return CUDA_SUCCESS;
}

SHIM_EXPORT CUresult CUDAAPI cuMemFree_v2(CUdeviceptr dptr)
{
	struct shim_record record;

	if (!take_record(dptr, &record))
		return REAL(cuMemFree_v2)(dptr);
	return finish_free(REAL(cuMemFree_v2)(dptr), &record);
}

SHIM_EXPORT CUresult CUDAAPI cuMemFree(CUdeviceptr_v1 dptr)
{
	struct shim_record record;

	if (!take_record(dptr, &record))
		return REAL(cuMemFree)(dptr);
	return finish_free(REAL(cuMemFree)(dptr), &record);
}

// In stream order the memory is there until the stream comes to it.
static CUresult free_async(CUresult (*real)(CUdeviceptr, CUstream), bool per_thread, CUdeviceptr dptr, CUstream stream)
{
	struct shim_record record;
	CUresult result;

	if (!take_record(dptr, &record))
		return real(dptr, stream);
	result = real(dptr, stream);
	if (result != CUDA_SUCCESS) {
		shim_record_put(&record);
		return result;
	}
	if (record.origin == SHIM_POOLED)
		shim_pool_freed(&record);
	shim_refund_in_order(&record, per_thread, stream);
	return CUDA_SUCCESS;
}

SHIM_EXPORT CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr dptr, CUstream stream)
{
	return free_async(REAL(cuMemFreeAsync), false, dptr, stream);
}

SHIM_EXPORT CUresult CUDAAPI cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream stream)
{
	return free_async(REAL(cuMemFreeAsync_ptsz), true, dptr, stream);
}
