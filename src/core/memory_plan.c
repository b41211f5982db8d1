// Checks the options of virtual memory, and converts them to the driver's form.
#include "core/virtual_memory.h"

#include <stdlib.h>

static enum vg_status require_property(struct vg_device *device, enum vg_device_property property, const char *what)
{
	int value;

	enum vg_status status = vg_device_property(device, property, &value);
	if (status || value)
		return status;
	return vg_fail(VG_UNSUPPORTED, 0, "%s is not supported on device %d: its %s is 0", what, device->ordinal,
		       vg_device_property_name(property));
}

static enum vg_status plan_location(struct core_memory_plan *plan, const struct vg_memory_location *asked)
{
	CUmemLocation *location = &plan->properties.location;
	struct vg_device *device = plan->device;

	switch (asked->type) {
	case VG_LOCATION_NONE:
	case VG_LOCATION_DEVICE:
		if (asked->id && asked->id != device->ordinal)
			return vg_fail(VG_INVALID, 0, "location.id is %d: the memory is of device %d", asked->id,
				       device->ordinal);
		*location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal};
		return require_property(device, VG_DEVICE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
					"the CUDA virtual memory API");
	case VG_LOCATION_HOST:
		*location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
		return require_property(device, VG_DEVICE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
					"virtual memory at the host");
	case VG_LOCATION_HOST_NUMA:
		if (asked->id < 0)
			return vg_fail(VG_INVALID, 0, "location.id is %d: a NUMA node is 0 or more", asked->id);
		*location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = asked->id};
		break;
	case VG_LOCATION_HOST_NUMA_CURRENT:
		// The driver cannot allocate at HOST_NUMA_CURRENT. So each allocation looks up the thread's NUMA node
		// and sets `id`.
		*location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST_NUMA};
		plan->current_node = true;
		break;
	default:
		return vg_fail(VG_INVALID, 0, "location.type is %d: DEVICE, HOST, HOST_NUMA or HOST_NUMA_CURRENT",
			       asked->type);
	}
	return require_property(device, VG_DEVICE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
				"virtual memory on a node of the host");
}

static enum vg_status plan_handle(struct core_memory_plan *plan, enum vg_handle_type type)
{
	bool host = plan->properties.location.type == CU_MEM_LOCATION_TYPE_HOST;
	int descriptors = 0;

	switch (type) {
	case VG_HANDLE_NONE:
		return VG_OK;
	case VG_HANDLE_DEFAULT:
		(void)vg_device_property(plan->device, VG_DEVICE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
					 &descriptors);
		if (!host && descriptors)
			plan->properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
		return VG_OK;
	case VG_HANDLE_POSIX_FD:
		if (host)
			return vg_fail(VG_INVALID, 0,
				       "memory at HOST has no handles: take a HOST_NUMA node, or VG_HANDLE_NONE");
		plan->properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
		return require_property(plan->device, VG_DEVICE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
					"a descriptor as handle");
	case VG_HANDLE_FABRIC:
		plan->properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
		return require_property(plan->device, VG_DEVICE_HANDLE_TYPE_FABRIC_SUPPORTED, "a fabric handle");
	case VG_HANDLE_WIN32:
	case VG_HANDLE_WIN32_KMT:
		return vg_fail(VG_UNSUPPORTED, 0, "handle_type %d is Windows': on Linux POSIX_FD, FABRIC or NONE",
			       type);
	}
	return vg_fail(VG_INVALID, 0, "handle_type is %d: DEFAULT, POSIX_FD, FABRIC or NONE", type);
}

