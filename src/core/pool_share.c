// Exports and imports pools by descriptor, and keeps the registry of pools by UUID.
#include "core/pool.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum vg_status vg_memory_pool_export(struct vg_memory_resource *resource, int *ret_descriptor)
{
	VG_ENTRY();
	struct core_pool *pool;
	int descriptor;

	CORE_TRY(core_pool_check(resource, &pool));
	CORE_NEEDED(ret_descriptor);
	if (pool->foreign)
		return vg_fail(VG_STATE, 0, "the pool was imported: the process that created it exports it");
	if (!pool->shareable)
		return vg_fail(VG_STATE, 0, "the %s is not shareable: create one with options.shareable",
			       resource->object.class->name);
	CORE_CALL(cuMemPoolExportToShareableHandle, &descriptor, pool->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		  0);
	(void)fcntl(descriptor, F_SETFD, FD_CLOEXEC);
	*ret_descriptor = descriptor;
	return VG_OK;
}

// ---- import -------------------------------------------------------------------------------------

static struct vg_mutex foreign_lock; // held during driver calls, so that importing and destroying a pool do not overlap
static struct core_foreign_pool *foreign_pools;

static enum vg_status import_handle(struct core_pool *pool, int descriptor)
{
	struct core_foreign_pool *made = calloc(1, sizeof *made), *foreign;

	if (!made)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a %s", pool->resource.object.class->name);
	vg_mutex_lock(&foreign_lock);
	CUresult r = core_driver->cuMemPoolImportFromShareableHandle(&made->handle, (void *)(intptr_t)descriptor,
								     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	for (foreign = foreign_pools; foreign && foreign->handle != made->handle; foreign = foreign->next)
		;
	if (r == CUDA_SUCCESS && !foreign) {
		foreign = made;
		made = NULL;
		foreign->next = foreign_pools;
		foreign_pools = foreign;
	}
	if (r == CUDA_SUCCESS) {
		foreign->users++;
		foreign->times++;
		pool->foreign = foreign;
		pool->handle = foreign->handle;
		pool->owned = true;
	}
	vg_mutex_unlock(&foreign_lock);
	free(made);
	return r ? core_driver_failed(r, "cuMemPoolImportFromShareableHandle", "descriptor %d", descriptor) : VG_OK;
}

// Destroys an imported pool with its last user. The driver cannot destroy a pool while any user has imported a pointer
// of that pool.
static enum vg_status destroy_foreign(struct core_pool *pool)
{
	struct core_foreign_pool **link = &foreign_pools, *foreign = pool->foreign;
	CUresult r = CUDA_SUCCESS;

	while (*link != foreign)
		link = &(*link)->next;
	*link = foreign->next;
	enum vg_status status = core_imports_unmap(foreign);
	if (pool->device)
		core_pool_revoke(pool);
	while (r == CUDA_SUCCESS && foreign->times-- > 0)
		r = core_driver->cuMemPoolDestroy(foreign->handle);
	free(foreign);
	return r ? core_driver_failed(r, "cuMemPoolDestroy", "%s", "") : status;
}

enum vg_status core_foreign_pool_release(struct core_pool *pool)
{
	vg_mutex_lock(&foreign_lock);
	bool last = --pool->foreign->users == 0;
	enum vg_status status = last ? destroy_foreign(pool) : VG_OK;
	vg_mutex_unlock(&foreign_lock);
	return status;
}

static enum vg_status import_pool(const struct core_resource_class *class, struct vg_device *device, int descriptor,
				  struct vg_memory_resource **ret_pool)
{
	if (fcntl(descriptor, F_GETFD) < 0)
		return vg_fail(VG_INVALID, 0, "descriptor %d is not open", descriptor);
	struct core_pool *pool = core_pool_new(class, class == &core_device_pool ? device : NULL);
	if (!pool)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a %s", class->object.name);
	pool->shareable = true;
	pool->location = class == &core_device_pool
				 ? (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal}
				 : (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
	enum vg_status status = import_handle(pool, descriptor);
	if (status == VG_OK && class == &core_pinned_pool) {
		CUresult r = core_pool_allow(pool, device);
		status = r ? core_driver_failed(r, "cuMemPoolSetAccess", "descriptor %d", descriptor) : VG_OK;
	}
	if (status) {
		vg_memory_resource_destroy(&pool->resource);
		return status;
	}
	*ret_pool = &pool->resource;
	return VG_OK;
}

enum vg_status vg_device_pool_import(struct vg_device *device, int descriptor, struct vg_memory_resource **ret_pool)
{
	VG_ENTRY();
	CORE_NEEDED(device);
	CORE_NEEDED(ret_pool);
	return import_pool(&core_device_pool, device, descriptor, ret_pool);
}

enum vg_status vg_pinned_pool_import(struct vg_device *device, int descriptor, struct vg_memory_resource **ret_pool)
{
	VG_ENTRY();
	CORE_NEEDED(device);
	CORE_NEEDED(ret_pool);
	return import_pool(&core_pinned_pool, device, descriptor, ret_pool);
}

// ---- registry -----------------------------------------------------------------------------------

struct entry {
	struct core_pool *pool; // the entry owns no reference: the pool removes its entry when it ends
	struct entry *next;
};

static struct vg_mutex registry_lock;
static struct entry *registry;

// Returns a new reference to the open pool with that UUID, or NULL. Call with the lock held.
static struct core_pool *find_registered(const unsigned char uuid[16])
{
	for (struct entry *entry = registry; entry; entry = entry->next)
		if (memcmp(entry->pool->uuid, uuid, 16) == 0 && !atomic_load(&entry->pool->resource.object.closed) &&
		    core_object_try_retain(&entry->pool->resource.object))
			return entry->pool;
	return NULL;
}

void core_pool_unregister(struct core_pool *pool)
{
	struct entry **link = &registry, *mine = NULL;

	vg_mutex_lock(&registry_lock);
	while (*link && (*link)->pool != pool)
		link = &(*link)->next;
	if (*link) {
		mine = *link;
		*link = mine->next;
	}
	vg_mutex_unlock(&registry_lock);
	free(mine);
}

enum vg_status vg_memory_pool_uuid(const struct vg_memory_resource *resource, unsigned char ret_uuid[16])
{
	VG_ENTRY();
	struct core_pool *pool;

