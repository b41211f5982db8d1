// A pool of the driver, as this room sees it.
#pragma once

#include "base/mutex.h"
#include "core/device.h"
#include "core/resource.h"
#include "virgate/memory_pool.h"

struct core_import; // a buffer of another process; pool_buffer.c

// A pool of another process, which the driver has here once, however often it was imported: so have we.
struct core_foreign_pool {
	CUmemoryPool handle;
	unsigned users; // pools that it is; it and the next two under the lock of pool_share.c
	unsigned times; // that it was imported, and is to be destroyed
	struct core_foreign_pool *next;
	struct vg_mutex lock;
	struct core_import *imports; // under `lock`
};

struct core_pool {
	struct vg_memory_resource resource;
	CUmemoryPool handle;
	CUmemLocation location;	  // where its memory is, or prefers to be
	struct vg_device *device; // of a device pool; NULL: host or managed memory
	bool owned, shareable;
	bool has_uuid; // under the registry's lock when imported
	unsigned char uuid[16];
	struct core_foreign_pool *foreign; // NULL: it was not imported
};

extern const struct core_resource_class core_device_pool, core_pinned_pool, core_managed_pool;

// Neither owned nor named yet; NULL: no memory.
struct core_pool *core_pool_new(const struct core_resource_class *class, struct vg_device *device);
// The pool that a resource is, or NULL.
struct core_pool *core_pool_of(const struct vg_memory_resource *resource);
// Finds the pool that a resource is. INVALID for NULL and for other resources, CLOSED.
enum vg_status core_pool_check(const struct vg_memory_resource *resource, struct core_pool **ret_pool);

// Lets the device reach host memory, unless it can already.
CUresult core_pool_let(struct core_pool *pool, struct vg_device *device);
// Takes the access away that other devices were given.
void core_pool_revoke(struct core_pool *pool);
// Takes the pool out of the registry.
void core_pool_forget(struct core_pool *pool);
// Frees what buffers of an imported pool name; `import` is its note in the allocation.
enum vg_status core_import_drop(struct core_pool *pool, struct core_import *import, struct vg_stream *stream);
// At the pool's end: what the driver refused to take back before.
enum vg_status core_imports_unmap(struct core_foreign_pool *pool);
// The end of a pool that was imported.
enum vg_status core_foreign_drop(struct core_pool *pool);
