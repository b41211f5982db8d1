// Allocations by address: cuMemAlloc, cuMemAllocPitch, cuMemAllocManaged, and every free.
#include "base/hot.h"
#include "shim/charge.h"
#include "shim/evict.h"
#include "shim/graph.h"
#include "shim/pool.h"
#include "shim/reclaim.h"
#include "shim/undeclared.h"
#include "shim/vmm.h"

// Requests up to 1 MiB share blocks of 2 MiB, which the driver takes when the first of them
// comes and gives back after the last. So each 2 MiB of addresses with a small allocation in
// it is charged once.
enum { SMALL = 1 << 20, BLOCK_SHIFT = SHIM_BLOCK_SHIFT };

static bool is_small(uint64_t bytes)
{
	return bytes <= SMALL;
}

// A request on its way: what it was charged, nothing if it may only use a block that is there.
struct request {
	enum vg_entry entry;
	enum vg_ledger_kind kind;
	uint64_t asked;
	uint64_t held;
	bool evictable; // may be; from reserve() on, is
};

VG_HOT static CUresult reserve(struct request *request)
{
	uint64_t bytes = shim_round_granularity(request->asked);
	CUresult result;

	if (shim_counting())
		vg_ledger_warm(shim_session_ledger());
	request->held = bytes;
	request->evictable = request->evictable && !is_small(request->asked) && shim_evict_is_possible();
	if (request->evictable)
		return shim_charge_evictable(request->entry, VG_LEDGER_DEVICE, bytes);
	if (!is_small(request->asked))
		return shim_charge(request->entry, request->kind, bytes);
	if (shim_counting())
		shim_undeclared_follow(shim_session_ledger(), bytes);
	result = shim_charge_quietly(request->kind, bytes);
	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		request->held = 0;
		result = CUDA_SUCCESS;
	}
	return result;
}

// One small allocation fewer. True with the last: the block's charge is the caller's.
static bool take_block(CUdeviceptr address, struct shim_record *ret_block)
{
	struct shim_record block;

	if (!shim_record_count(SHIM_BLOCK, address >> BLOCK_SHIFT, -1, &block) || block.references > 0)
		return false;
	if (shim_record_is_held(&block))
		block.bytes = shim_physical_return(block.data);
	*ret_block = block;
	return true;
}

VG_COLD static void leave_block(CUdeviceptr address)
{
	struct shim_record block;

	if (take_block(address, &block))
		shim_refund_record(&block);
}

