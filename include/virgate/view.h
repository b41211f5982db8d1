/* Views: tensors in existing memory, with their layout.
 *
 * Views are made of buffers, addresses, and DLPack tensors of other libraries, and can be exported as DLPack
 * tensors. A view keeps the owner of its memory alive. Nothing is copied, and no function waits for a stream: the
 * program orders the work. */
#ifndef VIRGATE_VIEW_H
#define VIRGATE_VIEW_H

#include <virgate/layout.h>
#include <virgate/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

/* DLPack's structures, of <dlpack/dlpack.h> 0.8 to 1.x. */
struct DLManagedTensor;
struct DLManagedTensorVersioned;

struct vg_view;

/* Values are DLPack's. */
enum vg_type_code {
	VG_TYPE_INT = 0,
	VG_TYPE_UINT = 1,
	VG_TYPE_FLOAT = 2,
	VG_TYPE_OPAQUE = 3,
	VG_TYPE_BFLOAT = 4,
	VG_TYPE_COMPLEX = 5,
	VG_TYPE_BOOL = 6
};
/* An element: {VG_TYPE_FLOAT, 32, 1} is a float, {VG_TYPE_FLOAT, 32, 4} four of them side by side. */
struct vg_data_type {
	uint8_t code; /* enum vg_type_code, or another of DLPack's */
	uint8_t bits; /* number of bits of a lane */
	uint16_t lanes;
};

/* The kind of memory, by DLPack's device types. */
enum vg_memory_kind { VG_MEMORY_HOST = 1, VG_MEMORY_DEVICE = 2, VG_MEMORY_PINNED = 3, VG_MEMORY_MANAGED = 13 };

/* Creates a view of a buffer, from its first byte on; it keeps the buffer. `layout` and `type` must have the same
 * size of elements. INVALID (the layout needs more bytes than the buffer has), CLOSED, UNSUPPORTED (memory
 * that neither host nor device can access), NO_MEMORY. Any thread. */
VG_PUBLIC enum vg_status vg_view_of_buffer(struct vg_buffer *buffer, const struct vg_layout *layout,
					   struct vg_data_type type, int read_only, struct vg_view **ret_view);

struct vg_view_options {
	size_t size;		  /* sizeof(struct vg_view_options) */
	enum vg_memory_kind kind; /* 0: host memory */
	int device;		  /* ordinal of the device for DEVICE, PINNED and MANAGED memory */
	int read_only;
	void *owner;		      /* the object that keeps the memory alive */
	void (*release)(void *owner); /* releases the owner; called once, from any thread; may be NULL */
};
/* Creates a view of any memory, such as the address, shape and strides of a NumPy array. `options` may be
 * NULL. INVALID, NO_MEMORY. Any thread. */
VG_PUBLIC enum vg_status vg_view_create(vg_address address, const struct vg_layout *layout, struct vg_data_type type,
					const struct vg_view_options *options, struct vg_view **ret_view);

/* Takes ownership of the tensor: calls its deleter when the view is freed. After a failure the caller still owns the
 * tensor. INVALID (rank, shape, strides), UNSUPPORTED (a device that is neither host nor CUDA, elements
 * that are not whole bytes, a version of DLPack other than 1), NO_MEMORY. Any thread. Source: DLPack. */
VG_PUBLIC enum vg_status vg_view_import(struct DLManagedTensor *tensor, struct vg_view **ret_view);
VG_PUBLIC enum vg_status vg_view_import_versioned(struct DLManagedTensorVersioned *tensor, struct vg_view **ret_view);
/* Exports a tensor that keeps the view until its deleter is called, from any thread. Its data pointer includes the
 * offset. The older form has no read-only flag: UNSUPPORTED for read-only views. CLOSED, NO_MEMORY. Any thread. */
VG_PUBLIC enum vg_status vg_view_export(struct vg_view *view, struct DLManagedTensor **ret_tensor);
VG_PUBLIC enum vg_status vg_view_export_versioned(struct vg_view *view, struct DLManagedTensorVersioned **ret_tensor);

/* Creates a view of the same memory with another layout, another type, or both; NULL: unchanged. INVALID if it needs
 * bytes outside those of the view, or if layout and type have different sizes of elements. Any thread. */
VG_PUBLIC enum vg_status vg_view_reinterpret(struct vg_view *view, const struct vg_layout *layout,
					     const struct vg_data_type *type, struct vg_view **ret_view);

/* Drops the caller's reference. Accepts NULL. Any thread. */
VG_PUBLIC void vg_view_destroy(struct vg_view *view);

/* Returns the base address, without the layout's `offset`; 0 for NULL. */
VG_PUBLIC vg_address vg_view_address(const struct vg_view *view);
/* Returns the layout, valid as long as the view; NULL for NULL. */
VG_PUBLIC const struct vg_layout *vg_view_layout(const struct vg_view *view);
VG_PUBLIC struct vg_data_type vg_view_type(const struct vg_view *view);
VG_PUBLIC enum vg_memory_kind vg_view_kind(const struct vg_view *view);
/* Returns the device's ordinal; -1 for host memory. */
VG_PUBLIC int vg_view_device(const struct vg_view *view);
VG_PUBLIC int vg_view_is_device_accessible(const struct vg_view *view);
VG_PUBLIC int vg_view_is_host_accessible(const struct vg_view *view);
VG_PUBLIC int vg_view_is_read_only(const struct vg_view *view);
/* Returns the view's buffer, to which the view owns the reference, or NULL. */
VG_PUBLIC struct vg_buffer *vg_view_buffer(const struct vg_view *view);

#ifdef __cplusplus
}
#endif
#endif
