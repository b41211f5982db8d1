// Addresses for kernels, and their return.
#include "vram/vram.h"

#include "core/object.h"

#include <stdlib.h>
#include <string.h>

// A loan that is out.
struct vram_loan_note {
	struct vram_loan_note *next;
	uint64_t ticket;
	enum vg_vram_access access;
};

// Of a region that the caller has pinned, and keeps pinned until the loan counts.
static enum vg_status lend(struct vram_region *region, struct vram_loan_note *note)
{
	static _Atomic uint64_t tickets;

	// First, so that whoever freezes the region when it is unpinned finds it.
	if (note->access == VG_VRAM_READ_WRITE)
		atomic_fetch_add(&region->writing_loans, 1);
	int outcome = vram_table_lend(region);
	if (outcome) {
		if (note->access == VG_VRAM_READ_WRITE)
			atomic_fetch_sub(&region->writing_loans, 1);
		return outcome == VRAM_CROWDED ? vg_fail(VG_BUSY, 0, "255 loans of the region are out")
					       : vg_fail(VG_STALE, 0, "the region is being freed");
	}
	atomic_store(&region->lent, true);
	note->ticket = atomic_fetch_add(&tickets, 1) + 1;
	pthread_mutex_lock(&region->vram->lock);
	note->next = region->loans;
	region->loans = note;
	pthread_mutex_unlock(&region->vram->lock);
	return VG_OK;
}

// The note of a loan that is out, which is the caller's from then on; NULL: there is none.
static struct vram_loan_note *take_note(struct vram_region *region, uint64_t ticket)
{
	struct vram_loan_note **link, *note;

	pthread_mutex_lock(&region->vram->lock);
	for (link = &region->loans; *link && (*link)->ticket != ticket; link = &(*link)->next)
		;
	note = *link;
	if (note)
		*link = note->next;
	pthread_mutex_unlock(&region->vram->lock);
	return note;
}

static void end(struct vram_region *region, struct vram_loan_note *note)
{
	if (note->access == VG_VRAM_READ_WRITE)
		atomic_fetch_sub(&region->writing_loans, 1);
	vram_table_take_back(region);
	free(note);
}

enum vg_status vg_vram_borrow(struct vg_vram_handle handle, enum vg_vram_access access, struct vg_vram_loan *ret_loan)
{
	VG_ENTRY();
	const enum vram_use use = access == VG_VRAM_READ ? VRAM_READ : VRAM_WRITE;
	struct vram_region *region;

	CORE_NEEDED(ret_loan);
	if ((unsigned)access > VG_VRAM_READ_WRITE)
		return vg_fail(VG_INVALID, 0, "access is %d: READ or READ_WRITE", access);
	enum vg_status status = vram_pin(handle, use, &region);
	if (status)
		return status;
	struct vram_loan_note *note = calloc(1, sizeof *note);
	if (!note) {
		vram_unpin(region, use);
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a loan");
	}
	note->access = access;
	status = lend(region, note);
	if (status) {
		free(note);
		vram_unpin(region, use);
		return status;
	}
	const struct vg_vram_loan loan = {handle, access, region->address, region->size, note->ticket};
	status = vram_settle(region);
	if (status)
		end(region, take_note(region, note->ticket));
	else
		*ret_loan = loan;
	vram_unpin(region, use);
	return status;
}

enum vg_status vg_vram_give_back(struct vg_vram_loan *loan)
{
	VG_ENTRY();
	struct vram_region *region;

	CORE_NEEDED(loan);
	enum vg_status status = vram_look(loan->handle, &region);
	if (status)
		return status;
	struct vram_loan_note *note = take_note(region, loan->ticket);
	if (note)
		end(region, note);
	vram_unpin(region, VRAM_READ);
	if (!note)
		return vg_fail(VG_INVALID, 0, "loan %llu of the region is not out: it was given back before",
			       (unsigned long long)loan->ticket);
	memset(loan, 0, sizeof *loan);
	return VG_OK;
}

void vram_forget_loans(struct vram_region *region)
{
	struct vram_loan_note *note;

	while ((note = region->loans)) {
		region->loans = note->next;
		free(note);
	}
}
