// The memory pool object. Any thread.
#pragma once

#include "base/mutex.h"
#include "core/device.h"
#include "core/resource.h"
#include "virgate/memory_pool.h"

struct core_import; // a buffer of another process; pool_buffer.c

// A pool of another process. The driver returns the same handle for every import, so there is one of these for all.
struct core_foreign_pool {
	CUmemoryPool handle;
	unsigned users; // pool objects; this and the next two under the lock of pool_share.c
	unsigned times; // number of imports, each of which needs one destruction
	struct core_foreign_pool *next;
	struct vg_mutex lock;
	struct core_import *imports; // under `lock`
};

struct core_pool {
	struct vg_memory_resource resource;
	CUmemoryPool handle;
	CUmemLocation location;	  // of its memory; of managed memory the preferred one
	struct vg_device *device; // of a device pool; NULL: of host or managed memory
	bool owned, shareable;
	bool has_uuid; // under the registry's lock if imported
	unsigned char uuid[16];
	struct core_foreign_pool *foreign; // NULL: it was not imported
};

extern const struct core_resource_class core_device_pool, core_pinned_pool, core_managed_pool;

// Creates a pool object without a handle. NULL: no memory.
struct core_pool *core_pool_new(const struct core_resource_class *class, struct vg_device *device);
// Returns the pool that a resource is, or NULL for other resources.
struct core_pool *core_pool_of(const struct vg_memory_resource *resource);
// Finds the pool that a resource is. INVALID for NULL and for other resources, CLOSED.
enum vg_status core_pool_check(const struct vg_memory_resource *resource, struct core_pool **ret_pool);

// Gives the device access to a pool of host memory, unless it has it already.
CUresult core_pool_allow(struct core_pool *pool, struct vg_device *device);
// Removes the access that other devices were given.
void core_pool_revoke(struct core_pool *pool);
// Removes the pool from the registry.
void core_pool_unregister(struct core_pool *pool);
// Frees a buffer of an imported pool. `import` is the `user` of its allocation.
enum vg_status core_import_release(struct core_pool *pool, struct core_import *import, struct vg_stream *stream);
// Frees the imports that the driver refused to free before, when the pool ends.
enum vg_status core_imports_unmap(struct core_foreign_pool *pool);
// Ends one user of an imported pool.
enum vg_status core_foreign_pool_release(struct core_pool *pool);
