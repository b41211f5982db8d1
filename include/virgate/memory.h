/* Buffers, and the memory resources they come from.
 *
 * A resource is a table of functions: the library's own (pools, graph memory, virtual memory, ...) and a
 * program's are used alike. Where an operation is ordered by a stream, the stream is named: passing the
 * stream of a graph builder records the operation instead. */
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

/* Who can reach memory. `device` is the ordinal of the device it is bound to, -1 for none. */
struct vg_memory_properties {
	int device;
	int device_accessible; /* nonzero: kernels may use it */
	int host_accessible;   /* nonzero: the host may dereference it */
	int managed;	       /* nonzero: it moves between the two */
};

/* Where memory lies, or shall lie; the driver's values. `id` is a device's ordinal or a node of the host's memory
 * (NUMA). */
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

/* What a resource gives for one buffer, and gets back once. */
struct vg_allocation {
	vg_address address;
	size_t size; /* at least what was asked */
	void *user;  /* the resource's own note, NULL unless it sets one */
};

/* ---- memory resources --------------------------------------------------------------------------- */

/* A program's own resource. The functions are called without any lock held, from whatever thread allocates or
 * destroys, and may use the library. They return what the library's functions return; text that they leave
 * in vg_last_error() by a failed call of the library is kept. */
struct vg_memory_resource_operations {
	size_t size;	  /* sizeof(struct vg_memory_resource_operations) */
	const char *name; /* for messages: "arena"; copied */
	/* *ret_allocation comes with `size` as asked and address and user 0. `stream` is NULL only where a
	 * caller gave none, which needs_stream rules out. */
	enum vg_status (*allocate)(void *user, size_t size, struct vg_stream *stream,
				   struct vg_allocation *ret_allocation);
	/* Exactly once for each allocation. `stream` is the one that the buffer was closed on, else the one it
	 * was allocated on, else NULL. */
	enum vg_status (*deallocate)(void *user, const struct vg_allocation *allocation, struct vg_stream *stream);
	void (*destroy)(void *user); /* after the last buffer has gone; NULL: nothing to do */
	struct vg_memory_properties properties;
	int needs_stream; /* nonzero: buffers without a stream are refused before `allocate` is called */
};
/* The caller owns *ret_resource and ends it with vg_memory_resource_destroy(). INVALID (no name, allocate or
 * deallocate), NO_MEMORY. Any thread. */
VG_PUBLIC enum vg_status vg_memory_resource_create(const struct vg_memory_resource_operations *operations, void *user,
						   struct vg_memory_resource **ret_resource);
/* Drops the caller's reference; buffers keep their resource. NULL is fine. Any thread. */
VG_PUBLIC void vg_memory_resource_destroy(struct vg_memory_resource *resource);
/* Ends the program's use of it: nothing more can be allocated. What the driver holds goes now, or with the last
 * buffer. Closing twice is fine. INVALID (NULL), DRIVER. Any thread. */
VG_PUBLIC enum vg_status vg_memory_resource_close(struct vg_memory_resource *resource);
/* One more reference for the caller; returns its argument. Any thread. */
VG_PUBLIC struct vg_memory_resource *vg_memory_resource_retain(struct vg_memory_resource *resource);
/* CLOSED. Any thread. */
VG_PUBLIC enum vg_status vg_memory_resource_properties(const struct vg_memory_resource *resource,
						       struct vg_memory_properties *ret_properties);
/* "device pool", "arena"; "" for NULL. Valid as long as the resource. */
VG_PUBLIC const char *vg_memory_resource_name(const struct vg_memory_resource *resource);

/* ---- buffers ------------------------------------------------------------------------------------ */

/* Memory of a resource, in the order of `stream`, where it is freed too unless another stream is named later.
 * NULL for `stream` is for resources that use none. 0 bytes give a buffer of size 0; a resource may round up. The
 * caller owns *ret_buffer. INVALID (no stream), STATE (the stream captures, or must), CLOSED, NO_MEMORY, LIMIT,
 * DRIVER (with what was asked and what is free). Any thread. */
VG_PUBLIC enum vg_status vg_buffer_create(struct vg_memory_resource *resource, size_t size, struct vg_stream *stream,
					  struct vg_buffer **ret_buffer);

struct vg_buffer_borrow_options {
	size_t size;			     /* sizeof(struct vg_buffer_borrow_options) */
	struct vg_memory_resource *resource; /* frees the memory, as if it had allocated it; not with `owner` */
	struct vg_stream *stream;	     /* where it does so */
	void *owner;			     /* what keeps the memory alive meanwhile */
	void (*release)(void *owner);	     /* called once, when the buffer needs it no longer; may be NULL */
};
/* Memory that somebody else allocated: a device address, or a host address. It is not freed, unless `options` name a
 * resource that does. `options` may be NULL. INVALID (address 0 with bytes, past the end of the address space, resource
 * and owner both, a resource that needs a stream without one), CLOSED, NO_MEMORY. Any thread. */
