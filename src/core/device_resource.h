// Device resources, as this room sees them, and what CUDA 13.1 added to the driver's structures: the
// header that this is compiled with may be older than the driver.
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
	bool group; // of a split: to be split again only as a context's
	bool dry_run;
};

// A work queue's configuration and the queue go to the driver side by side.
struct vg_workqueue_resource {
	struct core_object object;
	struct vg_device *device;
	CUdevResource config, queue;
};

enum { CORE_RESOURCE_WORKQUEUE_CONFIG = 1000, CORE_RESOURCE_WORKQUEUE = 10000 };

// What the driver keeps in a resource's 48 public bytes, by type.
union core_resource_fields {
	struct {
		unsigned count, min_partition_size, coscheduled_alignment, flags;
	} sm;
	struct {
		CUdevice device;
		unsigned concurrency_limit;
		int sharing_scope; // 0 device, 1 green contexts, balanced
	} workqueue;
	unsigned char bytes[48];
};
_Static_assert(sizeof(union core_resource_fields) == sizeof(((CUdevResource *)0)->_oversize), "as the driver has it");
_Static_assert(sizeof(CUdevResource) == 144, "the same in every version");

// Where resources are asked of: a context, or else the device.
struct vg_context;
CUresult core_resource_ask(struct vg_device *device, struct vg_context *context, int type, CUdevResource *ret_native);
// NULL if there is no memory.
struct vg_sm_resource *core_sm_resource_new(struct vg_device *device);
// With what the driver answered; `parent` NULL: of no split.
void core_sm_resource_fill(struct vg_sm_resource *resource, const CUdevResource *native,
			   const struct vg_sm_resource *parent);

// Of a device, of a context, of a stream's context: what all kinds of resources have, given query().
#define CORE_RESOURCE_GETTERS(kind)                                                             \
	enum vg_status vg_device_##kind##_resource(struct vg_device *device,                    \
						   struct vg_##kind##_resource **ret_resource)  \
	{                                                                                       \
		VG_ENTRY();                                                                     \
		CORE_NEEDED(device);                                                            \
		CORE_NEEDED(ret_resource);                                                      \
		return query(device, NULL, ret_resource);                                       \
	}                                                                                       \
	enum vg_status vg_context_##kind##_resource(struct vg_context *context,                 \
						    struct vg_##kind##_resource **ret_resource) \
	{                                                                                       \
		VG_ENTRY();                                                                     \
		CORE_USABLE(context, "context");                                                \
		CORE_NEEDED(ret_resource);                                                      \
		return query(context->device, context, ret_resource);                           \
	}                                                                                       \
	enum vg_status vg_stream_##kind##_resource(struct vg_stream *stream,                    \
						   struct vg_##kind##_resource **ret_resource)  \
	{                                                                                       \
		VG_ENTRY();                                                                     \
		CORE_USABLE(stream, "stream");                                                  \
		CORE_NEEDED(ret_resource);                                                      \
		return query(stream->context->device, stream->context, ret_resource);           \
	}
