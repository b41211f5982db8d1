/* Buffers, and the memory resources that allocate them.
 *
 * The library has resources (pools, graph memory, virtual memory, ...), and programs can define others. Operations
 * that are ordered by a stream have it as an argument: on the stream of a graph builder they are captured instead. */
#ifndef VIRGATE_MEMORY_H
#define VIRGATE_MEMORY_H

#include <stddef.h>

#include <virgate/cuda_handles.h>
#include <virgate/device.h>
#include <virgate/status.h>
#include <virgate/stream.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_buffer;
struct vg_memory_resource;

/* Describes access to memory. `device` is the ordinal of the device to which the memory is bound; -1: no device. */
struct vg_memory_properties {
	int device;
	int device_accessible; /* nonzero: kernels may use the memory */
	int host_accessible;   /* nonzero: the host may access the memory */
	int managed;	       /* nonzero: the memory moves between host and device */
};

/* A location of memory; the driver's values. `id` is the ordinal of a device or the number of a NUMA node of the host.
 */
enum vg_location_type {
	VG_LOCATION_NONE = 0,
	VG_LOCATION_DEVICE = 1,
	VG_LOCATION_HOST = 2,
	VG_LOCATION_HOST_NUMA = 3,
	VG_LOCATION_HOST_NUMA_CURRENT = 4 /* the calling thread's node */
};
struct vg_memory_location {
	enum vg_location_type type;
	int id;
};

/* The allocation of one buffer, which its resource frees once. */
struct vg_allocation {
	vg_address address;
	size_t size; /* size of the memory; at least the requested size */
	void *user;  /* a value for the resource's own use; NULL unless the resource sets it */
};

/* ---- memory resources --------------------------------------------------------------------------- */

/* A resource that a program defines. The functions are called from any thread that allocates or destroys, without
 * locks, and may use the library. They return a status as the library's functions do; if a call of the library
 * failed in them, its vg_last_error() is kept. */
struct vg_memory_resource_operations {
	size_t size;	  /* sizeof(struct vg_memory_resource_operations) */
	const char *name; /* name for messages, such as "arena"; copied */
	/* Allocates memory. *ret_allocation has the requested `size`, and address and user 0. `stream` is NULL only if
	 * the caller gave none, which needs_stream excludes. */
	enum vg_status (*allocate)(void *user, size_t size, struct vg_stream *stream,
				   struct vg_allocation *ret_allocation);
	/* Called once for each allocation. `stream` is the stream on which the buffer was closed, else the one on which
	 * it was allocated, else NULL. */
	enum vg_status (*deallocate)(void *user, const struct vg_allocation *allocation, struct vg_stream *stream);
	void (*destroy)(void *user); /* ends the resource; called after the last buffer was freed; may be NULL */
	struct vg_memory_properties properties;
	int needs_stream; /* nonzero: buffers without a stream are refused before `allocate` is called */
};
/* Creates a resource that the program defines. The caller owns *ret_resource and ends it with
 * vg_memory_resource_destroy(). INVALID (no name, allocate or deallocate), NO_MEMORY. Any thread. */
VG_PUBLIC enum vg_status vg_memory_resource_create(const struct vg_memory_resource_operations *operations, void *user,
						   struct vg_memory_resource **ret_resource);
/* Drops the caller's reference; buffers keep their resource. Accepts NULL. Any thread. */
VG_PUBLIC void vg_memory_resource_destroy(struct vg_memory_resource *resource);
/* Closes the object: nothing more can be allocated. The driver's object is destroyed now, or with the last buffer.
 * May be closed twice. INVALID (NULL), DRIVER. Any thread. */
VG_PUBLIC enum vg_status vg_memory_resource_close(struct vg_memory_resource *resource);
/* Adds a reference, which the caller owns; returns its argument. Any thread. */
VG_PUBLIC struct vg_memory_resource *vg_memory_resource_retain(struct vg_memory_resource *resource);
/* Reads the properties. CLOSED. Any thread. */
VG_PUBLIC enum vg_status vg_memory_resource_properties(const struct vg_memory_resource *resource,
						       struct vg_memory_properties *ret_properties);
/* Returns the resource's name, such as "device pool" or "arena"; "" for NULL. Valid as long as the resource. */
VG_PUBLIC const char *vg_memory_resource_name(const struct vg_memory_resource *resource);

/* ---- buffers ------------------------------------------------------------------------------------ */

/* Allocates a buffer in the order of `stream`, on which it is also freed unless the program sets another one. `stream`
 * may be NULL for resources that need none. 0 bytes give a buffer of size 0; a resource may round up. The caller owns
 * *ret_buffer. INVALID (no stream), STATE (the stream is capturing, or is not but must be), CLOSED, NO_MEMORY, LIMIT,
 * DRIVER (with the requested and the free size). Any thread. */
VG_PUBLIC enum vg_status vg_buffer_create(struct vg_memory_resource *resource, size_t size, struct vg_stream *stream,
					  struct vg_buffer **ret_buffer);

