// Splits the SMs of a resource into groups. With the driver function that CUDA 13.1 added, the groups may have
// different sizes. With the older function, all groups have the same size.
#include "base/status.h"
#include "core/device_resource.h"
#include "core/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BACKFILL = 1, MOST_GROUPS = 256 };

// The arguments and the results of a split.
struct split {
	struct vg_sm_resource *from;
	size_t capacity; // number of groups for which `natives` has room
	bool dry_run;
	CUdevResource *natives, remainder;
	unsigned made;
};

// Declares CU_DEV_SM_RESOURCE_GROUP_PARAMS and cuDevSmResourceSplit as in CUDA 13.1.
struct native_group {
	unsigned sm_count, coscheduled, preferred, flags, reserved[12];
};
typedef CUresult(CUDAAPI *split_groups)(CUdevResource *result, unsigned count, const CUdevResource *input,
					CUdevResource *remainder, unsigned flags, struct native_group *groups);

static void release_groups(struct vg_sm_resource **groups, size_t count)
{
	while (count > 0)
		core_object_release(&groups[--count]->object);
}

// Creates the objects of all groups that the driver made. On failure, creates none.
static enum vg_status create_groups(const struct split *split, struct vg_sm_resource **ret_groups, size_t *ret_count,
				    struct vg_sm_resource **ret_remainder)
{
	bool remains =
		ret_remainder && split->remainder.type == CU_DEV_RESOURCE_TYPE_SM && split->remainder.sm.smCount > 0;
	size_t wanted = split->made + remains, count = 0;
	struct vg_sm_resource **made = calloc(wanted + 1, sizeof *made);

	for (; made && count < wanted; count++) {
		made[count] = core_sm_resource_new(split->from->device);
		if (!made[count])
			break;
		core_sm_resource_fill(made[count], count < split->made ? &split->natives[count] : &split->remainder,
				      split->from);
		made[count]->group = count < split->made;
		made[count]->dry_run = split->dry_run;
	}
	if (!made || count < wanted) {
		release_groups(made, count);
		free(made);
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu SM resources", wanted);
	}
	memcpy(ret_groups, made, split->made * sizeof *made);
	*ret_count = split->made;
	if (ret_remainder)
		*ret_remainder = remains ? made[split->made] : NULL;
	free(made);
	return VG_OK;
}

static enum vg_status fail_split(const struct split *split, CUresult r, const char *call, const char *asked)
{
	const struct vg_sm_resource *from = split->from;

	return core_driver_failed(
		r, call, "asked for %s; there are %u SMs, to be had in groups of at least %u, in steps of %u%s", asked,
		from->count, from->min_partition_size, from->coscheduled_alignment,
		from->group ? "; a group can be split again once it is a green context's: vg_context_sm_resource()"
			    : "");
}

static enum vg_status split_by_count(struct split *split, unsigned sm_count, unsigned flags)
{
	char asked[80];

	split->made = (unsigned)split->capacity;
	CUresult r = core_driver->cuDevSmResourceSplitByCount(split->natives, &split->made, &split->from->native,
							      &split->remainder, flags, sm_count);
	snprintf(asked, sizeof asked, "%zu groups of %u SMs", split->capacity, sm_count);
	return r ? fail_split(split, r, "cuDevSmResourceSplitByCount", asked) : VG_OK;
}

// Splits with the function of drivers before 13.1, which takes only one size for all groups.
static enum vg_status split_equally(struct split *split, const struct vg_sm_group *groups)
{
	for (size_t i = 0; i < split->capacity; i++) {
		if (groups[i].coscheduled_sm_count || groups[i].preferred_coscheduled_sm_count)
			return core_needs_driver(CORE_DRIVER_13_1, "a number of SMs that are scheduled together");
		if (groups[i].backfill)
			return core_needs_driver(CORE_DRIVER_13_1, "filling a group up");
		if (groups[i].sm_count != groups[0].sm_count)
			return core_needs_driver(CORE_DRIVER_13_1, "groups of different sizes");
	}
	return split_by_count(split, (unsigned)groups[0].sm_count, 0);
}

static enum vg_status split_into_groups(struct split *split, split_groups entry, const struct vg_sm_group *groups)
{
	struct native_group natives[MOST_GROUPS] = {0};
	unsigned total = 0;
	char asked[80];