// Counts a small allocation in its block and charges a block that is new.
VG_COLD static CUresult enter_block(const struct request *request, CUdeviceptr address, CUcontext context)
{
	struct shim_record block = {.key = address >> BLOCK_SHIFT, .bytes = 1ull << BLOCK_SHIFT, .context = context,
				    .what = SHIM_BLOCK, .kind = (uint8_t)request->kind};
	int joined;
	CUresult result;

	if (!request->held) {
		joined = shim_record_count(SHIM_BLOCK, block.key, 1, &block);
		if (joined)
			return CUDA_SUCCESS;
		result = shim_charge(request->entry, request->kind, block.bytes);
		if (result != CUDA_SUCCESS)
			return result;
	}
	joined = shim_record_join(&block);
	if (joined != 0)
		shim_refund(request->kind, block.bytes); // it was charged when it was new
	return joined < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static void give_back(const struct request *request, CUdeviceptr address)
{
	bool later;

	if (request->evictable)
		shim_evict_free(request->entry, address, &later);
	else
		REAL(cuMemFree_v2)(address);
}

// Allocates what was reserved.
VG_HOT static CUresult allocate(struct request *request, CUdeviceptr *address)
{
	if (request->evictable)
		return shim_evict_allocate(request->entry, address, request->asked);
	return REAL(cuMemAlloc_v2)(address, request->asked);
}

// After the driver's call: keeps the charge under its address, or gives it back.
VG_HOT static CUresult keep(CUresult result, const struct request *request, CUdeviceptr address)
{
	struct shim_record record = {.key = address, .bytes = request->held, .what = SHIM_POINTER,
				     .kind = (uint8_t)request->kind, .origin = SHIM_ALLOCATED};

	if (request->evictable)
		record.origin = SHIM_EVICTABLE;
	if (result != CUDA_SUCCESS) {
		shim_refund_record(&record);
		return result;
	}
	record.context = shim_current_context();
	if (is_small(request->asked)) {
		record.origin = SHIM_SMALL;
		record.bytes = 0;
		result = enter_block(request, address, record.context);
		if (result != CUDA_SUCCESS) {
			REAL(cuMemFree_v2)(address);
			return result;
		}
	}
	if (shim_record_put(&record) == 0)
		return CUDA_SUCCESS;
	give_back(request, address); // no memory to remember it by: as if the device had none
	if (record.origin == SHIM_SMALL)
		leave_block(address);
	shim_refund_record(&record);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

VG_HOT SHIM_EXPORT CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes)
{
	struct request request = {VG_ENTRY_cuMemAlloc_v2, VG_LEDGER_DEVICE, bytes, 0, true};
	CUresult result;

	if (!shim_enforcing())
		return REAL(cuMemAlloc_v2)(dptr, bytes);
	result = reserve(&request);
	if (result != CUDA_SUCCESS) {
		if (dptr)
			*dptr = 0; // as the driver leaves it
		return result;
	}
	result = allocate(&request, dptr);
	return keep(result, &request, result == CUDA_SUCCESS ? *dptr : 0);
}

SHIM_EXPORT CUresult CUDAAPI cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytes)
{
	struct request request = {VG_ENTRY_cuMemAlloc, VG_LEDGER_DEVICE, bytes, 0, false};
	CUresult result;

	if (!shim_enforcing())
		return REAL(cuMemAlloc)(dptr, bytes);
	result = reserve(&request);
	if (result != CUDA_SUCCESS) {
		if (dptr)
			*dptr = 0; // as the driver leaves it
		return result;
	}
	result = REAL(cuMemAlloc)(dptr, bytes);
	return keep(result, &request, result == CUDA_SUCCESS ? *dptr : 0);
}

// The pitch is the driver's to choose: a guess is reserved and set right afterwards.
static CUresult keep_pitched(struct request *request, CUdeviceptr address, size_t pitch, size_t height)
{
	uint64_t guess = request->held;
	CUresult result;

	request->asked = (uint64_t)pitch * height;
	request->held = shim_round_granularity(request->asked);
	if (!guess && is_small(request->asked)) {
		request->held = 0;
	} else if (request->held > guess) {
		result = shim_charge(request->entry, request->kind, request->held - guess);
		if (result != CUDA_SUCCESS) {
			REAL(cuMemFree_v2)(address);
			shim_refund(request->kind, guess);
			return result;
		}
	} else {
		shim_refund(request->kind, guess - request->held);
	}
	return keep(CUDA_SUCCESS, request, address);
}

static uint64_t pitched(size_t width, size_t height)
{
	uint64_t bytes;

	if (width > UINT64_MAX - 511 || __builtin_mul_overflow((width + 511) & ~(size_t)511, height, &bytes))
		return UINT64_MAX; // no device has it
	return bytes;
}

// Evictable memory has the pitch that the driver would choose (docs/hardware.md).
static CUresult allocate_pitched(struct request *request, CUdeviceptr *address, size_t *pitch, size_t width,
				 size_t height, unsigned int element)
{
	bool is_sound = address && pitch && width && height && (element == 4 || element == 8 || element == 16);

	if (request->evictable && !is_sound) {
		request->evictable = false;
		shim_evict_note_charge(-(int64_t)request->held);
	}
	if (!request->evictable)
		return REAL(cuMemAllocPitch_v2)(address, pitch, width, height, element);
	*pitch = (width + 511) & ~(size_t)511;
	return allocate(request, address);
}

