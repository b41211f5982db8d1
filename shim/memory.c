// Charges allocations by address: cuMemAlloc, cuMemAllocPitch, cuMemAllocManaged, and every free.
#include "base/hot.h"
#include "shim/contexts.h"
#include "shim/evict.h"
#include "shim/graph_charge.h"
#include "shim/physical.h"
#include "shim/pool_charge.h"
#include "shim/reclaim.h"
#include "shim/stream_refund.h"
#include "shim/undeclared.h"

// Requests of up to 1 MiB share blocks of 2 MiB. The driver allocates a block for the first request and frees it after
// the last one. So each block is charged once.
enum { SMALL = 1 << 20 };

static bool is_small(uint64_t bytes)
{
	return bytes <= SMALL;
}

struct request {
	enum vg_entry entry;
	enum vg_ledger_kind kind;
	uint64_t asked;
	// Bytes charged. If charge_request() sets it to 0, the limit has no room for a new block. The request then
	// succeeds only if an existing block has room for it.
	uint64_t charged;
	// Before charge_request(): whether evictable memory is allowed. Afterwards: whether the request uses it.
	bool is_evictable;
};

VG_HOT static CUresult charge_request(struct request *request)
{
	uint64_t bytes = shim_round_granularity(request->asked);
	CUresult result;

	if (shim_counting())
		vg_ledger_warm(shim_session_ledger());
	request->charged = bytes;
	request->is_evictable = request->is_evictable && !is_small(request->asked) && shim_evict_is_possible();
	if (request->is_evictable)
		return shim_charge_evictable(request->entry, VG_LEDGER_DEVICE, bytes);
	if (!is_small(request->asked))
		return shim_charge(request->entry, request->kind, bytes);
	if (shim_counting())
		shim_undeclared_update(shim_session_ledger(), bytes);
	result = shim_charge_quietly(request->kind, bytes);
	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		request->charged = 0;
		result = CUDA_SUCCESS;
	}
	return result;
}

// Removes a small allocation from the block that it shares with others. Returns true if it was the last one in the
// block: then the caller refunds the block.
static bool leave_block(CUdeviceptr address, struct shim_record *ret_block)
{
	struct shim_record block;

	if (!shim_record_add_references(SHIM_BLOCK, address >> SHIM_BLOCK_SHIFT, -1, &block) || block.references > 0)
		return false;
	if (shim_record_has_physical(&block))
		block.bytes = shim_physical_detach(block.data);
	*ret_block = block;
	return true;
}

VG_COLD static void leave_and_refund_block(CUdeviceptr address)
{
	struct shim_record block;

	if (leave_block(address, &block))
		shim_refund_record(&block);
}

