// Allocates and frees regions 10^3 or 10^5 times: neither device memory nor heap memory leaks.
#include "core/core_heap.h"
#include "region_test.h"

static void use(struct vg_vram *vram, const struct vg_vram_allocate_options *options)
{
	struct vg_vram_handle handle;
	struct vg_vram_loan loan;

	OK(vg_vram_allocate(vram, 100, options, &handle));
	OK(vg_vram_write_at(handle, 0, "x", 1));
	OK(vg_vram_borrow(handle, VG_VRAM_READ, &loan));
	OK(vg_vram_give_back(&loan));
	OK(vg_vram_free(handle));
}

TEST(plain_regions_leak_nothing)
{
	struct vg_vram *vram = open_vram();

	heap_open();
	HEAP_STEADY(use(vram, NULL););
	close_vram(vram);
}

// A single test uses guarded and shareable regions in turn, because the simulated GPU takes milliseconds for each
// region.
TEST(mapped_regions_leak_nothing)
{
	struct vg_vram *vram = open_vram();

	heap_open();
	HEAP_STEADY(use(vram, i_ % 2 ? GUARDED : SHAREABLE););
	close_vram(vram);
}

TEST(closed_contexts_leak_no_regions)
{
	// This reference keeps the primary context, so that the loop does not create it each time. Creating it takes
	// half a second on a GPU.
	struct vg_context *stays = first_context();

	heap_open();
	HEAP_STEADY({
		struct vg_vram *vram = open_vram();
		struct vg_vram_handle handle = allocate(vram, 100);
		struct vg_vram_loan loan;
		OK(vg_vram_borrow(handle, VG_VRAM_READ, &loan));
		OK(vg_vram_close(vram, NULL));
		vg_vram_destroy(vram);
	});
	vg_context_destroy(stays);
}

// Reads and writes must not allocate host memory, because programs may call them a million times a second.
TEST(access_allocates_no_host_memory)
{
	struct vg_vram *vram = open_vram();
	struct vg_vram_handle handle = allocate(vram, 100);
	char byte = 1;

	heap_open();
	HEAP_FREE(vg_vram_write_at(handle, 0, &byte, 1));
	HEAP_FREE(vg_vram_read_at(handle, 0, &byte, 1));
	HEAP_FREE(vg_vram_fill(handle, 0, 1, 100));
	HEAP_FREE(vg_vram_copy(handle, 0, handle, 50, 50));
	OK(vg_vram_free(handle));
	close_vram(vram);
}