SHIM_EXPORT CUresult CUDAAPI cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height,
						unsigned int element)
{
	struct request request = {VG_ENTRY_cuMemAllocPitch_v2, VG_LEDGER_DEVICE, pitched(width, height), 0, true};
	CUresult result;

	if (!shim_enforcing())
		return REAL(cuMemAllocPitch_v2)(dptr, pitch, width, height, element);
	result = reserve(&request);
	if (result != CUDA_SUCCESS)
		return result;
	result = allocate_pitched(&request, dptr, pitch, width, height, element);
	return result == CUDA_SUCCESS ? keep_pitched(&request, *dptr, *pitch, height) : keep(result, &request, 0);
}

SHIM_EXPORT CUresult CUDAAPI cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pitch, unsigned int width,
					     unsigned int height, unsigned int element)
{
	struct request request = {VG_ENTRY_cuMemAllocPitch, VG_LEDGER_DEVICE, pitched(width, height), 0, false};
	CUresult result;

	if (!shim_enforcing())
		return REAL(cuMemAllocPitch)(dptr, pitch, width, height, element);
	result = reserve(&request);
	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuMemAllocPitch)(dptr, pitch, width, height, element);
	return result == CUDA_SUCCESS ? keep_pitched(&request, *dptr, *pitch, height) : keep(result, &request, 0);
}

SHIM_EXPORT CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *dptr, size_t bytes, unsigned int flags)
{
	struct request request = {VG_ENTRY_cuMemAllocManaged, VG_LEDGER_MANAGED, bytes, 0, false};
	CUresult result;

	if (!shim_enforcing())
		return REAL(cuMemAllocManaged)(dptr, bytes, flags);
	result = reserve(&request);
	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuMemAllocManaged)(dptr, bytes, flags);
	return keep(result, &request, result == CUDA_SUCCESS ? *dptr : 0);
}

// The record goes before the real free, since the address is reused at once; the charge goes
// after it, since the memory is there until then.
VG_HOT static bool take_record(CUdeviceptr address, struct shim_record *ret_record)
{
	if (!address || !shim_counting())
		return false;
	if (shim_record_take(SHIM_POINTER, address, ret_record))
		return true;
	shim_dirty |= shim_graph_memory; // a graph's allocation, perhaps
	return false;
}

VG_HOT static CUresult finish_free(CUresult result, struct shim_record *record)
{
	if (result != CUDA_SUCCESS) {
		shim_record_put(record); // still there
		return result;
	}
	if (record->origin == SHIM_POOLED)
		shim_pool_freed(record);
	else if (record->origin == SHIM_SMALL)
		leave_block(record->key);
	else if (shim_record_is_held(record))
		record->bytes = shim_physical_return(record->data);
	shim_refund_record(record);
	return CUDA_SUCCESS;
}

VG_COLD static CUresult free_evictable(enum vg_entry entry, struct shim_record *record)
{
	bool later;
	CUresult result = shim_evict_free(entry, record->key, &later);

	if (result == CUDA_SUCCESS && later)
		return result;
	return finish_free(result, record);
}

VG_HOT SHIM_EXPORT CUresult CUDAAPI cuMemFree_v2(CUdeviceptr dptr)
{
	struct shim_record record;

	if (!take_record(dptr, &record))
		return REAL(cuMemFree_v2)(dptr);
	if (record.origin == SHIM_EVICTABLE)
		return free_evictable(VG_ENTRY_cuMemFree_v2, &record);
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
	if (record.origin == SHIM_EVICTABLE)
		return free_evictable(VG_ENTRY_cuMemFreeAsync, &record); // after all work, so after the stream's
	result = real(dptr, stream);
	if (result != CUDA_SUCCESS) {
		shim_record_put(&record);
		return result;
	}
	if (record.origin == SHIM_POOLED)
		shim_pool_freed(&record);
	else if (shim_record_is_held(&record))
		record.bytes = shim_physical_return(record.data);
	else if (record.origin == SHIM_SMALL && !take_block(record.key, &record))
		return CUDA_SUCCESS;
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