static void add_access(struct core_memory_plan *plan, CUmemLocation location, enum vg_access access)
{
	if (access != VG_ACCESS_NONE)
		plan->access[plan->access_count++] =
			(CUmemAccessDesc){location, access == VG_ACCESS_READ ? CU_MEM_ACCESS_FLAGS_PROT_READ
									     : CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

static enum vg_status plan_access(struct core_memory_plan *plan, const struct vg_virtual_memory_options *o)
{
	const CUmemLocation self = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = plan->device->ordinal};
	int can;

	if ((unsigned)o->self_access > VG_ACCESS_NONE || (unsigned)o->peer_access > VG_ACCESS_NONE)
		return vg_fail(VG_INVALID, 0, "self_access is %d and peer_access %d: READ_WRITE, READ or NONE",
			       o->self_access, o->peer_access);
	add_access(plan, self, o->self_access);
	if (plan->properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		add_access(plan, plan->properties.location, o->self_access);
	for (size_t i = 0; i < o->peer_count; i++) {
		struct vg_device *peer = o->peers[i];
		if (!peer)
			return vg_fail(VG_INVALID, 0, "peers[%zu] is NULL", i);
		if (peer == plan->device)
			continue;
		CORE_TRY(vg_device_can_access_peer(peer, plan->device, &can));
		if (!can)
			return vg_fail(VG_INVALID, 0, "device %d cannot access peer device %d", peer->ordinal,
				       plan->device->ordinal);
		add_access(plan, (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = peer->ordinal},
			   o->peer_access);
	}
	return VG_OK;
}

static enum vg_status plan_granularity(struct core_memory_plan *plan, const struct vg_virtual_memory_options *o)
{
	CUmemAllocationGranularity_flags which = o->granularity == VG_GRANULARITY_MINIMUM
							 ? CU_MEM_ALLOC_GRANULARITY_MINIMUM
							 : CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;

	if ((unsigned)o->granularity > VG_GRANULARITY_MINIMUM)
		return vg_fail(VG_INVALID, 0, "granularity is %d: RECOMMENDED or MINIMUM", o->granularity);
	CUresult r = core_driver->cuMemGetAllocationGranularity(&plan->granularity, &plan->properties, which);
	if (r)
		return core_driver_failed(r, "cuMemGetAllocationGranularity", "location %d of type %d, handle type %d",
					  plan->properties.location.id, plan->properties.location.type,
					  plan->properties.requestedHandleTypes);
	plan->alignment = o->alignment ? o->alignment : plan->granularity;
	if (plan->alignment & (plan->alignment - 1))
		return vg_fail(VG_INVALID, 0, "alignment is %zu: it must be a power of two", plan->alignment);
	size_t step = plan->alignment > plan->granularity ? plan->alignment : plan->granularity;
	if (o->address_hint % step)
		return vg_fail(VG_INVALID, 0, "address_hint is 0x%llx: it must be a multiple of %zu",
			       (unsigned long long)o->address_hint, step);
	plan->hint = o->address_hint;
	return VG_OK;
}

static enum vg_status fill_plan(struct core_memory_plan *plan, const struct vg_virtual_memory_options *o)
{
	if ((unsigned)o->allocation_type > VG_ALLOCATION_MANAGED)
		return vg_fail(VG_INVALID, 0, "allocation_type is %d: PINNED or MANAGED", o->allocation_type);
	if (o->allocation_type == VG_ALLOCATION_MANAGED && core_driver_version() < 13000)
		return core_needs_driver(13000, "virtual memory of type MANAGED");
	plan->properties.type = o->allocation_type == VG_ALLOCATION_MANAGED ? CU_MEM_ALLOCATION_TYPE_MANAGED
									    : CU_MEM_ALLOCATION_TYPE_PINNED;
	CORE_TRY(plan_location(plan, &o->location));
	CORE_TRY(plan_handle(plan, o->handle_type));
	if (o->gpu_direct_rdma) {
		CORE_TRY(require_property(plan->device, VG_DEVICE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
					  "GPU Direct RDMA"));
		plan->properties.allocFlags.gpuDirectRDMACapable = 1;
	}
	CORE_TRY(plan_access(plan, o));
	return plan_granularity(plan, o);
}

enum vg_status core_memory_plan(struct vg_device *device, const struct vg_virtual_memory_options *options,
				struct core_memory_plan **ret_plan)
{
	int device_count;

	if (options->peer_count && !options->peers)
		return vg_fail(VG_INVALID, 0, "peers is NULL, and peer_count %zu", options->peer_count);
	CORE_TRY(vg_device_count(&device_count));
	if (options->peer_count > (size_t)device_count)
		return vg_fail(VG_INVALID, 0, "peer_count is %zu: there are %d devices", options->peer_count,
			       device_count);
	struct core_memory_plan *plan = calloc(1, sizeof *plan + (2 + options->peer_count) * sizeof plan->access[0]);
	if (!plan)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for the options");
	plan->device = device;
	enum vg_status status = fill_plan(plan, options);
	if (status) {
		free(plan);
		return status;
	}
	*ret_plan = plan;
	return VG_OK;
}

enum vg_status core_memory_plan_round(const struct core_memory_plan *plan, size_t size, size_t *ret_size)
{
	size_t rest = size % plan->granularity, more = rest ? plan->granularity - rest : 0;

	if (size > SIZE_MAX - more)
		return vg_fail(VG_INVALID, 0, "%zu bytes: rounded up to multiples of %zu they are too many", size,
			       plan->granularity);
	*ret_size = size + more;
	return VG_OK;
}
