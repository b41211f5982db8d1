// Regions through their handles: contexts, allocation, bounds, what is dead, what is refused.
#include "core/core_test.h"

#include <stdint.h>

static struct vg_vram *open_vram(void)
{
	struct vg_vram *vram = NULL;

	OK(vg_vram_open(NULL, &vram));
	return vram;
}

TEST(what_is_written_is_read)
{
	struct vg_vram *vram = open_vram();
	struct vg_vram_handle handle;
	char text[16];
	size_t bytes;

	OK(vg_vram_allocate(vram, 1000, NULL, &handle));
	OK(vg_vram_size(handle, &bytes));
	CHECK_INT(bytes, 1000);
	OK(vg_vram_write_at(handle, 990, "0123456789", 10));
	OK(vg_vram_read_at(handle, 991, text, 9));
	CHECK(memcmp(text, "123456789", 9) == 0);
	OK(vg_vram_free(handle));
	REFUSED(vg_vram_free(handle), VG_STALE, "freed");
	REFUSED(vg_vram_read_at(handle, 0, text, 1), VG_STALE, "freed");
	OK(vg_vram_close(vram, NULL));
	vg_vram_destroy(vram);
}
