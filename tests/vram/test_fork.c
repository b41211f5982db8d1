// Tests a forked child, which has its parent's handles but cannot use the driver: all calls fail without a crash, and
// the parent is not affected.
#include "region_test.h"

static void try_everything(struct vg_vram *vram, struct vg_vram_handle handle, struct vg_vram_loan loan)
{
	struct vg_vram_capacity capacity;
	struct vg_vram *other = NULL;
	struct vg_device *device;
	char bytes[8];
	size_t size;

	REFUSED(vg_vram_open(NULL, &other), VG_STATE, "forked");
	REFUSED(vg_vram_allocate(vram, 8, NULL, &handle), VG_STATE, "forked");
	REFUSED(vg_vram_capacity(vram, &capacity), VG_STATE, "forked");
	REFUSED(vg_vram_size(handle, &size), VG_STATE, "forked");
	REFUSED(vg_vram_handle_device(handle, &device), VG_STATE, "forked");
	REFUSED(vg_vram_write_at(handle, 0, bytes, 8), VG_STATE, "forked");
	REFUSED(vg_vram_read_at(handle, 0, bytes, 8), VG_STATE, "forked");
	REFUSED(vg_vram_fill(handle, 0, 0, 8), VG_STATE, "forked");
	REFUSED(vg_vram_copy(handle, 0, handle, 4, 4), VG_STATE, "forked");
	REFUSED(vg_vram_borrow(handle, VG_VRAM_READ, &loan), VG_STATE, "forked");
	REFUSED(vg_vram_give_back(&loan), VG_STATE, "forked");
	REFUSED(vg_vram_free(handle), VG_STATE, "forked");
	REFUSED(vg_vram_close(vram, NULL), VG_STATE, "forked");
	vg_vram_destroy(vram);
}

TEST(calls_fail_in_a_child_and_work_in_the_parent)
{
	struct vg_vram *vram = open_vram();
	struct vg_vram_handle handle = allocate(vram, 8), guarded;
	struct vg_vram_loan loan;

	OK(vg_vram_allocate(vram, 8, GUARDED, &guarded));
	OK(vg_vram_write_at(handle, 0, "12345678", 8));
	OK(vg_vram_borrow(guarded, VG_VRAM_READ, &loan));
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		try_everything(vram, handle, loan);
		_exit(0);
	}
	CHECK_CHILD(child);
	check_bytes(handle, 7, 1, '8');
	OK(vg_vram_give_back(&loan));
	OK(vg_vram_free(guarded));
	OK(vg_vram_free(handle));
	close_vram(vram);
}
