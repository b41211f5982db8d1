// Adds nodes that allocate and free memory.
#include <stdlib.h>

#include "core/device.h"
#include "core/graph.h"

static enum vg_status check_allocation(const struct vg_graph_allocation *a)
{
	int device_count;

	if (!a->bytes)
		return vg_fail(VG_INVALID, 0, "an allocation of 0 bytes: ask for 1 or more");
	if ((unsigned)a->type > VG_GRAPH_MEMORY_MANAGED)
		return vg_fail(VG_INVALID, 0, "memory type %d: there are 0 (device), 1 (host) and 2 (managed)",
			       (int)a->type);
	if (a->type == VG_GRAPH_MEMORY_MANAGED && core_driver_version() < 13000)
		return core_needs_driver(13000, "managed memory of a graph");
	if (a->peer_count && !a->peers)
		return vg_fail(VG_INVALID, 0, "peers is NULL, and peer_count is %zu", a->peer_count);
	CORE_TRY(vg_device_count(&device_count));
	if (a->peer_count > (size_t)device_count)
		return vg_fail(VG_INVALID, 0, "peer_count is %zu: there are %d devices", a->peer_count, device_count);
	for (size_t i = 0; i < a->peer_count; i++)
		if (!a->peers[i])
			return vg_fail(VG_INVALID, 0, "peer %zu is NULL", i);
	return VG_OK;
}

static CUmemAccessDesc *list_access(const struct vg_graph_allocation *a)
{
	CUmemAccessDesc *access = calloc(a->peer_count + 1, sizeof *access);

	for (size_t i = 0; access && i < a->peer_count; i++)
		access[i] = (CUmemAccessDesc){{CU_MEM_LOCATION_TYPE_DEVICE, a->peers[i]->ordinal},
					      CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	return access;
}

enum vg_status vg_graph_add_allocation(struct vg_graph_definition *definition, struct vg_graph_node *const *after,
				       size_t count, const struct vg_graph_allocation *allocation,
				       vg_address *ret_address, struct vg_graph_node **ret_node)
{
	VG_ENTRY();
	struct vg_graph_allocation a;

	CORE_NEEDED(ret_address);
	CORE_TRY(core_graph_options(definition, &a, sizeof a, allocation, "allocation"));
	CORE_TRY(check_allocation(&a));
	CUmemAccessDesc *access = list_access(&a);
	if (!access)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of %zu peers", a.peer_count);
	const struct vg_device *device = a.device ? a.device : definition->context->device;
	struct core_graph_spec spec = {.native.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
	CUDA_MEM_ALLOC_NODE_PARAMS_v2 *params = &spec.native.alloc;
	params->poolProps.allocType =
		a.type == VG_GRAPH_MEMORY_MANAGED ? CU_MEM_ALLOCATION_TYPE_MANAGED : CU_MEM_ALLOCATION_TYPE_PINNED;
	params->poolProps.location = a.type == VG_GRAPH_MEMORY_HOST
					     ? (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST, 0}
					     : (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, device->ordinal};
	params->accessDescs = a.peer_count ? access : NULL;
	params->accessDescCount = a.peer_count;
	params->bytesize = a.bytes;
	enum vg_status status = core_graph_add(definition, after, count, &spec, ret_node);
	free(access);
	if (status == VG_OK)
		*ret_address = params->dptr;
	if (status == VG_DRIVER && vg_last_error()->code == CUDA_ERROR_NOT_SUPPORTED && a.type == VG_GRAPH_MEMORY_HOST)
		return vg_fail(
			VG_UNSUPPORTED, 0,
			"this driver's graphs allocate no memory of the host: ask for managed memory, or allocate it "
			"outside the graph");
	return status;
}

static enum vg_status read_params(const struct vg_graph_node *node, CUDA_MEM_ALLOC_NODE_PARAMS *ret_params)
{
	CUresult r = core_driver->cuGraphMemAllocNodeGetParams(node->handle, ret_params);

	return r ? core_driver_failed(r, "cuGraphMemAllocNodeGetParams", "%s", "") : VG_OK;
}

enum vg_status vg_graph_node_get_allocation(const struct vg_graph_node *node,
					    struct vg_graph_allocation *ret_allocation, vg_address *ret_address)
{
	VG_ENTRY();
	CUDA_MEM_ALLOC_NODE_PARAMS params;

	CORE_TRY(core_graph_node_check_type(node, CU_GRAPH_NODE_TYPE_MEM_ALLOC));
	CORE_TRY(read_params(node, &params));
	bool on_device = params.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
	struct vg_device *device = NULL;
	if (on_device)
		vg_device_get(params.poolProps.location.id, &device);
	if (ret_allocation)
		*ret_allocation = (struct vg_graph_allocation){
			.size = sizeof *ret_allocation,
			.bytes = params.bytesize,
			.type = params.poolProps.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED ? VG_GRAPH_MEMORY_MANAGED
				: on_device						     ? VG_GRAPH_MEMORY_DEVICE
											     : VG_GRAPH_MEMORY_HOST,
			.device = device,
			.peer_count = params.accessDescCount,
		};
	if (ret_address)
		*ret_address = params.dptr;
	return VG_OK;
}

enum vg_status vg_graph_node_get_peers(const struct vg_graph_node *node, struct vg_device **peers, size_t capacity,
				       size_t *ret_count)
{
	VG_ENTRY();
	CUDA_MEM_ALLOC_NODE_PARAMS params;

	CORE_TRY(core_graph_node_check_type(node, CU_GRAPH_NODE_TYPE_MEM_ALLOC));
	CORE_NEEDED(ret_count);
	if (capacity)
		CORE_NEEDED(peers);
	CORE_TRY(read_params(node, &params));
	if (capacity && params.accessDescCount > capacity)
		return core_no_room(params.accessDescCount, capacity, "peers");
	// The first pass only checks. The second pass writes, and cannot fail.
	for (int write = 0; write < 2 && capacity; write++) {
		struct vg_device *device;
		for (size_t i = 0; i < params.accessDescCount; i++) {
			CORE_TRY(vg_device_get(params.accessDescs[i].location.id, &device));
			if (write)
				peers[i] = device;
		}
	}
	*ret_count = params.accessDescCount;
	return VG_OK;
}

enum vg_status vg_graph_add_free(struct vg_graph_definition *definition, struct vg_graph_node *const *after,
				 size_t count, vg_address address, struct vg_graph_node **ret_node)
{
	VG_ENTRY();
	struct core_graph_spec spec = {.native.type = CU_GRAPH_NODE_TYPE_MEM_FREE};

	if (!address)
		return vg_fail(VG_INVALID, 0, "address 0 cannot be freed: name what an allocation node gave");
	spec.native.free.dptr = address;
	return core_graph_add(definition, after, count, &spec, ret_node);
}

enum vg_status vg_graph_node_get_free(const struct vg_graph_node *node, vg_address *ret_address)
{
	VG_ENTRY();
	CUdeviceptr address;

	CORE_TRY(core_graph_node_check_type(node, CU_GRAPH_NODE_TYPE_MEM_FREE));
	CORE_NEEDED(ret_address);
	CORE_CALL(cuGraphMemFreeNodeGetParams, node->handle, &address);
	*ret_address = address;
	return VG_OK;
}