// Adds a small allocation to the block of 2 MiB that contains its address, and charges the block if it is new.
VG_COLD static CUresult enter_block(const struct request *request, CUdeviceptr address, CUcontext context)
{
	struct shim_record block = {.key = address >> SHIM_BLOCK_SHIFT,
				    .bytes = 1ull << SHIM_BLOCK_SHIFT,
				    .context = context,
				    .type = SHIM_BLOCK,
				    .kind = (uint8_t)request->kind};
	int joined;
	CUresult result;

	if (!request->charged) {
		joined = shim_record_add_references(SHIM_BLOCK, block.key, 1, &block);
		if (joined)
			return CUDA_SUCCESS;
		result = shim_charge(request->entry, request->kind, block.bytes);
		if (result != CUDA_SUCCESS)
			return result;
	}
	joined = shim_record_reference_or_put(&block);
	if (joined != 0)
		shim_refund(request->kind, block.bytes); // another thread's request has charged the same block
	return joined < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static void free_request(const struct request *request, CUdeviceptr address)
{
	bool later;

	if (request->is_evictable)
		shim_evict_free(request->entry, address, &later);
	else
		REAL(cuMemFree_v2)(address);
}

// Allocates memory that charge_request() has charged.
VG_HOT static CUresult allocate_charged(struct request *request, CUdeviceptr *address)
{
	if (request->is_evictable)
		return shim_evict_allocate(request->entry, address, request->asked);
	return REAL(cuMemAlloc_v2)(address, request->asked);
}

// Keeps the charge in a record after a successful driver call, or refunds it.
VG_HOT static CUresult finish_allocation(CUresult result, const struct request *request, CUdeviceptr address)
{
	struct shim_record record = {.key = address,
				     .bytes = request->charged,
				     .type = SHIM_POINTER,
				     .kind = (uint8_t)request->kind,
				     .origin = SHIM_ALLOCATED};

	if (request->is_evictable)
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
	free_request(request, address); // there is no host memory for the record
	if (record.origin == SHIM_SMALL)
		leave_and_refund_block(address);
	shim_refund_record(&record);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

VG_HOT SHIM_EXPORT CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes)
{
	struct request request = {VG_ENTRY_cuMemAlloc_v2, VG_LEDGER_DEVICE, bytes, 0, true};
	CUresult result;

	if (!shim_enforcing())
		return REAL(cuMemAlloc_v2)(dptr, bytes);
	result = charge_request(&request);
	if (result != CUDA_SUCCESS) {
		if (dptr)
			*dptr = 0; // the driver also writes 0 here
		return result;
	}
	result = allocate_charged(&request, dptr);
	return finish_allocation(result, &request, result == CUDA_SUCCESS ? *dptr : 0);
}

SHIM_EXPORT CUresult CUDAAPI cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytes)
{
	struct request request = {VG_ENTRY_cuMemAlloc, VG_LEDGER_DEVICE, bytes, 0, false};
	CUresult result;

	if (!shim_enforcing())
		return REAL(cuMemAlloc)(dptr, bytes);
	result = charge_request(&request);
	if (result != CUDA_SUCCESS) {
		if (dptr)
			*dptr = 0; // the driver also writes 0 here
		return result;
	}
	result = REAL(cuMemAlloc)(dptr, bytes);
	return finish_allocation(result, &request, result == CUDA_SUCCESS ? *dptr : 0);
}

// Corrects the charge after the driver call. The charge was an estimate, because the driver chooses the pitch.
static CUresult finish_pitched(struct request *request, CUdeviceptr address, size_t pitch, size_t height)
{
	uint64_t guess = request->charged;
	CUresult result;

	request->asked = (uint64_t)pitch * height;
	request->charged = shim_round_granularity(request->asked);
	if (!guess && is_small(request->asked)) {
		request->charged = 0;
	} else if (request->charged > guess) {
		result = shim_charge(request->entry, request->kind, request->charged - guess);
		if (result != CUDA_SUCCESS) {
			REAL(cuMemFree_v2)(address);
			shim_refund(request->kind, guess);
			return result;
		}
	} else {
		shim_refund(request->kind, guess - request->charged);
	}
	return finish_allocation(CUDA_SUCCESS, request, address);
}

static uint64_t guess_pitched(size_t width, size_t height)
{
	uint64_t bytes;

	if (width > UINT64_MAX - 511 || __builtin_mul_overflow((width + 511) & ~(size_t)511, height, &bytes))
		return UINT64_MAX; // more than any device has
	return bytes;
}

// Gives evictable memory the pitch that the driver would choose (docs/hardware.md).
static CUresult allocate_pitched(struct request *request, CUdeviceptr *address, size_t *pitch, size_t width,
				 size_t height, unsigned int element)
{
	bool is_valid = address && pitch && width && height && (element == 4 || element == 8 || element == 16);

	if (request->is_evictable && !is_valid) {
		request->is_evictable = false;
		shim_fixed_note_evictable(-(int64_t)request->charged);
	}
	if (!request->is_evictable)
		return REAL(cuMemAllocPitch_v2)(address, pitch, width, height, element);
	*pitch = (width + 511) & ~(size_t)511;
	return allocate_charged(request, address);
}

SHIM_EXPORT CUresult CUDAAPI cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height,
						unsigned int element)
{
	struct request request = {VG_ENTRY_cuMemAllocPitch_v2, VG_LEDGER_DEVICE, guess_pitched(width, height), 0, true};
	CUresult result;

	if (!shim_enforcing())
		return REAL(cuMemAllocPitch_v2)(dptr, pitch, width, height, element);
	result = charge_request(&request);
	if (result != CUDA_SUCCESS)
		return result;
	result = allocate_pitched(&request, dptr, pitch, width, height, element);
	return result == CUDA_SUCCESS ? finish_pitched(&request, *dptr, *pitch, height)
				      : finish_allocation(result, &request, 0);
}

