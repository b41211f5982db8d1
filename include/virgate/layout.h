/* Layouts: how the elements of a tensor lie in memory.
 *
 * A layout is a value: copy it, keep it on the stack. Shapes count elements; strides count elements
 * too, and may be zero (broadcast) or negative. Axis 0 is the outermost. Nothing here touches memory or needs a
 * GPU. Functions that fail answer INVALID and say why; *ret_layout is untouched then, and may be the
 * argument itself. Any thread. */
#ifndef VIRGATE_LAYOUT_H
#define VIRGATE_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include <virgate/cuda_handles.h>
#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { VG_LAYOUT_RANK = 64 };

struct vg_layout {
	int rank; /* 0: one element */
	int64_t shape[VG_LAYOUT_RANK], strides[VG_LAYOUT_RANK];
	int64_t offset; /* elements from the pointer to the element with all indices 0 */
	size_t item_size; /* bytes of an element */
};

enum vg_order { VG_ORDER_C, VG_ORDER_F }; /* last axis innermost; first axis innermost */

/* Without gaps, in an order; or with the axes named from the outermost to the innermost. */
VG_PUBLIC enum vg_status vg_layout_dense(int rank, const int64_t *shape, size_t item_size, enum vg_order order,
					 struct vg_layout *ret_layout);
VG_PUBLIC enum vg_status vg_layout_dense_axes(int rank, const int64_t *shape, size_t item_size, const int *axes,
					      struct vg_layout *ret_layout);
/* `strides` NULL: C order. */
VG_PUBLIC enum vg_status vg_layout_strided(int rank, const int64_t *shape, const int64_t *strides, size_t item_size,
					   struct vg_layout *ret_layout);

/* Axis i of the result is axis axes[i] of the layout. */
VG_PUBLIC enum vg_status vg_layout_permute(const struct vg_layout *layout, const int *axes,
					   struct vg_layout *ret_layout);
/* The same elements in C order under another shape, of which one entry may be -1. UNSUPPORTED where only a copy
 * could give that shape. */
VG_PUBLIC enum vg_status vg_layout_reshape(const struct vg_layout *layout, int rank, const int64_t *shape,
					   struct vg_layout *ret_layout);
/* Makes one axis of the axes from `first` to `last`, both included. UNSUPPORTED as above. */
VG_PUBLIC enum vg_status vg_layout_flatten(const struct vg_layout *layout, int first, int last,
					   struct vg_layout *ret_layout);
/* Drops all axes of extent 1; adds one before `axis` (at the end: axis == rank). */
VG_PUBLIC enum vg_status vg_layout_squeeze(const struct vg_layout *layout, struct vg_layout *ret_layout);
VG_PUBLIC enum vg_status vg_layout_unsqueeze(const struct vg_layout *layout, int axis, struct vg_layout *ret_layout);
/* As NumPy broadcasts: axes align at the end, extents of 1 repeat. */
VG_PUBLIC enum vg_status vg_layout_broadcast(const struct vg_layout *layout, int rank, const int64_t *shape,
					     struct vg_layout *ret_layout);
/* The elements start, start + step, … before `stop` of one axis; a negative step runs backwards, and
 * `stop` may then be -1. */
VG_PUBLIC enum vg_status vg_layout_slice(const struct vg_layout *layout, int axis, int64_t start, int64_t stop,
					 int64_t step, struct vg_layout *ret_layout);
/* The same bytes with elements of another size, along an axis whose stride is 1: 8 floats become 4 doubles. */
VG_PUBLIC enum vg_status vg_layout_repack(const struct vg_layout *layout, int axis, size_t item_size,
					  struct vg_layout *ret_layout);
/* The largest power of two, `limit` at most, that vg_layout_repack() takes along the axis and to which
 * `address` and every row are aligned; the item size itself where nothing larger fits. */
VG_PUBLIC enum vg_status vg_layout_max_item_size(const struct vg_layout *layout, int axis, vg_address address,
						 size_t limit, size_t *ret_item_size);

/* How many elements; 0 where an extent is 0. Layouts made by the functions above never overflow. */
VG_PUBLIC int64_t vg_layout_volume(const struct vg_layout *layout);
/* The least and the greatest offset of an element, in elements from the pointer. Both 0 for no elements. */
VG_PUBLIC void vg_layout_bounds(const struct vg_layout *layout, int64_t *ret_least, int64_t *ret_greatest);
/* Bytes from the pointer to the end of the last element. INVALID where elements lie before the pointer. */
VG_PUBLIC enum vg_status vg_layout_required_size(const struct vg_layout *layout, size_t *ret_bytes);
/* Nonzero: without gaps in C order, in F order, in some order of the axes. */
VG_PUBLIC int vg_layout_is_contiguous_c(const struct vg_layout *layout);
VG_PUBLIC int vg_layout_is_contiguous_f(const struct vg_layout *layout);
VG_PUBLIC int vg_layout_is_contiguous(const struct vg_layout *layout);
/* Nonzero: no two indices name one element. Exact for layouts that slicing and permuting dense ones
 * gives; interleaved strides that happen not to meet are called not unique. */
VG_PUBLIC int vg_layout_is_unique(const struct vg_layout *layout);

#ifdef __cplusplus
}
#endif
#endif