	CORE_TRY(core_pool_check(resource, &pool));
	CORE_NEEDED(ret_uuid);
	vg_mutex_lock(&registry_lock);
	bool has = pool->has_uuid;
	if (has)
		memcpy(ret_uuid, pool->uuid, sizeof pool->uuid);
	vg_mutex_unlock(&registry_lock);
	return has ? VG_OK
		   : vg_fail(VG_STATE, 0,
			     "the pool has no UUID: it is not shareable, or was imported and not registered");
}

enum vg_status vg_memory_pool_register(struct vg_memory_resource *resource, const unsigned char uuid[16],
				       struct vg_memory_resource **ret_pool)
{
	VG_ENTRY();
	struct core_pool *pool;

	CORE_TRY(core_pool_check(resource, &pool));
	CORE_NEEDED(uuid);
	CORE_NEEDED(ret_pool);
	if (!pool->shareable)
		return vg_fail(VG_INVALID, 0, "the %s is not shareable: only shareable pools can be registered",
			       resource->object.class->name);
	struct entry *entry = malloc(sizeof *entry);
	if (!entry)
		return vg_fail(VG_NO_MEMORY, 0, "no memory to register a pool");
	vg_mutex_lock(&registry_lock);
	// If the program has closed the pool meanwhile, do not register it: nothing would remove the entry again.
	if (atomic_load(&resource->object.closed)) {
		vg_mutex_unlock(&registry_lock);
		free(entry);
		CORE_USABLE(resource, "pool");
	}
	bool other_name = pool->has_uuid && memcmp(pool->uuid, uuid, sizeof pool->uuid) != 0;
	struct core_pool *known = other_name ? NULL : find_registered(uuid);
	if (!other_name && !known) {
		memcpy(pool->uuid, uuid, sizeof pool->uuid);
		pool->has_uuid = true;
		*entry = (struct entry){pool, registry};
		registry = entry;
		entry = NULL;
		known = pool;
		core_object_retain(&pool->resource.object);
	}
	vg_mutex_unlock(&registry_lock);
	free(entry);
	if (!known)
		return vg_fail(VG_INVALID, 0, "the pool has another UUID already");
	*ret_pool = &known->resource;
	return VG_OK;
}

enum vg_status vg_memory_pool_find(const unsigned char uuid[16], struct vg_memory_resource **ret_pool)
{
	VG_ENTRY();
	CORE_NEEDED(uuid);
	CORE_NEEDED(ret_pool);
	vg_mutex_lock(&registry_lock);
	struct core_pool *pool = find_registered(uuid);
	vg_mutex_unlock(&registry_lock);
	if (!pool)
		return vg_fail(VG_NOT_FOUND, 0, "no pool of this UUID is registered: import it, and register it");
	*ret_pool = &pool->resource;
	return VG_OK;
}
