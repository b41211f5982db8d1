// Implements a device's multiprocessors (SMs) and work queues as resources. Splits them, and creates the descriptors
// from which green contexts are created.
#include <stdlib.h>

#include "entry.h"
#include "green.h"
#include "process.h"

enum { DESCRIPTOR_MAGIC = 0x44455332, RESOURCE_MAGIC = 0x52455332, QUEUES = 8 };

struct resource { // The simulator's description of a resource, in CUdevResource's private bytes.
	uint32_t magic, device;
	uint32_t split; // number of the call that split off the resource; 0: it was not split off
	// The resource came from a split and cannot be split again. A green context that is made from it has the same
	// SMs as a resource that can be split.
	bool group;
	uint8_t mask[SIM_SMS / 8];
};
_Static_assert(sizeof(struct resource) <= sizeof(((CUdevResource *)0)->_internal_padding), "fits");
_Static_assert(sizeof(CUdevResource) == 144, "as large as in CUDA 13.1");

static atomic_uint splits;

unsigned sim_green_count(const uint8_t mask[SIM_SMS / 8])
{
	unsigned count = 0;
	for (int i = 0; i < SIM_SMS / 8; i++)
		count += (unsigned)__builtin_popcount(mask[i]);
	return count;
}

enum scheduling { COSCHEDULED, IGNORE_COSCHEDULING };

// Returns the number of SMs in which groups grow: a group has a multiple of it. It is 8, the size of a cluster, or 2 if
// the SMs need not be scheduled together. It is 4 for compute capability 8.x, and 2 for older devices.
static unsigned get_unit(enum scheduling scheduling)
{
	if (sim_process.config.cc_major < 9)
		return sim_process.config.cc_major < 8 ? 2 : 4;
	return scheduling == IGNORE_COSCHEDULING ? 2 : 8;
}

static void fill_resource(CUdevResource *to, const struct resource *hidden, unsigned unit, unsigned flags)
{
	memset(to, 0, sizeof *to);
	memcpy(to->_internal_padding, hidden, sizeof *hidden);
	to->type = CU_DEV_RESOURCE_TYPE_SM;
	to->sm.smCount = sim_green_count(hidden->mask);
	to->sm.minSmPartitionSize = unit;
	to->sm.smCoscheduledAlignment = unit;
	memcpy((char *)&to->sm + 3 * sizeof(unsigned), &flags, sizeof flags); // CUdevSmResource.flags of CUDA 13.1
}

static CUresult read_resource(const CUdevResource *from, struct resource *ret_hidden)
{
	memcpy(ret_hidden, from->_internal_padding, sizeof *ret_hidden);
	return from->type == CU_DEV_RESOURCE_TYPE_SM && ret_hidden->magic == RESOURCE_MAGIC
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_RESOURCE_TYPE;
}

static void add_all_sms(uint8_t *ret_mask)
{
	memset(ret_mask, 0, SIM_SMS / 8);
	for (unsigned i = 0; i < sim_process.config.sms; i++)
		ret_mask[i / 8] |= (uint8_t)(1 << i % 8);
}

static void fill_workqueue(CUdevResource *resource, CUdevResourceType type, const struct sim_device *device,
			   const struct sim_green *green)
{
	const struct sim_workqueue whole = {device->ordinal, QUEUES, SIM_WORKQUEUE_SCOPE_DEVICE};

	memset(resource, 0, sizeof *resource);
	resource->type = type;
	if ((int)type == SIM_RESOURCE_WORKQUEUE_CONFIG)
		memcpy(&resource->sm, green ? &green->workqueue : &whole, sizeof whole);
}