	for (size_t i = 0; i < split->capacity; i++) {
		natives[i].sm_count = (unsigned)groups[i].sm_count;
		natives[i].coscheduled = (unsigned)groups[i].coscheduled_sm_count;
		natives[i].preferred = (unsigned)groups[i].preferred_coscheduled_sm_count;
		natives[i].flags = groups[i].backfill ? BACKFILL : 0;
		total += natives[i].sm_count;
	}
	CUresult r = entry(split->dry_run ? NULL : split->natives, (unsigned)split->capacity, &split->from->native,
			   &split->remainder, 0, natives);
	snprintf(asked, sizeof asked, "%zu groups of %u SMs together", split->capacity, total);
	if (r)
		return fail_split(split, r, "cuDevSmResourceSplit", asked);
	split->made = (unsigned)split->capacity;
	for (size_t i = 0; split->dry_run && i < split->capacity;
	     i++) { // the driver returns the sizes of the groups in the parameters
		split->natives[i].type = CU_DEV_RESOURCE_TYPE_SM;
		split->natives[i].sm.smCount = natives[i].sm_count;
		split->natives[i].sm.smCoscheduledAlignment = natives[i].coscheduled;
	}
	return VG_OK;
}

static enum vg_status check_groups(const struct vg_sm_group *groups, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct vg_sm_group *group = &groups[i];
		if (group->sm_count < 0 || group->coscheduled_sm_count < 0 || group->preferred_coscheduled_sm_count < 0)
			return vg_fail(VG_INVALID, 0,
				       "group %zu: counts must be non-negative, but are %d, %d and %d; 0 leaves them "
				       "to the driver",
				       i, group->sm_count, group->coscheduled_sm_count,
				       group->preferred_coscheduled_sm_count);
	}
	return VG_OK;
}

static enum vg_status check_split(const struct vg_sm_resource *resource, size_t count)
{
	if (count == 0 || count > MOST_GROUPS)
		return vg_fail(VG_INVALID, 0, "a split into %zu groups: 1 to %d are possible", count, MOST_GROUPS);
	if (resource->dry_run)
		return vg_fail(VG_INVALID, 0, "a group of a dry run has sizes only: split without .dry_run first");
	return VG_OK;
}

enum vg_status vg_sm_resource_split(struct vg_sm_resource *resource, const struct vg_sm_group *groups, size_t count,
				    const struct vg_sm_split_options *options, struct vg_sm_resource **ret_groups,
				    size_t *ret_count, struct vg_sm_resource **ret_remainder)
{
	VG_ENTRY();
	CUdevResource natives[MOST_GROUPS] = {0};
	struct vg_sm_split_options o;
	split_groups entry = NULL;

	CORE_USABLE(resource, "resource");
	CORE_NEEDED(groups);
	CORE_NEEDED(ret_groups);
	CORE_NEEDED(ret_count);
	CORE_OPTIONS(o, options);
	CORE_TRY(check_split(resource, count));
	CORE_TRY(check_groups(groups, count));
	if (core_driver_version() >= CORE_DRIVER_13_1)
		CORE_TRY(core_find_entry("cuDevSmResourceSplit", CORE_DRIVER_13_1, (void **)&entry));
	struct split split = {resource, count, o.dry_run != 0, natives, {0}, 0};
	CORE_TRY(entry ? split_into_groups(&split, entry, groups) : split_equally(&split, groups));
	return create_groups(&split, ret_groups, ret_count, ret_remainder);
}

enum vg_status vg_sm_resource_split_by_count(struct vg_sm_resource *resource, int sm_count, unsigned flags,
					     size_t capacity, struct vg_sm_resource **ret_groups, size_t *ret_count,
					     struct vg_sm_resource **ret_remainder)
{
	VG_ENTRY();
	const unsigned known = VG_SM_SPLIT_IGNORE_COSCHEDULING | VG_SM_SPLIT_MAX_POTENTIAL_CLUSTER;
	CUdevResource natives[MOST_GROUPS] = {0};

	CORE_USABLE(resource, "resource");
	CORE_NEEDED(ret_groups);
	CORE_NEEDED(ret_count);
	CORE_TRY(check_split(resource, capacity));
	if (sm_count < 0)
		return vg_fail(VG_INVALID, 0,
			       "groups of %d SMs: the count must be non-negative; 0 is the fewest possible", sm_count);
	if (flags & ~known)
		return vg_fail(VG_INVALID, 0, "flags 0x%x: only 0x%x are known", flags, known);
	struct split split = {resource, capacity, false, natives, {0}, 0};
	CORE_TRY(split_by_count(&split, (unsigned)sm_count, flags));
	return create_groups(&split, ret_groups, ret_count, ret_remainder);
}
