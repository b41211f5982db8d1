// Long reads, a part at a time: so that the driver and the device's copy engine are held for a part and not for the
// whole, and other readers come in between.
//
// Into pageable memory the parts come by slots of page-locked memory: while one is copied out, the device fills the
// other. The driver's own copy does much the same, and holds a lock from the first byte to the last. Into page-locked
// memory one part is waited for before the next is queued: an H200's copy engine does not turn to another stream while
// one of them has more to do.
#include "vram/staging.h"

#include "core/error.h"

#include <emmintrin.h>
#include <stdint.h>
#include <string.h>

// Large enough for the calls to vanish behind the copy: 15 GB/s by way of slots, 55 directly.
enum { SLOT = 1 << 20, DIRECT = 32 << 20, SLOTS = 2 };

struct way {
	char *slots; // NULL: directly
	size_t part;
	unsigned parts; // under way at once
	CUevent arrived[SLOTS];
	size_t begun, ended;  // bytes that were queued, and that have arrived
	unsigned first, next; // parts, counted from the begin
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

static size_t part_of(const struct way *way, size_t at, size_t bytes)
{
	return bytes - at < way->part ? bytes - at : way->part;
}

static CUresult begin(struct way *way, char *to, CUdeviceptr from, size_t bytes)
{
	const unsigned which = way->next++ % way->parts;
	const size_t part = part_of(way, way->begun, bytes);

	CUresult r = core_driver->cuMemcpyDtoHAsync_v2(way->slots ? way->slots + which * way->part : to + way->begun,
						       from + way->begun, part, CU_STREAM_PER_THREAD);
	way->begun += part;
	return r ? r : core_driver->cuEventRecord(way->arrived[which], CU_STREAM_PER_THREAD);
}

static CUresult end(struct way *way, char *to, size_t bytes)
{
	const unsigned which = way->first++ % way->parts;
	const size_t part = part_of(way, way->ended, bytes);

	CUresult r = core_driver->cuEventSynchronize(way->arrived[which]);
	if (r == CUDA_SUCCESS && way->slots)
		move(to + way->ended, way->slots + which * way->part, part);
	way->ended += part;
	return r;
}

static CUresult run(struct way *way, char *to, CUdeviceptr from, size_t bytes)
{
	CUresult r = CUDA_SUCCESS;

	for (unsigned i = 0; i < way->parts && r == CUDA_SUCCESS; i++)
		r = core_driver->cuEventCreate(&way->arrived[i], CU_EVENT_DISABLE_TIMING);
	while (r == CUDA_SUCCESS && way->ended < bytes) {
		while (r == CUDA_SUCCESS && way->begun < bytes && way->next - way->first < way->parts)
			r = begin(way, to, from, bytes);
		if (r == CUDA_SUCCESS)
			r = end(way, to, bytes);
	}
	if (r)
		(void)core_driver->cuStreamSynchronize(CU_STREAM_PER_THREAD); // nothing arrives any more
	for (unsigned i = 0; i < way->parts && way->arrived[i]; i++)
		(void)core_driver->cuEventDestroy_v2(way->arrived[i]);
	return r;
}

// What the driver knows of is page-locked, or no memory of the host.
static bool is_pageable(const void *to)
{
	unsigned type;

	return core_asked(core_driver->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)to)) !=
	       CUDA_SUCCESS;
}

enum vg_status vram_read_long(struct vram_scratch_list *slots, void *to, CUdeviceptr from, size_t bytes)
{
	struct vram_scratch *scratch = NULL;
	struct way way = {.part = DIRECT, .parts = 1};

	if (is_pageable(to)) {
		enum vg_status status = vram_scratch_take(slots, SLOTS * SLOT, &scratch);
		if (status)
			return status;
		way.slots = (char *)(uintptr_t)vg_buffer_address(scratch->buffer);
		way.part = SLOT;
		way.parts = SLOTS;
	}
	CUresult r = run(&way, to, from, bytes);
	if (scratch)
		vram_scratch_give(slots, scratch);
	return r ? core_driver_failed(r, "cuMemcpyDtoHAsync", "%zu bytes, of which %zu arrived", bytes, way.ended)
		 : VG_OK;
}
