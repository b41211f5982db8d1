// Offers, sends, receives, imports and frees memory 10^3 or 10^5 times. Neither device memory, nor heap memory, nor
// addresses, nor descriptors may leak.
#include "../core/core_heap.h"
#include "count_entries.h"

#include <sys/socket.h>

static struct vg_vram *vram;
static int ends[2];

static void cycle(int i)
{
	const struct vg_vram_allocate_options allocate = {.size = sizeof allocate, .shareable = 1};
	const struct vg_share_import_options import = {.size = sizeof import, .writable = i % 2};
	const struct vg_share_range_options range = {.size = sizeof range, .writable = 1};
	struct vg_share_offer *offer, *received;
	struct vg_vram_handle handle, imported;

	OK(vg_vram_allocate(vram, 100, &allocate, &handle));
	OK(vg_share_offer_create(&offer));
	OK(vg_share_offer_add(offer, handle, &range));
	OK(vg_share_offer_add(offer, handle,
			      &range)); // one region may be added twice, which makes two descriptors of the same memory
	OK(vg_share_send(ends[0], offer, NULL));
	vg_share_offer_destroy(offer);
	OK(vg_share_receive(ends[1], NULL, &received));
	OK(vg_share_import(vram, received, i % 2, &import, &imported));
	vg_share_offer_destroy(received);
	OK(vg_vram_free(imported));
	OK(vg_vram_free(handle));
}

// Returns the number of pages in the process's address space.
static long addresses(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	long pages = 0;

	CHECK(file && fscanf(file, "%ld", &pages) == 1);
	fclose(file);
	return pages;
}

TEST(offers_and_imports_leak_nothing)
{
	OK(vg_vram_open(NULL, &vram));
	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	for (int i = 0; i < 20; i++) // the driver keeps some memory after the first cycles
		cycle(i);
	int descriptors = count_entries("/proc/self/fd");
	long pages = addresses();
	heap_open();
	HEAP_STEADY(cycle(i_););
	CHECK_INT(count_entries("/proc/self/fd"), descriptors);
	// The heap may also grow a little later, by its break or by an arena for a thread.
	long more = addresses() - pages;
	if (more > 64 << 8)
		FAIL("%ld pages of addresses more than before", more);
	close(ends[0]);
	close(ends[1]);
	vg_vram_destroy(vram);
}
