/* Kernels: entry functions of loaded object code. */
#ifndef VIRGATE_KERNEL_H
#define VIRGATE_KERNEL_H

#include <stddef.h>

#include <virgate/context.h>
#include <virgate/cuda_handles.h>
#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_kernel;
struct vg_launch_config;
struct vg_object_code;
struct vg_stream;

/* Attributes of a kernel on a device. The values are CUfunction_attribute's. */
enum vg_kernel_attribute {
	VG_KERNEL_MAX_THREADS_PER_BLOCK = 0,
	VG_KERNEL_SHARED_SIZE_BYTES = 1, /* static shared memory of a block */
	VG_KERNEL_CONST_SIZE_BYTES = 2,
	VG_KERNEL_LOCAL_SIZE_BYTES = 3, /* bytes of local memory of a thread */
	VG_KERNEL_NUM_REGS = 4,		/* number of registers of a thread */
	VG_KERNEL_PTX_VERSION = 5,	/* 90 for 9.0 */
	VG_KERNEL_BINARY_VERSION = 6,
	VG_KERNEL_CACHE_MODE_CA = 7,
	VG_KERNEL_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,	/* settable: the maximum for a launch */
	VG_KERNEL_PREFERRED_SHARED_MEMORY_CARVEOUT = 9, /* settable: percent, -1 for no preference */
	VG_KERNEL_CLUSTER_SIZE_MUST_BE_SET = 10,
	VG_KERNEL_REQUIRED_CLUSTER_WIDTH = 11, /* settable, with the next two */
	VG_KERNEL_REQUIRED_CLUSTER_HEIGHT = 12,
	VG_KERNEL_REQUIRED_CLUSTER_DEPTH = 13,
	VG_KERNEL_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,    /* settable: more than 8 blocks to a cluster */
	VG_KERNEL_CLUSTER_SCHEDULING_POLICY_PREFERENCE = 15, /* settable: 0 default, 1 spread, 2 load balancing */
};

/* Wraps a kernel that the program got from the driver; this object never unloads it. `code` is the object code that it
 * belongs to, and is kept; it may be NULL. `release`, unless NULL, is called with `owner` when the object is freed.
 * INVALID (NULL, a kernel of other code), CLOSED, NO_MEMORY, DRIVER; `release` is not called after a failure. Any
 * thread. */
VG_PUBLIC enum vg_status vg_kernel_borrow(struct CUkern_st *handle, struct vg_object_code *code, void *owner,
					  void (*release)(void *owner), struct vg_kernel **ret_kernel);
/* Closes the object: the program may not use it any more. May be closed twice. Any thread. */
VG_PUBLIC enum vg_status vg_kernel_close(struct vg_kernel *kernel);
/* Drops the caller's reference. Accepts NULL. Any thread. */
VG_PUBLIC void vg_kernel_destroy(struct vg_kernel *kernel);

/* Returns the driver's handle; NULL for a closed kernel. Cast the handle if the driver expects a CUfunction. */
VG_PUBLIC struct CUkern_st *vg_kernel_handle(const struct vg_kernel *kernel);
/* Returns the symbol, as the driver knows it; "" for a closed kernel. */
VG_PUBLIC const char *vg_kernel_name(const struct vg_kernel *kernel);
/* Returns the kernel's object code; NULL for a borrowed kernel without object code. */
VG_PUBLIC struct vg_object_code *vg_kernel_code(const struct vg_kernel *kernel);
/* These functions return the number of parameters, and the offset and the size of one, in bytes. Outputs may be
 * NULL. INVALID (no such parameter), CLOSED. Any thread. Source: cuKernelGetParamInfo, called once. */
VG_PUBLIC size_t vg_kernel_parameter_count(const struct vg_kernel *kernel);
VG_PUBLIC enum vg_status vg_kernel_parameter(const struct vg_kernel *kernel, size_t index, size_t *ret_offset,
					     size_t *ret_size);

/* Reads an attribute on a device. INVALID (no such attribute), CLOSED, DRIVER. Any thread. Source:
 * cuKernelGetAttribute. */
VG_PUBLIC enum vg_status vg_kernel_get_attribute(const struct vg_kernel *kernel, struct vg_device *device,
						 enum vg_kernel_attribute attribute, int *ret_value);
/* Sets a settable attribute. INVALID (not settable, a value that the device refuses), CLOSED, DRIVER. Any thread; if
 * several threads set the same attribute of a kernel, the last value counts. Source: cuKernelSetAttribute. */
VG_PUBLIC enum vg_status vg_kernel_set_attribute(struct vg_kernel *kernel, struct vg_device *device,
						 enum vg_kernel_attribute attribute, int value);

/* Returns the number of blocks with these threads and bytes of dynamic shared memory that fit on one multiprocessor.
 * INVALID, CLOSED and DRIVER, as for the next four functions. Any thread. Source:
 * cuOccupancyMaxActiveBlocksPerMultiprocessor. */
VG_PUBLIC enum vg_status vg_kernel_max_active_blocks(struct vg_kernel *kernel, struct vg_context *context,
						     unsigned block_threads, size_t shared_memory,
						     unsigned *ret_blocks);

struct vg_block_size_options {
	size_t size;	      /* sizeof(struct vg_block_size_options) */
	size_t shared_memory; /* dynamic shared memory of a block of any size; or set the next member */
	/* Returns the shared memory that a block of this size needs. */
	size_t (*shared_memory_of)(int block_threads, void *user);
	void *user;
	unsigned block_limit; /* maximum number of threads; 0: the device's limit */
};
/* Returns the block size that keeps the most threads resident, and the smallest grid that fills the device.
 * `options` may be NULL. Source: cuOccupancyMaxPotentialBlockSize. */
VG_PUBLIC enum vg_status vg_kernel_max_potential_block_size(struct vg_kernel *kernel, struct vg_context *context,
							    const struct vg_block_size_options *options,
							    unsigned *ret_minimum_grid, unsigned *ret_block_threads);
/* Returns the dynamic shared memory that a block can have if `blocks` of them fit on one multiprocessor. Source:
 * cuOccupancyAvailableDynamicSMemPerBlock. */
VG_PUBLIC enum vg_status vg_kernel_available_shared_memory(struct vg_kernel *kernel, struct vg_context *context,
							   unsigned blocks, unsigned block_threads, size_t *ret_bytes);
/* Returns the maximum number of blocks in a cluster of a launch with this configuration; ignores the cluster of
 * `config`. Source: cuOccupancyMaxPotentialClusterSize. */
VG_PUBLIC enum vg_status vg_kernel_max_potential_cluster_size(struct vg_kernel *kernel, struct vg_stream *stream,
							      const struct vg_launch_config *config,
							      unsigned *ret_blocks);
/* Returns the number of clusters of a launch with this configuration that can be resident at once; `config` must
 * have a cluster. Source: cuOccupancyMaxActiveClusters. */
VG_PUBLIC enum vg_status vg_kernel_max_active_clusters(struct vg_kernel *kernel, struct vg_stream *stream,
						       const struct vg_launch_config *config, unsigned *ret_clusters);

#ifdef __cplusplus
}
#endif
#endif
