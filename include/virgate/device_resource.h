/* The parts of a device for a green context: multiprocessors (SMs), and work queues.
 *
 * A resource is a description: it reserves nothing on the device until vg_context_create() makes a context of
 * it. */
#ifndef VIRGATE_DEVICE_RESOURCE_H
#define VIRGATE_DEVICE_RESOURCE_H

#include <stddef.h>

#include <virgate/device.h>
#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_context;
struct vg_sm_resource;
struct vg_stream;
struct vg_workqueue_resource;

/* Returns the SMs of a device, of a context (of a green one its own) or of a stream's context. The caller owns
 * *ret_resource and ends it with vg_sm_resource_destroy(). INVALID, CLOSED, NO_MEMORY, DRIVER. Any thread.
 * Source: cuDeviceGetDevResource, cuCtxGetDevResource, cuGreenCtxGetDevResource. */
VG_PUBLIC enum vg_status vg_device_sm_resource(struct vg_device *device, struct vg_sm_resource **ret_resource);
VG_PUBLIC enum vg_status vg_context_sm_resource(struct vg_context *context, struct vg_sm_resource **ret_resource);
VG_PUBLIC enum vg_status vg_stream_sm_resource(struct vg_stream *stream, struct vg_sm_resource **ret_resource);
/* Destroys the resource. Accepts NULL. Contexts that were made of it are not affected. Any thread. */
VG_PUBLIC void vg_sm_resource_destroy(struct vg_sm_resource *resource);

/* These functions return the number of SMs; the minimum size of a group; the alignment of SMs that are scheduled
 * together; and the driver's flags (0 before driver 13.1). They return 0 for NULL. */
VG_PUBLIC unsigned vg_sm_resource_count(const struct vg_sm_resource *resource);
VG_PUBLIC unsigned vg_sm_resource_min_partition_size(const struct vg_sm_resource *resource);
VG_PUBLIC unsigned vg_sm_resource_coscheduled_alignment(const struct vg_sm_resource *resource);
VG_PUBLIC unsigned vg_sm_resource_flags(const struct vg_sm_resource *resource);
/* Returns 1 for a group of a dry run, which has sizes, but cannot be used for a context. */
VG_PUBLIC int vg_sm_resource_is_dry_run(const struct vg_sm_resource *resource);
VG_PUBLIC struct vg_device *vg_sm_resource_device(const struct vg_sm_resource *resource);
/* Returns the driver's CUdevResource, which the resource owns. */
VG_PUBLIC const void *vg_sm_resource_handle(const struct vg_sm_resource *resource);

/* One group of a split; all 0: the driver chooses its size. Fields other than `sm_count`, and groups of different
 * sizes, need driver 13.1. */
struct vg_sm_group {
	int sm_count;			    /* 0: the driver chooses */
	int coscheduled_sm_count;	    /* SMs that a cluster needs together; 0: the driver's default */
	int preferred_coscheduled_sm_count; /* preferred number of co-scheduled SMs; 0: no preference */
	int backfill;			    /* nonzero: SMs that cannot be scheduled together may fill up the group */
};

struct vg_sm_split_options {
	size_t size; /* sizeof(struct vg_sm_split_options) */
	int dry_run; /* nonzero: computes the sizes only; no contexts can be made of the groups */
};

/* Splits the SMs into `count` groups and a remainder; the resource itself is unchanged. `ret_groups` has room for
 * `count` groups, of which *ret_count are created: a driver before 13.1 may create fewer. `ret_remainder` may be
 * NULL; *ret_remainder is NULL if nothing remains. The caller owns all of them. `options` may be NULL. INVALID (a
 * negative number, no groups), UNSUPPORTED (needs driver 13.1), CLOSED, NO_MEMORY, DRIVER (does not fit; the text
 * says how many SMs there are). Any thread. Source: cuDevSmResourceSplit; before 13.1 cuDevSmResourceSplitByCount. */
VG_PUBLIC enum vg_status vg_sm_resource_split(struct vg_sm_resource *resource, const struct vg_sm_group *groups,
					      size_t count, const struct vg_sm_split_options *options,
					      struct vg_sm_resource **ret_groups, size_t *ret_count,
					      struct vg_sm_resource **ret_remainder);

enum vg_sm_split_flag {
	VG_SM_SPLIT_IGNORE_COSCHEDULING = 1, /* allows smaller steps of sizes, but no large clusters */
	VG_SM_SPLIT_MAX_POTENTIAL_CLUSTER = 2,
};

/* Splits into as many groups of at least `sm_count` SMs (0: the minimum) as possible, at most `capacity`. `flags` is
 * a sum of vg_sm_split_flag. Otherwise as vg_sm_resource_split(), on every driver. Source:
 * cuDevSmResourceSplitByCount. */
VG_PUBLIC enum vg_status vg_sm_resource_split_by_count(struct vg_sm_resource *resource, int sm_count, unsigned flags,
						       size_t capacity, struct vg_sm_resource **ret_groups,
						       size_t *ret_count, struct vg_sm_resource **ret_remainder);

enum vg_workqueue_scope {
	VG_WORKQUEUE_SCOPE_UNCHANGED,
	VG_WORKQUEUE_SCOPE_DEVICE,	   /* all contexts of the device use the same queues */
	VG_WORKQUEUE_SCOPE_GREEN_BALANCED, /* green contexts have common queues only if necessary, evenly */
};

/* These functions return the work queues of a device, a context or a stream's context, like vg_device_sm_resource().
 * UNSUPPORTED before driver 13.1; the text has both versions. */
VG_PUBLIC enum vg_status vg_device_workqueue_resource(struct vg_device *device,
						      struct vg_workqueue_resource **ret_resource);
VG_PUBLIC enum vg_status vg_context_workqueue_resource(struct vg_context *context,
						       struct vg_workqueue_resource **ret_resource);
VG_PUBLIC enum vg_status vg_stream_workqueue_resource(struct vg_stream *stream,
						      struct vg_workqueue_resource **ret_resource);
VG_PUBLIC void vg_workqueue_resource_destroy(struct vg_workqueue_resource *resource);

/* Returns the scope of the queues; VG_WORKQUEUE_SCOPE_UNCHANGED for NULL. */
VG_PUBLIC enum vg_workqueue_scope vg_workqueue_resource_scope(const struct vg_workqueue_resource *resource);
/* Returns the number of streams whose work can run concurrently; 0 for NULL. */
VG_PUBLIC unsigned vg_workqueue_resource_concurrency_limit(const struct vg_workqueue_resource *resource);
VG_PUBLIC struct vg_device *vg_workqueue_resource_device(const struct vg_workqueue_resource *resource);
/* Returns the driver's CUdevResource, which the resource owns. */
VG_PUBLIC const void *vg_workqueue_resource_handle(const struct vg_workqueue_resource *resource);

struct vg_workqueue_options {
	size_t size; /* sizeof(struct vg_workqueue_options) */
	enum vg_workqueue_scope scope;
	int concurrency_limit; /* 1 or more; 0: unchanged */
};

/* Changes the queues of contexts that are made of it later. `options` NULL or all 0 changes nothing. INVALID, CLOSED.
 * Not while another thread uses the resource. */
VG_PUBLIC enum vg_status vg_workqueue_resource_configure(struct vg_workqueue_resource *resource,
							 const struct vg_workqueue_options *options);

#ifdef __cplusplus
}
#endif
#endif