SHIM_EXPORT CUresult CUDAAPI cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pitch, unsigned int width,
					     unsigned int height, unsigned int element)
{
	struct request request = {VG_ENTRY_cuMemAllocPitch, VG_LEDGER_DEVICE, guess_pitched(width, height), 0, false};
	CUresult result;

	if (!shim_enforcing())
		return REAL(cuMemAllocPitch)(dptr, pitch, width, height, element);
	result = charge_request(&request);
	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuMemAllocPitch)(dptr, pitch, width, height, element);
	return result == CUDA_SUCCESS ? finish_pitched(&request, *dptr, *pitch, height)
				      : finish_allocation(result, &request, 0);
}

SHIM_EXPORT CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *dptr, size_t bytes, unsigned int flags)
{
	struct request request = {VG_ENTRY_cuMemAllocManaged, VG_LEDGER_MANAGED, bytes, 0, false};
	CUresult result;

	if (!shim_enforcing())
		return REAL(cuMemAllocManaged)(dptr, bytes, flags);
	result = charge_request(&request);
	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuMemAllocManaged)(dptr, bytes, flags);
	return finish_allocation(result, &request, result == CUDA_SUCCESS ? *dptr : 0);
}

// Removes the record before the driver call, because the driver may reuse the address at once. The charge is refunded
// after the call.
VG_HOT static bool remove_record(CUdeviceptr address, struct shim_record *ret_record)
{
	if (!address || !shim_counting())
		return false;
	if (shim_record_remove(SHIM_POINTER, address, ret_record))
		return true;
	shim_needs_reconcile |= shim_may_have_graph_memory; // the address may belong to a graph's allocation
	return false;
}

VG_HOT static CUresult finish_free(CUresult result, struct shim_record *record)
{
	if (result != CUDA_SUCCESS) {
		shim_record_put(record); // the driver call failed, so the allocation still exists
		return result;
	}
	if (record->origin == SHIM_POOLED)
		shim_pool_note_free(record);
	else if (record->origin == SHIM_SMALL)
		leave_and_refund_block(record->key);
	else if (shim_record_has_physical(record))
		record->bytes = shim_physical_detach(record->data);
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

	if (!remove_record(dptr, &record))
		return REAL(cuMemFree_v2)(dptr);
	if (record.origin == SHIM_EVICTABLE)
		return free_evictable(VG_ENTRY_cuMemFree_v2, &record);
	return finish_free(REAL(cuMemFree_v2)(dptr), &record);
}

SHIM_EXPORT CUresult CUDAAPI cuMemFree(CUdeviceptr_v1 dptr)
{
	struct shim_record record;

	if (!remove_record(dptr, &record))
		return REAL(cuMemFree)(dptr);
	return finish_free(REAL(cuMemFree)(dptr), &record);
}

// Frees an allocation in stream order. The memory exists until the stream reaches the free.
static CUresult free_async(CUresult (*real)(CUdeviceptr, CUstream), bool is_per_thread, CUdeviceptr dptr,
			   CUstream stream)
{
	struct shim_record record;
	CUresult result;

	if (!remove_record(dptr, &record))
		return real(dptr, stream);
	if (record.origin == SHIM_EVICTABLE)
		// free_evictable() waits until all work on the device has ended, so also the work of this stream
		return free_evictable(VG_ENTRY_cuMemFreeAsync, &record);
	result = real(dptr, stream);
	if (result != CUDA_SUCCESS) {
		shim_record_put(&record);
		return result;
	}
	if (record.origin == SHIM_POOLED)
		shim_pool_note_free(&record);
	else if (shim_record_has_physical(&record))
		record.bytes = shim_physical_detach(record.data);
	else if (record.origin == SHIM_SMALL && !leave_block(record.key, &record))
		return CUDA_SUCCESS;
	shim_stream_refund(&record, is_per_thread, stream);
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
