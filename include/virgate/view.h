/* Views: a tensor in memory that somebody else holds, and how its elements lie there.
 *
 * Views come from buffers, from addresses, and from DLPack tensors of other libraries, and go out as DLPack
 * tensors. A view keeps what it looks at alive. Nothing is copied, and no stream is waited for: order the
 * work yourself. */
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
	uint8_t bits; /* of a lane */
	uint16_t lanes;
};

/* Which memory, by DLPack's device types. */
enum vg_memory_kind { VG_MEMORY_HOST = 1, VG_MEMORY_DEVICE = 2, VG_MEMORY_PINNED = 3, VG_MEMORY_MANAGED = 13 };

/* Of a buffer, from its first byte on; the buffer is kept alive. `layout` and `type` must agree on the
 * element's bytes. INVALID (the layout needs more bytes than the buffer has, says both), CLOSED, UNSUPPORTED (memory
 * that neither host nor device reaches), NO_MEMORY. Any thread. */
VG_PUBLIC enum vg_status vg_view_of_buffer(struct vg_buffer *buffer, const struct vg_layout *layout,
					   struct vg_data_type type, int read_only, struct vg_view **ret_view);

struct vg_view_options {
	size_t size;		  /* sizeof(struct vg_view_options) */
	enum vg_memory_kind kind; /* 0: the host's */
	int device;		  /* of DEVICE, PINNED and MANAGED: the ordinal */
	int read_only;
	void *owner; /* what keeps the memory alive meanwhile */
	void (*release)(void *owner); /* called once, from any thread; may be NULL */
};
/* Of memory that the program vouches for: a NumPy-style array's address, shape and strides. `options` may be
 * NULL. INVALID, NO_MEMORY. Any thread. */
VG_PUBLIC enum vg_status vg_view_create(vg_address address, const struct vg_layout *layout, struct vg_data_type type,
					const struct vg_view_options *options, struct vg_view **ret_view);

/* Takes the tensor over: its deleter is called when the view is not needed any more. After a failure the tensor
 * is still the caller's. INVALID (rank, shape, strides), UNSUPPORTED (a device that is neither host nor CUDA, elements
 * that are not whole bytes, a version of DLPack other than 1), NO_MEMORY. Any thread. Source: DLPack. */
VG_PUBLIC enum vg_status vg_view_import(struct DLManagedTensor *tensor, struct vg_view **ret_view);
VG_PUBLIC enum vg_status vg_view_import_versioned(struct DLManagedTensorVersioned *tensor, struct vg_view **ret_view);
/* A tensor that keeps the view alive until its deleter is called, from any thread; offsets are in its data
 * pointer already. The older form cannot say that it is read-only: UNSUPPORTED. CLOSED, NO_MEMORY. Any thread. */
VG_PUBLIC enum vg_status vg_view_export(struct vg_view *view, struct DLManagedTensor **ret_tensor);
VG_PUBLIC enum vg_status vg_view_export_versioned(struct vg_view *view, struct DLManagedTensorVersioned **ret_tensor);

/* The same memory with another layout, another type, or both; NULL for what stays. INVALID where it would reach
 * beyond the bytes that the view spans, or where layout and type do not agree on the element's bytes. Any thread. */
VG_PUBLIC enum vg_status vg_view_reinterpret(struct vg_view *view, const struct vg_layout *layout,
					     const struct vg_data_type *type, struct vg_view **ret_view);

/* Drops the caller's reference. NULL is fine. Any thread. */
VG_PUBLIC void vg_view_destroy(struct vg_view *view);

/* Where offsets count from: the layout's `offset` is not in it yet. 0 for NULL. */
VG_PUBLIC vg_address vg_view_address(const struct vg_view *view);
/* Valid as long as the view; NULL for NULL. */
VG_PUBLIC const struct vg_layout *vg_view_layout(const struct vg_view *view);
VG_PUBLIC struct vg_data_type vg_view_type(const struct vg_view *view);
VG_PUBLIC enum vg_memory_kind vg_view_kind(const struct vg_view *view);
/* The device's ordinal; -1 for the host's memory. */
VG_PUBLIC int vg_view_device(const struct vg_view *view);
VG_PUBLIC int vg_view_is_device_accessible(const struct vg_view *view);
VG_PUBLIC int vg_view_is_host_accessible(const struct vg_view *view);
VG_PUBLIC int vg_view_is_read_only(const struct vg_view *view);
/* The buffer that it is of, the view's reference; NULL: none. */
VG_PUBLIC struct vg_buffer *vg_view_buffer(const struct vg_view *view);

#ifdef __cplusplus
}
#endif
#endif