struct vg_buffer_borrow_options {
	size_t size; /* sizeof(struct vg_buffer_borrow_options) */
	/* Resource that frees the memory as if it had allocated it; not with `owner`. */
	struct vg_memory_resource *resource;
	struct vg_stream *stream; /* the stream on which the buffer will be freed */
	void *owner;		  /* the object that keeps the memory alive */
	/* Releases the owner; called once, when the buffer does not need the memory any more; may be NULL. */
	void (*release)(void *owner);
};
/* Wraps memory that the program allocated itself, at a device or a host address. The memory is not freed, unless
 * `options` name a resource that frees it. `options` may be NULL. INVALID (address 0 with bytes, past the end of the
 * address space, resource and owner both, a resource that needs a stream without one), CLOSED, NO_MEMORY. Any
 * thread. */
VG_PUBLIC enum vg_status vg_buffer_borrow(vg_address address, size_t size,
					  const struct vg_buffer_borrow_options *options,
					  struct vg_buffer **ret_buffer);

/* Drops the caller's reference; the last one frees the memory on the buffer's stream. Accepts NULL. Any thread. */
VG_PUBLIC void vg_buffer_destroy(struct vg_buffer *buffer);
/* Closes the buffer, and frees its memory in the order of `stream` (NULL: of the stream on which it was allocated),
 * now or with the last reference. May be closed twice; after INVALID, STATE and CLOSED it is still open. INVALID,
 * STATE (as vg_buffer_create()), CLOSED (the stream), DRIVER. Any thread. */
VG_PUBLIC enum vg_status vg_buffer_close(struct vg_buffer *buffer, struct vg_stream *stream);
/* Adds a reference, which the caller owns; returns its argument. Any thread. */
VG_PUBLIC struct vg_buffer *vg_buffer_retain(struct vg_buffer *buffer);
/* Sets the stream on which the buffer will be freed. CLOSED. Any thread. */
VG_PUBLIC enum vg_status vg_buffer_set_deallocation_stream(struct vg_buffer *buffer, struct vg_stream *stream);

/* Returns the address; 0 for a closed buffer. */
VG_PUBLIC vg_address vg_buffer_address(const struct vg_buffer *buffer);
/* Returns the size in bytes; 0 for a closed buffer. */
VG_PUBLIC size_t vg_buffer_size(const struct vg_buffer *buffer);
/* Returns the buffer's resource, to which the buffer owns the reference; NULL for borrowed memory and for a closed
 * buffer. */
VG_PUBLIC struct vg_memory_resource *vg_buffer_memory_resource(const struct vg_buffer *buffer);
/* Returns the owner that was given to vg_buffer_borrow(), or NULL. */
VG_PUBLIC void *vg_buffer_owner(const struct vg_buffer *buffer);
/* Returns nonzero if the buffer was imported from another process. */
VG_PUBLIC int vg_buffer_is_mapped(const struct vg_buffer *buffer);
/* Returns the resource's properties, or the driver's for borrowed memory: unknown memory is host memory. CLOSED,
 * DRIVER. Any thread. Source: cuPointerGetAttributes. */
VG_PUBLIC enum vg_status vg_buffer_properties(const struct vg_buffer *buffer,
					      struct vg_memory_properties *ret_properties);
/* Returns nonzero if both buffers have the same address and size; 0 for closed buffers and NULL. */
VG_PUBLIC int vg_buffer_equal(const struct vg_buffer *buffer, const struct vg_buffer *other);
/* Returns a hash of address and size: equal buffers have equal hashes. */
VG_PUBLIC uint64_t vg_buffer_hash(const struct vg_buffer *buffer);

/* ---- copies ------------------------------------------------------------------------------------- */

/* Queues a copy of all of `from` to all of `to`. INVALID (the sizes differ), CLOSED, DRIVER. Any thread. Source:
 * cuMemcpyAsync. */
VG_PUBLIC enum vg_status vg_buffer_copy(struct vg_buffer *to, const struct vg_buffer *from, struct vg_stream *stream);
/* Creates a buffer of the same resource with the same contents, allocated and copied in the order of `stream`. The
 * caller owns *ret_buffer. INVALID (the buffer has no resource), and as vg_buffer_create(). Any thread. */
VG_PUBLIC enum vg_status vg_buffer_duplicate(const struct vg_buffer *from, struct vg_stream *stream,
					     struct vg_buffer **ret_buffer);
/* Queues a copy of `size` bytes from the program's memory to the buffer at `offset`, or back. The program's memory
 * must exist until the stream has done the copy. INVALID (past the end), CLOSED, DRIVER. Any thread. Source:
 * cuMemcpyAsync. */
VG_PUBLIC enum vg_status vg_buffer_write(struct vg_buffer *buffer, size_t offset, const void *from, size_t size,
					 struct vg_stream *stream);
VG_PUBLIC enum vg_status vg_buffer_read(const struct vg_buffer *buffer, size_t offset, void *to, size_t size,
					struct vg_stream *stream);
/* Queues a fill of the whole buffer with a pattern of 1, 2 or 4 bytes. INVALID (another width, a size that is not a
 * multiple of it, an address not aligned to it), CLOSED, DRIVER. Any thread. Source: cuMemsetD8Async, D16, D32. */
VG_PUBLIC enum vg_status vg_buffer_fill(struct vg_buffer *buffer, const void *pattern, size_t width,
					struct vg_stream *stream);
/* Fills the buffer with a byte, 0 to 255, like the functions above. */
VG_PUBLIC enum vg_status vg_buffer_fill_byte(struct vg_buffer *buffer, int value, struct vg_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