VG_PUBLIC enum vg_status vg_buffer_borrow(vg_address address, size_t size,
					  const struct vg_buffer_borrow_options *options,
					  struct vg_buffer **ret_buffer);

/* Drops the caller's reference; the last one frees the memory on the buffer's stream. NULL is fine. Any thread. */
VG_PUBLIC void vg_buffer_destroy(struct vg_buffer *buffer);
/* Ends the program's use of it and frees the memory, in the order of `stream` (NULL: of the stream it was
 * allocated on), now or when nobody else holds the buffer. Closing twice is fine; a refusal leaves it open.
 * INVALID, STATE (the stream captures, or must), CLOSED (the stream), DRIVER. Any thread. */
VG_PUBLIC enum vg_status vg_buffer_close(struct vg_buffer *buffer, struct vg_stream *stream);
/* One more reference for the caller; returns its argument. Any thread. */
VG_PUBLIC struct vg_buffer *vg_buffer_retain(struct vg_buffer *buffer);
/* Where it will be freed, from now on. CLOSED. Any thread. */
VG_PUBLIC enum vg_status vg_buffer_set_deallocation_stream(struct vg_buffer *buffer, struct vg_stream *stream);

/* 0 once closed. */
VG_PUBLIC vg_address vg_buffer_address(const struct vg_buffer *buffer);
/* Bytes; 0 once closed. */
VG_PUBLIC size_t vg_buffer_size(const struct vg_buffer *buffer);
/* NULL for borrowed memory and once closed; the buffer's reference, not the caller's. */
VG_PUBLIC struct vg_memory_resource *vg_buffer_memory_resource(const struct vg_buffer *buffer);
/* As given to vg_buffer_borrow(), else NULL. */
VG_PUBLIC void *vg_buffer_owner(const struct vg_buffer *buffer);
/* Nonzero: imported from another process. */
VG_PUBLIC int vg_buffer_is_mapped(const struct vg_buffer *buffer);
/* The resource's answer, or the driver's for borrowed memory: memory it does not know is the host's alone. CLOSED,
 * DRIVER. Any thread. Source: cuPointerGetAttributes. */
VG_PUBLIC enum vg_status vg_buffer_properties(const struct vg_buffer *buffer,
					      struct vg_memory_properties *ret_properties);
/* Nonzero: the same address and size. Closed buffers and NULL equal nothing. */
VG_PUBLIC int vg_buffer_equal(const struct vg_buffer *buffer, const struct vg_buffer *other);
/* Of address and size, for tables: equal buffers have equal hashes. */
VG_PUBLIC uint64_t vg_buffer_hash(const struct vg_buffer *buffer);

/* ---- copies ------------------------------------------------------------------------------------- */

/* All of `from` to all of `to`, queued. INVALID (the sizes differ), CLOSED, DRIVER. Any thread. Source:
 * cuMemcpyAsync. */
VG_PUBLIC enum vg_status vg_buffer_copy(struct vg_buffer *to, const struct vg_buffer *from, struct vg_stream *stream);
/* A new buffer of the same resource with the same contents, allocated and copied in the order of `stream`. The
 * caller owns *ret_buffer. INVALID (the buffer has no resource), and as vg_buffer_create(). Any thread. */
VG_PUBLIC enum vg_status vg_buffer_duplicate(const struct vg_buffer *from, struct vg_stream *stream,
					     struct vg_buffer **ret_buffer);
/* `size` bytes of the program's memory into the buffer at `offset`, or out of it, queued: the program's memory must
 * stay until the stream got there. INVALID (past the end), CLOSED, DRIVER. Any thread. Source: cuMemcpyAsync. */
VG_PUBLIC enum vg_status vg_buffer_write(struct vg_buffer *buffer, size_t offset, const void *from, size_t size,
					 struct vg_stream *stream);
VG_PUBLIC enum vg_status vg_buffer_read(const struct vg_buffer *buffer, size_t offset, void *to, size_t size,
					struct vg_stream *stream);
/* Repeats a pattern of 1, 2 or 4 bytes all over the buffer, queued. INVALID (another width, a size that is not a
 * multiple of it, an address not aligned to it), CLOSED, DRIVER. Any thread. Source: cuMemsetD8Async, D16, D32. */
VG_PUBLIC enum vg_status vg_buffer_fill(struct vg_buffer *buffer, const void *pattern, size_t width,
					struct vg_stream *stream);
/* Likewise with one byte, 0 to 255. */
VG_PUBLIC enum vg_status vg_buffer_fill_byte(struct vg_buffer *buffer, int value, struct vg_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
