// Declares the objects of device resources. Also declares the fields that CUDA 13.1 added to the driver's structures,
// because the driver may be newer than the CUDA header. Any thread.
#pragma once
#include "core/device.h"
#include "core/object.h"
#include "virgate/device_resource.h"

enum { CORE_DRIVER_13_1 = 13010 };

struct vg_sm_resource {
	struct core_object object;
	struct vg_device *device;
	CUdevResource native;
	unsigned count, min_partition_size, coscheduled_alignment, flags;
	// True: a split made this resource. The driver can split it again only after a green context was created with
	// it.
	bool group;
	// True: a dry run of a split made this resource. It has sizes only.
	bool dry_run;
};

// A work queue resource: the configuration of a work queue, and the queue. The driver takes both together.
struct vg_workqueue_resource {
	struct core_object object;
	struct vg_device *device;
	CUdevResource config, queue;
};

enum { CORE_RESOURCE_WORKQUEUE_CONFIG = 1000, CORE_RESOURCE_WORKQUEUE = 10000 };

// The documented part of a driver's resource, 48 bytes long. The type of the resource says which member is valid.
union core_resource_fields {
	struct {
		unsigned count, min_partition_size, coscheduled_alignment, flags;
	} sm;
	struct {
		CUdevice device;
		unsigned concurrency_limit;
		// 0: all contexts of the device use the same queues; 1: green contexts have common queues only if
		// necessary
		int sharing_scope;
	} workqueue;
	unsigned char bytes[48];
};
_Static_assert(sizeof(union core_resource_fields) == sizeof(((CUdevResource *)0)->_oversize), "as the driver has it");
_Static_assert(sizeof(CUdevResource) == 144, "the same in every version");

struct vg_context;
// Asks the driver for a resource of the context, or of the device if `context` is NULL.
CUresult core_resource_query(struct vg_device *device, struct vg_context *context, int type, CUdevResource *ret_native);
// Creates an empty SM resource. NULL: out of memory.
struct vg_sm_resource *core_sm_resource_new(struct vg_device *device);
// Fills an SM resource from a driver's resource. `parent` is the resource that was split, or NULL.
void core_sm_resource_fill(struct vg_sm_resource *resource, const CUdevResource *native,
			   const struct vg_sm_resource *parent);

// Defines three public functions, which get a resource of one kind: from a device, from a context, and from the context
// of a stream. The file that uses this macro defines query_KIND().
#define CORE_RESOURCE_GETTERS(kind)                                                             \
	enum vg_status vg_device_##kind##_resource(struct vg_device *device,                    \
						   struct vg_##kind##_resource **ret_resource)  \
	{                                                                                       \
		VG_ENTRY();                                                                     \
		CORE_NEEDED(device);                                                            \
		CORE_NEEDED(ret_resource);                                                      \
		return query_##kind(device, NULL, ret_resource);                                \
	}                                                                                       \
	enum vg_status vg_context_##kind##_resource(struct vg_context *context,                 \
						    struct vg_##kind##_resource **ret_resource) \
	{                                                                                       \
		VG_ENTRY();                                                                     \
		CORE_USABLE(context, "context");                                                \
		CORE_NEEDED(ret_resource);                                                      \
		return query_##kind(context->device, context, ret_resource);                    \
	}                                                                                       \
	enum vg_status vg_stream_##kind##_resource(struct vg_stream *stream,                    \
						   struct vg_##kind##_resource **ret_resource)  \
	{                                                                                       \
		VG_ENTRY();                                                                     \
		CORE_USABLE(stream, "stream");                                                  \
		CORE_NEEDED(ret_resource);                                                      \
		return query_##kind(stream->context->device, stream->context, ret_resource);    \
	}
