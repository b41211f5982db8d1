// Seals and unseals regions 10^3 or 10^5 times. Neither device memory, nor the heap, nor descriptors may leak.
#include "core/core_heap.h"
#include "share/count_entries.h"
#include "sealed_test.h"

TEST(sealing_and_unsealing_leaks_nothing)
{
	struct vg_vram *vram = open_sealing();
	struct vg_vram_handle handle = allocate(vram, 3000);

	heap_open();
	HEAP_STEADY({
		struct vg_attestation attestation;
		struct vg_seal seal;
		OK(vg_vram_seal(handle, &layer, &seal));
		OK(vg_vram_verify(handle, &seal));
		OK(vg_vram_attest(handle, &attestation));
		OK(vg_vram_unseal(handle));
	});
	OK(vg_vram_free(handle));
	close_vram(vram);
}

TEST(freeing_quarantined_regions_leaks_nothing)
{
	struct vg_vram *vram = open_sealing();

	heap_open();
	HEAP_STEADY({
		struct vg_vram_handle handle = allocate(vram, 3000);
		struct vg_seal seal;
		OK(vg_vram_seal(handle, &layer, &seal));
		seal.root[0] ^= 1;
		CHECK_INT(vg_vram_verify(handle, &seal), VG_INTEGRITY);
		OK(vg_vram_free(handle));
	});
	close_vram(vram);
}

TEST(contexts_with_keys_and_a_log_leak_nothing)
{
	// keeps the primary context, since creating it takes half a second on a GPU
	struct vg_context *stays = first_context();
	const char *log = path_of("log");

	heap_open();
	struct vg_vram *first;
	OK(open_with(KEY_DIGITS, "train", NULL, log, &first));
	int before = count_entries("/proc/self/fd");
	const int times = heap_times() / 5;
	for (int i = 0; i < times; i++) {
		struct vg_vram *vram;
		OK(open_with(KEY_DIGITS, "train", NULL, log, &vram));
		close_vram(vram);
	}
	long live = atomic_load(&heap_live);
	MEMORY_STEADY(
		vg_vram_device(first), for (int i = 0; i < times; i++) {
			struct vg_vram *vram;
			OK(open_with(KEY_DIGITS, "train", NULL, log, &vram));
			OK(vg_vram_free(allocate(vram, 100)));
			close_vram(vram);
		});
	CHECK_INT(atomic_load(&heap_live), live);
	CHECK_INT(count_entries("/proc/self/fd"), before);
	close_vram(first);
	vg_context_destroy(stays);
}
