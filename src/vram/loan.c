// Implements loans: the time for which a program has the raw address of a region.
#include "vram/vram.h"

#include "core/object.h"

#include <stdlib.h>
#include <string.h>

// The record of an active loan.
struct vram_loan_record {
	struct vram_loan_record *next;
	uint64_t ticket;
	enum vg_vram_access access;
};

// Counts and records a loan. The caller must keep the region pinned until this returns.
static enum vg_status add_loan(struct vram_region *region, struct vram_loan_record *record)
{
	static _Atomic uint64_t tickets;

	// Count a writing loan while the region is pinned for writing. vram_freeze() first waits until the region is
	// not pinned for writing, and then reads the count. So it does not miss this loan.
	if (record->access == VG_VRAM_READ_WRITE)
		atomic_fetch_add(&region->writing_loans, 1);
	int outcome = vram_table_add_loan(region);
	if (outcome) {
		if (record->access == VG_VRAM_READ_WRITE)
			atomic_fetch_sub(&region->writing_loans, 1);
		return outcome == VRAM_CROWDED ? vg_fail(VG_BUSY, 0, "255 loans of the region are out")
					       : vg_fail(VG_STALE, 0, "the region is being freed");
	}
	atomic_store(&region->lent, true);
	record->ticket = atomic_fetch_add(&tickets, 1) + 1;
	pthread_mutex_lock(&region->vram->lock);
	record->next = region->loans;
	region->loans = record;
	pthread_mutex_unlock(&region->vram->lock);
	return VG_OK;
}

// Removes the record of an active loan from the list, and returns it to the caller. Returns NULL if not found.
static struct vram_loan_record *remove_loan(struct vram_region *region, uint64_t ticket)
{
	struct vram_loan_record **link, *record;

	pthread_mutex_lock(&region->vram->lock);
	for (link = &region->loans; *link && (*link)->ticket != ticket; link = &(*link)->next)
		;
	record = *link;
	if (record)
		*link = record->next;
	pthread_mutex_unlock(&region->vram->lock);
	return record;
}

static void end_loan(struct vram_region *region, struct vram_loan_record *record)
{
	if (record->access == VG_VRAM_READ_WRITE)
		atomic_fetch_sub(&region->writing_loans, 1);
	vram_table_end_loan(region);
	free(record);
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
	struct vram_loan_record *record = calloc(1, sizeof *record);
	if (!record) {
		vram_unpin(region, use);
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a loan");
	}
	record->access = access;
	status = add_loan(region, record);
	if (status) {
		free(record);
		vram_unpin(region, use);
		return status;
	}
	const struct vg_vram_loan loan = {handle, access, region->address, region->size, record->ticket};
	status = vram_wait_for_writes(region);
	if (status)
		end_loan(region, remove_loan(region, record->ticket));
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
	struct vram_loan_record *record = remove_loan(region, loan->ticket);
	if (record)
		end_loan(region, record);
	vram_unpin(region, VRAM_READ);
	if (!record)
		return vg_fail(VG_INVALID, 0, "loan %llu of the region is not out: it was given back before",
			       (unsigned long long)loan->ticket);
	memset(loan, 0, sizeof *loan);
	return VG_OK;
}

void vram_forget_loans(struct vram_region *region)
{
	struct vram_loan_record *record;

	while ((record = region->loans)) {
		region->loans = record->next;
		free(record);
	}
}
