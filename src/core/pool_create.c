// Wraps the pools that the driver currently uses by default, and creates new pools.
#include "core/pool.h"

#include "base/log.h"

#include <sys/random.h>

// The parameters of a pool.
struct recipe {
	const struct core_resource_class *class;
	struct vg_device *device; // device of the memory; for host memory, a device that has access
	CUmemPoolProps properties;
};

static int read_property(struct vg_device *device, enum vg_device_property which)
{
	int value = 0;

	(void)vg_device_property(device, which, &value);
	return value;
}

static enum vg_status check_recipe(const struct recipe *recipe)
{
	bool on_device = recipe->class == &core_device_pool;
	enum vg_device_property needed = VG_DEVICE_MEMORY_POOLS_SUPPORTED;

	if (!on_device && core_driver_version() < 13000)
		return core_needs_driver(13000, recipe->class->object.name);
	if (recipe->class == &core_pinned_pool)
		needed = recipe->properties.location.type == CU_MEM_LOCATION_TYPE_HOST
				 ? VG_DEVICE_HOST_MEMORY_POOLS_SUPPORTED
				 : VG_DEVICE_HOST_NUMA_MEMORY_POOLS_SUPPORTED;
	if (read_property(recipe->device, needed))
		return VG_OK;
	return vg_fail(VG_UNSUPPORTED, 0, "a %s: device %d has %s 0; use the %s resource", recipe->class->object.name,
		       recipe->device->ordinal, vg_device_property_name(needed),
		       on_device ? "synchronous" : "legacy pinned");
}

// Sets the release threshold, unless the program has set it. Without a threshold, the pool releases all free memory at
// each synchronisation, and is slower than no pool.
static CUresult keep_freed_memory(CUmemoryPool pool)
{
	CORE_RELAXED relaxed = core_relax();
	cuuint64_t threshold;

	CUresult r = core_driver->cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
	if (r || threshold)
		return r;
	threshold = UINT64_MAX;
	return core_driver->cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
}

static CUresult find_current(struct core_pool *pool, const struct recipe *recipe, const char **ret_call)
{
	CUmemLocation location = recipe->properties.location;

	if (!pool->device) {
		*ret_call = "cuMemGetMemPool";
		return core_driver->cuMemGetMemPool(&pool->handle, &location, recipe->properties.allocType);
	}
	*ret_call = "cuDeviceGetMemPool";
	CUresult r = core_driver->cuDeviceGetMemPool(&pool->handle, pool->device->handle);
	if (r)
		return r;
	*ret_call = "cuMemPoolSetAttribute";
	return keep_freed_memory(pool->handle);
}

static CUresult create_pool(struct core_pool *pool, const struct recipe *recipe, const char **ret_call)
{
	*ret_call = "cuMemPoolCreate";
	CUresult r = core_driver->cuMemPoolCreate(&pool->handle, &recipe->properties);
	pool->owned = r == CUDA_SUCCESS;
	pool->shareable = recipe->properties.handleTypes != CU_MEM_HANDLE_TYPE_NONE;
	return r;
}

static enum vg_status make_pool(const struct recipe *recipe, bool current, struct vg_memory_resource **ret_pool)
{
	enum vg_status status = check_recipe(recipe);
	const char *call;

	if (status)
		return status;
	struct core_pool *pool =
		core_pool_new(recipe->class, recipe->class == &core_device_pool ? recipe->device : NULL);
	if (!pool)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a %s", recipe->class->object.name);
	pool->location = recipe->properties.location;
	CUresult r = current ? find_current(pool, recipe, &call) : create_pool(pool, recipe, &call);
	if (r == CUDA_SUCCESS && recipe->class == &core_pinned_pool) {
		call = "cuMemPoolSetAccess";
		r = core_pool_allow(pool, recipe->device);
	}
	if (r) {
		vg_memory_resource_destroy(&pool->resource);
		return core_driver_failed(r, call, "%s, device %d, location %d of type %d, at most %zu bytes",
					  recipe->class->object.name, recipe->device->ordinal,
					  recipe->properties.location.id, recipe->properties.location.type,
					  recipe->properties.maxSize);
	}
	if (pool->shareable)
		pool->has_uuid = getrandom(pool->uuid, sizeof pool->uuid, 0) == sizeof pool->uuid;
	*ret_pool = &pool->resource;
	return VG_OK;
}

// ---- of a device --------------------------------------------------------------------------------

static struct recipe make_device_recipe(struct vg_device *device)
{
	return (struct recipe){&core_device_pool,
			       device,
			       {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal}}};
}

enum vg_status vg_device_pool_current(struct vg_device *device, struct vg_memory_resource **ret_pool)
{
	VG_ENTRY();
	CORE_NEEDED(device);
	CORE_NEEDED(ret_pool);
	const struct recipe recipe = make_device_recipe(device);
	return make_pool(&recipe, true, ret_pool);
}

enum vg_status vg_device_pool_create(struct vg_device *device, const struct vg_device_pool_options *options,
				     struct vg_memory_resource **ret_pool)
{
	VG_ENTRY();
	struct vg_device_pool_options o;

