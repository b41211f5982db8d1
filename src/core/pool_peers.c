// Reads and changes which other devices have access to a pool. Only the driver stores which devices have access: the
// pool object has no copy.
#include "core/pool.h"

#include <stdlib.h>

static CUresult read_access(struct core_pool *pool, struct vg_device *device, bool *ret_access)
{
	CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal};
	CUmemAccess_flags flags;

	CUresult r = core_driver->cuMemPoolGetAccess(&flags, pool->handle, &location);
	if (r == CUDA_SUCCESS)
		*ret_access = flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return r;
}

static CUmemAccessDesc make_access(struct vg_device *device, bool access)
{
	return (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal},
				 .flags = access ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE};
}

CUresult core_pool_allow(struct core_pool *pool, struct vg_device *device)
{
	CUmemAccessDesc access = make_access(device, true);
	bool has = false;

	CUresult r = read_access(pool, device, &has);
	return r || has ? r : core_driver->cuMemPoolSetAccess(pool->handle, &access, 1);
}

// The wanted access for each device, by ordinal.
enum wish { UNCHANGED, WITH_ACCESS, WITHOUT_ACCESS };

// Changes the access of all devices in one driver call. Makes no call if nothing changes.
static CUresult apply_wishes(struct core_pool *pool, const enum wish *wishes, CUmemAccessDesc *changes,
			     int device_count, const char **ret_call)
{
	struct vg_device *device;
	size_t count = 0;
	bool has;

	*ret_call = "cuMemPoolGetAccess";
	for (int i = 0; i < device_count; i++) {
		if (wishes[i] == UNCHANGED || vg_device_get(i, &device) || device == pool->device)
			continue;
		CUresult r = read_access(pool, device, &has);
		if (r)
			return r;
		if (has != (wishes[i] == WITH_ACCESS))
			changes[count++] = make_access(device, !has);
	}
	*ret_call = "cuMemPoolSetAccess";
	return count ? core_driver->cuMemPoolSetAccess(pool->handle, changes, count) : CUDA_SUCCESS;
}

static enum vg_status check_peer(struct core_pool *pool, struct vg_device *peer)
{
	int can;

	if (!peer)
		return vg_fail(VG_INVALID, 0, "one of the peers is NULL");
	if (!pool->device)
		return VG_OK; // the pool is of host memory
	enum vg_status status = vg_device_can_access_peer(peer, pool->device, &can);
	if (status || can)
		return status;
	return vg_fail(VG_INVALID, 0,
		       "device %d cannot access peer device %d, which the pool is of: nothing was changed",
		       peer->ordinal, pool->device->ordinal);
}

static enum vg_status change_peers(struct core_pool *pool, struct vg_device *const *peers, size_t count, enum wish wish,
				   enum wish others)
{
	int device_count;
	const char *call;
	enum vg_status status = VG_OK;

	if (count && !peers)
		return vg_fail(VG_INVALID, 0, "peers is NULL, and count %zu", count);
	CORE_TRY(vg_device_count(&device_count));
	for (size_t i = 0; i < count; i++)
		if (wish == WITH_ACCESS || !peers[i])
			CORE_TRY(check_peer(pool, peers[i]));
	enum wish *wishes = calloc((size_t)device_count, sizeof *wishes);
	CUmemAccessDesc *changes = calloc((size_t)device_count, sizeof *changes);
	if (wishes && changes) {
		for (int i = 0; i < device_count; i++)
			wishes[i] = others;
		for (size_t i = 0; i < count; i++)
			wishes[peers[i]->ordinal] = wish;
		CUresult r = apply_wishes(pool, wishes, changes, device_count, &call);
		if (r)
			status = core_driver_failed(r, call, "%s", "");
	} else {
		status = vg_fail(VG_NO_MEMORY, 0, "no memory for a list of %d devices", device_count);
	}
	free(wishes);
	free(changes);
	return status;
}

void core_pool_revoke(struct core_pool *pool)
{
	(void)change_peers(pool, NULL, 0, WITHOUT_ACCESS, WITHOUT_ACCESS);
}

// Finds a pool whose access can be changed. Pools of managed memory are rejected.
static enum vg_status find_peer_pool(const struct vg_memory_resource *resource, struct core_pool **ret_pool)
{
	CORE_TRY(core_pool_check(resource, ret_pool));
	if (resource->properties.managed)
		return vg_fail(VG_INVALID, 0, "a managed pool has no peers: every device reaches it");
	return VG_OK;
}

// Lists all devices that have access to the pool.
static enum vg_status find_peers(struct core_pool *pool, struct vg_device **found, int device_count, size_t *ret_count)
{
	struct vg_device *device;
	size_t count = 0;
	bool has;

	for (int i = 0; i < device_count; i++) {
		CORE_TRY(vg_device_get(i, &device));
		if (device == pool->device)
			continue;
		CUresult r = read_access(pool, device, &has);
		if (r)
			return core_driver_failed(r, "cuMemPoolGetAccess", "device %d", i);
		if (has)
			found[count++] = device;
	}
	*ret_count = count;
	return VG_OK;
}

enum vg_status vg_memory_pool_peers(const struct vg_memory_resource *resource, struct vg_device **ret_peers,
				    size_t capacity, size_t *ret_count)
{
	VG_ENTRY();
	struct core_pool *pool;
	int device_count;
	size_t count = 0;

	CORE_TRY(find_peer_pool(resource, &pool));
	CORE_NEEDED(ret_count);
	if (capacity)
		CORE_NEEDED(ret_peers);
	CORE_TRY(vg_device_count(&device_count));
	struct vg_device **found = calloc((size_t)device_count, sizeof *found);
	if (!found)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of %d devices", device_count);
	enum vg_status status = find_peers(pool, found, device_count, &count);
	if (status == VG_OK && capacity && count > capacity)
		status = core_no_room(count, capacity, "peers");
	for (size_t i = 0; capacity && i < count && status == VG_OK; i++)
		ret_peers[i] = found[i];
	free(found);
	if (status == VG_OK)
		*ret_count = count;
	return status;
}

enum vg_status vg_memory_pool_set_peers(struct vg_memory_resource *resource, struct vg_device *const *peers,
					size_t count)
{
	VG_ENTRY();
	struct core_pool *pool;

	CORE_TRY(find_peer_pool(resource, &pool));
	return change_peers(pool, peers, count, WITH_ACCESS, WITHOUT_ACCESS);
}

enum vg_status vg_memory_pool_add_peers(struct vg_memory_resource *resource, struct vg_device *const *peers,
					size_t count)
{
	VG_ENTRY();
	struct core_pool *pool;

	CORE_TRY(find_peer_pool(resource, &pool));
	return change_peers(pool, peers, count, WITH_ACCESS, UNCHANGED);
}

enum vg_status vg_memory_pool_remove_peers(struct vg_memory_resource *resource, struct vg_device *const *peers,
					   size_t count)
{
	VG_ENTRY();
	struct core_pool *pool;

	CORE_TRY(find_peer_pool(resource, &pool));
	return change_peers(pool, peers, count, WITHOUT_ACCESS, UNCHANGED);
}
