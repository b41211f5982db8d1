// A pool of the driver, as this room sees it.
#pragma once
#include "core/device.h"
#include "core/resource.h"
#include "virgate/memory_pool.h"

struct core_pool {
	struct vg_memory_resource resource;
	CUmemoryPool handle;
	CUmemLocation location;	  // where its memory is, or prefers to be
	struct vg_device *device; // of a device pool; NULL: host or managed memory
	bool owned, shareable, imported;
};

// The pool that a resource is, or NULL.
struct core_pool *core_pool_of(const struct vg_memory_resource *resource);
// In a public function: returns from it unless `resource` is a usable pool.
#define CORE_POOL(pool, resource)                                                                                      \
	CORE_USABLE(resource, "pool");                                                                                 \
	struct core_pool *pool = core_pool_of(resource);                                                               \
	do {                                                                                                           \
		if (!pool)                                                                                             \
			return vg_fail(VG_INVALID, 0, __func__, "a %s is not a memory pool",                           \
				       vg_memory_resource_name(resource));                                             \
	} while (0)