	CORE_NEEDED(device);
	CORE_NEEDED(ret_pool);
	CORE_OPTIONS(o, options);
	if (o.shareable && !(read_property(device, VG_DEVICE_MEMPOOL_SUPPORTED_HANDLE_TYPES) &
			     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		return vg_fail(VG_UNSUPPORTED, 0, "device %d cannot share pools between processes", device->ordinal);
	struct recipe recipe = make_device_recipe(device);
	recipe.properties.maxSize = o.max_size;
	recipe.properties.handleTypes =
		o.shareable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
	return make_pool(&recipe, false, ret_pool);
}

// ---- of pinned host memory ----------------------------------------------------------------------

static enum vg_status find_node(struct vg_device *device, int *ret_node)
{
	int node = -1;

	CORE_TRY(vg_device_property(device, VG_DEVICE_HOST_NUMA_ID, &node));
	if (node < 0)
		return vg_fail(VG_UNSUPPORTED, 0,
			       "cannot determine the host NUMA node of device %d: name one (location HOST_NUMA)",
			       device->ordinal);
	*ret_node = node;
	return VG_OK;
}

enum vg_status vg_pinned_pool_current(struct vg_device *device, struct vg_memory_resource **ret_pool)
{
	VG_ENTRY();
	CORE_NEEDED(device);
	CORE_NEEDED(ret_pool);
	const struct recipe recipe = {
		&core_pinned_pool,
		device,
		{.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location.type = CU_MEM_LOCATION_TYPE_HOST}};
	return make_pool(&recipe, true, ret_pool);
}

enum vg_status vg_pinned_pool_create(struct vg_device *device, const struct vg_pinned_pool_options *options,
				     struct vg_memory_resource **ret_pool)
{
	VG_ENTRY();
	struct vg_pinned_pool_options o;
	CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_HOST};
	enum vg_status status = VG_OK;

	CORE_NEEDED(device);
	CORE_NEEDED(ret_pool);
	CORE_OPTIONS(o, options);
	switch (o.location.type) {
	case VG_LOCATION_HOST_NUMA:
		if (o.location.id < 0)
			return vg_fail(VG_INVALID, 0, "location.id is %d: a NUMA node is 0 or more", o.location.id);
		location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = o.location.id};
		break;
	case VG_LOCATION_NONE:
	case VG_LOCATION_HOST:
		if (o.shareable) { // shareable memory must be on one NUMA node
			location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
			status = find_node(device, &location.id);
		}
		break;
	default:
		return vg_fail(VG_INVALID, 0, "location.type is %d: pinned memory is at HOST or on a HOST_NUMA node",
			       o.location.type);
	}
	if (status)
		return status;
	const struct recipe recipe = {
		&core_pinned_pool,
		device,
		{.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		 .location = location,
		 .maxSize = o.max_size,
		 .handleTypes = o.shareable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE}};
	return make_pool(&recipe, false, ret_pool);
}

// ---- of managed memory --------------------------------------------------------------------------

static void warn_once(struct vg_device *device)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;

	if (!read_property(device, VG_DEVICE_CONCURRENT_MANAGED_ACCESS) && !atomic_flag_test_and_set(&warned))
		vg_log(VG_LOG_WARNING,
		       "device %d and the host cannot use managed memory at the same time: synchronise before the host "
		       "touches it",
		       device->ordinal);
}

static enum vg_status make_managed(struct vg_device *device, CUmemLocation location, bool current,
				   struct vg_memory_resource **ret_pool)
{
	const struct recipe recipe = {
		&core_managed_pool, device, {.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED, .location = location}};

	CORE_TRY(make_pool(&recipe, current, ret_pool));
	warn_once(device);
	return VG_OK;
}

enum vg_status vg_managed_pool_current(struct vg_device *device, struct vg_memory_resource **ret_pool)
{
	VG_ENTRY();
	CORE_NEEDED(device);
	CORE_NEEDED(ret_pool);
	return make_managed(device, (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_NONE}, true, ret_pool);
}

static enum vg_status check_preferred(const struct vg_memory_location *location)
{
	int count;

	switch (location->type) {
	case VG_LOCATION_NONE:
		return VG_OK;
	case VG_LOCATION_DEVICE:
		if (vg_device_count(&count) || location->id < 0 || location->id >= count)
			return vg_fail(VG_INVALID, 0, "preferred_location.id is %d: it must be a device's ordinal",
				       location->id);
		return VG_OK;
	case VG_LOCATION_HOST:
		if (location->id)
			return vg_fail(
				VG_INVALID, 0,
				"preferred_location.id is %d: of the host it must be 0 (a node is of type HOST_NUMA)",
				location->id);
		return VG_OK;
	case VG_LOCATION_HOST_NUMA:
		if (location->id < VG_NODE_OF_DEVICE)
			return vg_fail(VG_INVALID, 0,
				       "preferred_location.id is %d: it must be a NUMA node, or VG_NODE_OF_DEVICE",
				       location->id);
		return VG_OK;
	default:
		return vg_fail(VG_INVALID, 0, "preferred_location.type is %d: NONE, DEVICE, HOST or HOST_NUMA",
			       location->type);
	}
}

enum vg_status vg_managed_pool_create(struct vg_device *device, const struct vg_managed_pool_options *options,
				      struct vg_memory_resource **ret_pool)
{
	VG_ENTRY();
	struct vg_managed_pool_options o;

	CORE_NEEDED(device);
	CORE_NEEDED(ret_pool);
	CORE_OPTIONS(o, options);
	CORE_TRY(check_preferred(&o.preferred_location));
	CUmemLocation location = {.type = (CUmemLocationType)o.preferred_location.type, .id = o.preferred_location.id};
	if (o.preferred_location.type == VG_LOCATION_HOST_NUMA && location.id == VG_NODE_OF_DEVICE)
		CORE_TRY(find_node(device, &location.id));
	return make_managed(device, location, false, ret_pool);
}
