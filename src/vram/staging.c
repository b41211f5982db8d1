// Reads long ranges in parts, so that other readers get the driver and the copy engine between two parts.
//
// A read into pageable memory goes through two page-locked buffers: while the host copies from one, the device fills
// the other. The driver's own copy works in the same way, but holds a lock from the first byte to the last. A read into
// page-locked memory waits for each part before it queues the next. The reason: while one stream has more copies
// queued, the copy engine of an H200 serves no other stream.
#include "vram/staging.h"

#include "core/error.h"

#include <emmintrin.h>
#include <stdint.h>
#include <string.h>

// Size of a part in bytes: SLOT through the buffers (15 GB/s), DIRECT for a copy directly to the destination (55 GB/s).
// The parts are so large that the time of the calls does not matter.
enum { SLOT = 1 << 20, DIRECT = 32 << 20, SLOTS = 2 };

struct transfer {
	char *slots;	// page-locked buffers; NULL: copy directly to the destination
	size_t part;	// the transfer is done in parts of this size: SLOT or DIRECT
	unsigned parts; // maximum number of parts that are queued at the same time
	CUevent arrived[SLOTS];
	size_t begun, ended;  // number of bytes that were queued, and number that have arrived
	unsigned first, next; // index of the oldest queued part, and of the next part to queue
};

// Copies with stores that bypass the caches. The data do not fit in the caches, and a normal store would first read the
// memory that it overwrites.
static void copy_uncached(char *to, const char *from, size_t bytes)
{
	size_t head = -(uintptr_t)to % 16;

	if (bytes < 4096 || head > bytes) {
		memcpy(to, from, bytes);
		return;
	}
	memcpy(to, from, head);
	size_t i = head;
	for (; i + 64 <= bytes; i += 64)
		for (size_t k = 0; k < 64; k += 16)
			_mm_stream_si128((__m128i *)(to + i + k), _mm_loadu_si128((const __m128i *)(from + i + k)));
	_mm_sfence();
	memcpy(to + i, from + i, bytes - i);
}

static size_t get_part_size(const struct transfer *transfer, size_t at, size_t bytes)
{
	return bytes - at < transfer->part ? bytes - at : transfer->part;
}

static CUresult begin_part(struct transfer *transfer, char *to, CUdeviceptr from, size_t bytes)
{
	const unsigned which = transfer->next++ % transfer->parts;
	const size_t part = get_part_size(transfer, transfer->begun, bytes);

	CUresult r = core_driver->cuMemcpyDtoHAsync_v2(transfer->slots ? transfer->slots + which * transfer->part
								       : to + transfer->begun,
						       from + transfer->begun, part, CU_STREAM_PER_THREAD);
	transfer->begun += part;
	return r ? r : core_driver->cuEventRecord(transfer->arrived[which], CU_STREAM_PER_THREAD);
}

static CUresult end_part(struct transfer *transfer, char *to, size_t bytes)
{
	const unsigned which = transfer->first++ % transfer->parts;
	const size_t part = get_part_size(transfer, transfer->ended, bytes);

	CUresult r = core_driver->cuEventSynchronize(transfer->arrived[which]);
	if (r == CUDA_SUCCESS && transfer->slots)
		copy_uncached(to + transfer->ended, transfer->slots + which * transfer->part, part);
	transfer->ended += part;
	return r;
}

static CUresult run_transfer(struct transfer *transfer, char *to, CUdeviceptr from, size_t bytes)
{
	CUresult r = CUDA_SUCCESS;

	for (unsigned i = 0; i < transfer->parts && r == CUDA_SUCCESS; i++)
		r = core_driver->cuEventCreate(&transfer->arrived[i], CU_EVENT_DISABLE_TIMING);
	while (r == CUDA_SUCCESS && transfer->ended < bytes) {
		while (r == CUDA_SUCCESS && transfer->begun < bytes &&
		       transfer->next - transfer->first < transfer->parts)
			r = begin_part(transfer, to, from, bytes);
		if (r == CUDA_SUCCESS)
			r = end_part(transfer, to, bytes);
	}
	if (r)
		(void)core_driver->cuStreamSynchronize(
			CU_STREAM_PER_THREAD); // wait here: after the return, no copy may write to `to`
	for (unsigned i = 0; i < transfer->parts && transfer->arrived[i]; i++)
		(void)core_driver->cuEventDestroy_v2(transfer->arrived[i]);
	return r;
}

// Returns whether `to` is pageable memory. The driver knows page-locked, managed and device memory only, and not
// pageable memory.
static bool is_pageable(const void *to)
{
	unsigned type;

	return core_asked(core_driver->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)to)) !=
	       CUDA_SUCCESS;
}

enum vg_status vram_read_long(struct vram_scratch_list *slots, void *to, CUdeviceptr from, size_t bytes)
{
	struct vram_scratch *scratch = NULL;
	struct transfer transfer = {.part = DIRECT, .parts = 1};

	if (is_pageable(to)) {
		enum vg_status status = vram_scratch_acquire(slots, SLOTS * SLOT, &scratch);
		if (status)
			return status;
		transfer.slots = (char *)(uintptr_t)vg_buffer_address(scratch->buffer);
		transfer.part = SLOT;
		transfer.parts = SLOTS;
	}
	CUresult r = run_transfer(&transfer, to, from, bytes);
	if (scratch)
		vram_scratch_release(slots, scratch);
	return r ? core_driver_failed(r, "cuMemcpyDtoHAsync", "%zu bytes, of which %zu arrived", bytes, transfer.ended)
		 : VG_OK;
}
