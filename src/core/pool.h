// Declares the memory pool object. Any thread.
#pragma once

#include "base/mutex.h"
#include "core/device.h"
#include "core/resource.h"
#include "virgate/memory_pool.h"

struct core_import; // a buffer imported from another process; see pool_buffer.c

// A pool that another process exported. The driver returns the same handle for every import of it, so all imports share
// this object.
struct core_foreign_pool {
	CUmemoryPool handle;
	// The number of pool objects that share this one. foreign_lock in pool_share.c protects this member and the
	// next two.
	unsigned users;
	unsigned times; // number of imports; the pool must be destroyed as often
	struct core_foreign_pool *next;
	struct vg_mutex lock;
	struct core_import *imports; // protected by `lock`
};

struct core_pool {
	struct vg_memory_resource resource;
	CUmemoryPool handle;
	CUmemLocation location;	  // location of the memory; for managed memory, the preferred location
	struct vg_device *device; // device of a device pool; NULL: a pool of host or managed memory
	bool owned, shareable;
	// True: `uuid` is valid. If the pool was imported, the lock of the registry (pool_share.c) protects this
	// member.
	bool has_uuid;
	unsigned char uuid[16];
	struct core_foreign_pool *foreign; // NULL: this pool was not imported
};

extern const struct core_resource_class core_device_pool, core_pinned_pool, core_managed_pool;

// Creates a pool object without a handle. NULL: out of memory.
struct core_pool *core_pool_new(const struct core_resource_class *class, struct vg_device *device);
// Converts a resource to the memory pool that contains it. Returns NULL if the resource is not a pool.
struct core_pool *core_pool_of(const struct vg_memory_resource *resource);
// Converts a resource to its memory pool like core_pool_of(). INVALID (NULL, or not a pool), CLOSED.
enum vg_status core_pool_check(const struct vg_memory_resource *resource, struct core_pool **ret_pool);

// Gives the device access to a pool of host memory, unless the device already has access.
CUresult core_pool_allow(struct core_pool *pool, struct vg_device *device);
// Removes the access that other devices got to the pool.
void core_pool_revoke(struct core_pool *pool);
// Removes the pool from the registry of pools by UUID in pool_share.c.
void core_pool_unregister(struct core_pool *pool);
// Frees a buffer of an imported pool. `import` is the `user` value of the buffer's allocation.
enum vg_status core_import_release(struct core_pool *pool, struct core_import *import, struct vg_stream *stream);
// Frees the imported buffers that the driver failed to free earlier. Call when the pool ends.
enum vg_status core_imports_unmap(struct core_foreign_pool *pool);
// Removes one user of an imported pool. The last user destroys the pool.
enum vg_status core_foreign_pool_release(struct core_pool *pool);
