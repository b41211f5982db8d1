// Finds and pins the region of a handle, and sets the last error if that fails.
#include "vram/trust.h"

#include "core/error.h"

static enum vg_status fail_stale(struct vg_vram_handle handle)
{
	if (handle.value == 0)
		return vg_fail(VG_INVALID, 0, "the handle is 0: none");
	return vg_fail(VG_STALE, 0,
		       "handle 0x%llx names no region any more: it was freed, or closed with its context, or "
		       "never given out",
		       (unsigned long long)handle.value);
}

static enum vg_status fail_outcome(struct vg_vram_handle handle, int outcome)
{
	switch (outcome) {
	case VRAM_FROZEN:
		return vg_fail(VG_POLICY, 0,
			       "the region is sealed, and its contents are frozen: unseal it before writing");
	case VRAM_QUARANTINED:
		return vg_fail(VG_INTEGRITY, 0,
			       "the region is quarantined, since a verification of it failed: it can only be freed");
	case VRAM_CROWDED:
		return vg_fail(VG_BUSY, 0, "too many calls use the region at once: 1023 of a kind at most");
	default:
		return fail_stale(handle);
	}
}

enum vg_status vram_check_process(void)
{
	if (__builtin_expect(core_forked, 0))
		return vg_fail(VG_STATE, 0,
			       "the process was forked after the driver had been loaded: exec a program that opens its "
			       "own context");
	return VG_OK;
}

static void record_violation(struct vg_vram_handle handle, enum vg_status status)
{
	struct vram_region *region;

	if ((status != VG_POLICY && status != VG_INTEGRITY) || vram_table_pin_any_state(handle, &region))
		return;
	vram_record_failure(region, VRAM_EVENT_POLICY_VIOLATION, NULL);
	vram_unpin(region, VRAM_READ);
}

enum vg_status vram_pin(struct vg_vram_handle handle, enum vram_use use, struct vram_region **ret_region)
{
	struct vram_region *region;

	enum vg_status status = vram_check_process();
	if (status)
		return status;
	int outcome = vram_table_pin(handle, use, &region);
	if (__builtin_expect(outcome, VRAM_OK)) {
		status = fail_outcome(handle, outcome);
		record_violation(handle, status);
		return status;
	}
	if (use == VRAM_WRITE && region->import.read_only) {
		status = vg_fail(VG_POLICY, 0, "the region was imported for reading");
		vram_record_failure(region, VRAM_EVENT_POLICY_VIOLATION, NULL);
		vram_unpin(region, use);
		return status;
	}
	*ret_region = region;
	return VG_OK;
}

enum vg_status vram_look(struct vg_vram_handle handle, struct vram_region **ret_region)
{
	enum vg_status status = vram_check_process();

	if (status)
		return status;
	int outcome = vram_table_pin_any_state(handle, ret_region);
	return outcome ? fail_outcome(handle, outcome) : VG_OK;
}

enum vg_status vram_close_handle(struct vg_vram_handle handle, enum vram_closing how, struct vram_region **ret_region)
{
	enum vg_status status = vram_check_process();

	if (status)
		return status;
	int outcome = vram_table_close(handle, how, ret_region);
	if (outcome == VRAM_LENT)
		return vg_fail(VG_BUSY, 0, "the region is on loan: give it back first, vg_vram_give_back()");
	return outcome ? fail_stale(handle) : VG_OK;
}

enum vg_status vram_check_range(const struct vram_region *region, size_t offset, size_t bytes)
{
	if (__builtin_expect(offset <= region->size && bytes <= region->size - offset, 1))
		return VG_OK;
	return vg_fail(VG_BOUNDS, 0, "%zu bytes at offset %zu: the region has %zu", bytes, offset, region->size);
}

enum vg_status vram_freeze(struct vram_region *region)
{
	if (!vram_table_freeze(region))
		return vg_fail(VG_POLICY, 0, "the region is sealed already: unseal it first");
	unsigned loans = atomic_load(&region->writing_loans);
	if (loans == 0)
		return VG_OK;
	vram_unfreeze(region);
	return vg_fail(VG_BUSY, 0, "%u loans of the region that may write are out: give them back first", loans);
}
