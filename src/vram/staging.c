// Long reads into pageable memory.
//
// The driver's own copy holds one of its locks from the first byte to the last, and whoever reads beside it waits. So
// the bytes come through page-locked memory of the context, a slot at a time: while one is copied out, the device fills
// the other, and the driver is held for the length of a call.
#include "vram/staging.h"

#include "core/error.h"

#include <emmintrin.h>
#include <stdint.h>
#include <string.h>

enum { SLOT = 1 << 20, SLOTS = 2 };

struct way {
	char *slots;
	CUevent filled[SLOTS];
	size_t begun, ended;  // bytes that were queued, and that have arrived
	unsigned first, next; // slots, counted from the begin
};

// Past the caches: what is read does not fit them, and fetching what is overwritten would cost as much again.
static void move(char *to, const char *from, size_t bytes)
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

static CUresult fill(struct way *way, CUdeviceptr from, size_t bytes)
{
	const unsigned slot = way->next++ % SLOTS;
	const size_t part = bytes - way->begun < SLOT ? bytes - way->begun : SLOT;

	CUresult r = core_driver->cuMemcpyDtoHAsync_v2(way->slots + (size_t)slot * SLOT, from + way->begun, part,
						       CU_STREAM_PER_THREAD);
	way->begun += part;
	return r ? r : core_driver->cuEventRecord(way->filled[slot], CU_STREAM_PER_THREAD);
}

static CUresult empty(struct way *way, char *to, size_t bytes)
{
	const unsigned slot = way->first++ % SLOTS;
	const size_t part = bytes - way->ended < SLOT ? bytes - way->ended : SLOT;

	CUresult r = core_driver->cuEventSynchronize(way->filled[slot]);
	if (r == CUDA_SUCCESS)
		move(to + way->ended, way->slots + (size_t)slot * SLOT, part);
	way->ended += part;
	return r;
}

static CUresult run(struct way *way, char *to, CUdeviceptr from, size_t bytes)
{
	CUresult r = CUDA_SUCCESS;

	while (r == CUDA_SUCCESS && way->ended < bytes) {
		while (r == CUDA_SUCCESS && way->begun < bytes && way->next - way->first < SLOTS)
			r = fill(way, from, bytes);
		if (r == CUDA_SUCCESS)
			r = empty(way, to, bytes);
	}
	return r;
}

bool vram_is_pageable(const void *to)
{
	unsigned type;

	return core_driver->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)to) !=
	       CUDA_SUCCESS;
}

enum vg_status vram_read_staged(struct vram_scratch_list *slots, void *to, CUdeviceptr from, size_t bytes,
				const char *function)
{
	struct vram_scratch *scratch;
	struct way way = {0};
	CUresult r = CUDA_SUCCESS;

	enum vg_status status = vram_scratch_take(slots, SLOTS * SLOT, function, &scratch);
	if (status)
		return status;
	way.slots = (char *)(uintptr_t)vg_buffer_address(scratch->buffer);
	for (int i = 0; i < SLOTS && r == CUDA_SUCCESS; i++)
		r = core_driver->cuEventCreate(&way.filled[i], CU_EVENT_DISABLE_TIMING);
	if (r == CUDA_SUCCESS)
		r = run(&way, to, from, bytes);
	if (r)
		(void)core_driver->cuStreamSynchronize(CU_STREAM_PER_THREAD); // nothing fills the slots any more
	for (int i = 0; i < SLOTS && way.filled[i]; i++)
		(void)core_driver->cuEventDestroy_v2(way.filled[i]);
	vram_scratch_give(slots, scratch);
	return r ? core_driver_failed(r, function, "cuMemcpyDtoHAsync", "%zu bytes, of which %zu arrived", bytes,
				      way.ended)
		 : VG_OK;
}