CUresult sim_green_get_resource(CUdevResource *resource, CUdevResourceType type, const struct sim_device *device,
				const struct sim_green *green)
{
	struct resource hidden = {.magic = RESOURCE_MAGIC, .device = (uint32_t)device->ordinal};

	if (!resource)
		return CUDA_ERROR_INVALID_VALUE;
	if (((int)type == SIM_RESOURCE_WORKQUEUE_CONFIG || (int)type == SIM_RESOURCE_WORKQUEUE) &&
	    sim_driver_version() >= 13010) {
		fill_workqueue(resource, type, device, green);
		return CUDA_SUCCESS;
	}
	if (type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	if (green)
		memcpy(hidden.mask, green->mask, sizeof hidden.mask);
	else
		add_all_sms(hidden.mask);
	fill_resource(resource, &hidden, get_unit(COSCHEDULED), 0);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetDevResource(CUdevice device_, CUdevResource *resource, CUdevResourceType type)
{
	struct sim_device *device;

	SIM_ENTER(cuDeviceGetDevResource);
	SIM_TRY(sim_device_get(device_, &device));
	return sim_green_get_resource(resource, type, device, NULL);
}

// ---- splitting -------------------------------------------------------------------------------

// Moves the first `count` SMs of `from` to a new resource.
static void move_sms(struct resource *from, uint32_t split, unsigned count, struct resource *ret_part)
{
	*ret_part = (struct resource){.magic = RESOURCE_MAGIC, .device = from->device, .split = split, .group = true};
	for (unsigned i = 0; i < SIM_SMS && count; i++) {
		uint8_t bit = (uint8_t)(1 << i % 8);
		if (!(from->mask[i / 8] & bit))
			continue;
		from->mask[i / 8] &= (uint8_t)~bit;
		ret_part->mask[i / 8] |= bit;
		count--;
	}
}

static void fill_remainder(CUdevResource *to, struct resource *rest, uint32_t split, unsigned unit)
{
	rest->split = split;
	fill_resource(to, rest, unit, 0);
	if (sim_green_count(rest->mask) == 0)
		to->type = CU_DEV_RESOURCE_TYPE_INVALID;
}

CUresult CUDAAPI cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *nbGroups, const CUdevResource *input,
					     CUdevResource *remaining, unsigned int useFlags, unsigned int minCount)
{
	const unsigned known =
		CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING | CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE;
	struct resource hidden, part;

	SIM_ENTER(cuDevSmResourceSplitByCount);
	if (!nbGroups || !input || (useFlags & ~known))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(read_resource(input, &hidden));
	if (hidden.group)
		// The resource came from a split. To split its SMs again, a green context must have them.
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	unsigned unit = get_unit(useFlags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING ? IGNORE_COSCHEDULING
											    : COSCHEDULED),
		 have = sim_green_count(hidden.mask);
	unsigned size = minCount == 0 ? unit : (minCount + unit - 1) / unit * unit;
	if (size > have || minCount > have)
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	if (!result) {
		*nbGroups = have / size;
		return CUDA_SUCCESS;
	}
	if (*nbGroups > have / size)
		*nbGroups = have / size;
	uint32_t split = atomic_fetch_add(&splits, 1) + 1;
	for (unsigned i = 0; i < *nbGroups; i++) {
		move_sms(&hidden, split, size, &part);
		fill_resource(&result[i], &part, 0, 0); // an H200 reports 0 as a group's minimum and alignment
	}
	hidden.group = true; // like a group, the remainder cannot be split again on an H200
	if (remaining)
		fill_remainder(remaining, &hidden, split, unit);
	return CUDA_SUCCESS;
}

// Computes how many of the `have` free SMs a group gets. The program requests a number; 0 requests as many as possible.
static CUresult compute_group_size(const struct sim_split_group *group, unsigned have, unsigned *ret_unit,
				   unsigned *ret_count)
{
	static const unsigned zeros[12];
	unsigned least = get_unit(IGNORE_COSCHEDULING),
		 unit = group->coscheduled ? group->coscheduled : get_unit(COSCHEDULED);
	bool backfill = group->flags & SIM_GROUP_BACKFILL;

	if ((group->flags & ~(unsigned)SIM_GROUP_BACKFILL) || memcmp(group->reserved, zeros, sizeof zeros) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (unit % least || (group->preferred && (group->preferred < unit || group->preferred % unit)))
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	// with backfill, a group may have more SMs, which cannot be scheduled together with the others
	unsigned grain = backfill ? least : unit;
	*ret_unit = unit;
	*ret_count = group->count ? group->count : have / grain * grain;
	return *ret_count % grain || *ret_count > have ? CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION : CUDA_SUCCESS;
}

CUresult CUDAAPI sim_green_split(CUdevResource *result, unsigned groups, const CUdevResource *input,
				 CUdevResource *remainder, unsigned flags, struct sim_split_group *parameters)
{
	struct resource hidden, rest, part;
	unsigned unit, count;

	// entries.def has no row for cuDevSmResourceSplit, so the call counts as cuDevSmResourceSplitByCount for the
	// gate (entry.h).
	SIM_TRY(sim_enter(VG_ENTRY_cuDevSmResourceSplitByCount));
	if (!input || !parameters || groups == 0 || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(read_resource(input, &hidden));
	if (hidden.group)
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	rest = hidden;
	for (unsigned i = 0; i < groups; i++) { // check all groups before any SM is moved
		SIM_TRY(compute_group_size(&parameters[i], sim_green_count(rest.mask), &unit, &count));
		if (count == 0 && result)
			return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
		move_sms(&rest, 0, count, &part);
	}
	uint32_t split = atomic_fetch_add(&splits, 1) + 1;
	for (unsigned i = 0; i < groups; i++) {
		(void)compute_group_size(&parameters[i], sim_green_count(hidden.mask), &unit, &count);
		move_sms(&hidden, split, count, &part);
		parameters[i].count = count;
		if (result)
			fill_resource(&result[i], &part, unit, parameters[i].flags);
	}
	if (remainder)
		fill_remainder(remainder, &hidden, split, get_unit(IGNORE_COSCHEDULING));
	return CUDA_SUCCESS;
}

// ---- descriptors -----------------------------------------------------------------------------

// Adds multiprocessors to a descriptor. As on hardware, they may come from several splits, and the same one may be
// given twice.
static CUresult add_sms(struct sim_green_descriptor *descriptor, const CUdevResource *resource, bool *found)
{
	struct resource hidden;

	SIM_TRY(read_resource(resource, &hidden));
	if (*found && hidden.device != descriptor->device)
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	for (int b = 0; b < SIM_SMS / 8; b++)
		descriptor->mask[b] |= hidden.mask[b];
	descriptor->device = hidden.device;
	*found = true;
	return CUDA_SUCCESS;
}

static CUresult add_resource(struct sim_green_descriptor *descriptor, const CUdevResource *resource, bool *found)
{
	bool queue =
		(int)resource->type == SIM_RESOURCE_WORKQUEUE_CONFIG || (int)resource->type == SIM_RESOURCE_WORKQUEUE;

	if (!queue || sim_driver_version() < 13010)
		return add_sms(descriptor, resource, found);
	if ((int)resource->type == SIM_RESOURCE_WORKQUEUE)
		return CUDA_SUCCESS;
	memcpy(&descriptor->workqueue, &resource->sm, sizeof descriptor->workqueue);
	const struct sim_workqueue *given = &descriptor->workqueue;
	return given->limit >= 1 && given->scope >= SIM_WORKQUEUE_SCOPE_DEVICE &&
			       given->scope <= SIM_WORKQUEUE_SCOPE_GREEN_BALANCED
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
}

// All descriptors that were made, as a list. The API has no function that frees a descriptor. The list keeps them
// reachable, so that leak checkers do not report them.
static struct sim_green_descriptor *_Atomic descriptors;

CUresult CUDAAPI cuDevResourceGenerateDesc(CUdevResourceDesc *phDesc, CUdevResource *resources,
					   unsigned int nbResources)
{
	struct sim_green_descriptor *descriptor;
	CUresult result = CUDA_SUCCESS;
	bool found = false;

	SIM_ENTER(cuDevResourceGenerateDesc);
	if (!phDesc || !resources || nbResources == 0)
		return CUDA_ERROR_INVALID_VALUE;
	descriptor = calloc(1, sizeof *descriptor);
	if (!descriptor)
		return CUDA_ERROR_OUT_OF_MEMORY;
	descriptor->workqueue = (struct sim_workqueue){-1, QUEUES, SIM_WORKQUEUE_SCOPE_DEVICE};
	for (unsigned i = 0; i < nbResources && result == CUDA_SUCCESS; i++)
		result = add_resource(descriptor, &resources[i], &found);
	if (result == CUDA_SUCCESS && !found) // the descriptor has only work queues
		result = CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	if (descriptor->workqueue.device < 0)
		descriptor->workqueue.device = (CUdevice)descriptor->device;
	if (result == CUDA_SUCCESS && (uint32_t)descriptor->workqueue.device != descriptor->device)
		result = CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	if (result != CUDA_SUCCESS) {
		free(descriptor);
		return result;
	}
	descriptor->magic = DESCRIPTOR_MAGIC;
	descriptor->next = atomic_load(&descriptors);
	while (!atomic_compare_exchange_weak(&descriptors, &descriptor->next, descriptor))
		;
	*phDesc = (CUdevResourceDesc)descriptor;
	return CUDA_SUCCESS;
}

CUresult sim_green_descriptor_get(CUdevResourceDesc handle, const struct sim_green_descriptor **ret_descriptor)
{
	const struct sim_green_descriptor *descriptor = (const struct sim_green_descriptor *)handle;

	if (!descriptor || descriptor->magic != DESCRIPTOR_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_descriptor = descriptor;
	return CUDA_SUCCESS;
}
