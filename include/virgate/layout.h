/* Layouts: how the elements of a tensor are placed in memory.
 *
 * A layout is a value: copy it, keep it on the stack. Shapes count elements; strides count elements
 * too, and may be zero (broadcast) or negative. Axis 0 is the outermost. Nothing here touches memory or needs a
 * GPU. Functions that fail return INVALID with the reason; *ret_layout is unchanged then. It may be the
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
	int64_t offset;	  /* elements from the pointer to the element with all indices 0 */
	size_t item_size; /* bytes of an element */
};

enum vg_order { VG_ORDER_C, VG_ORDER_F }; /* last axis innermost; first axis innermost */

/* Makes a layout without gaps, in C or F order, or with the axes listed from the outermost to the innermost. */
VG_PUBLIC enum vg_status vg_layout_dense(int rank, const int64_t *shape, size_t item_size, enum vg_order order,
					 struct vg_layout *ret_layout);
VG_PUBLIC enum vg_status vg_layout_dense_axes(int rank, const int64_t *shape, size_t item_size, const int *axes,
					      struct vg_layout *ret_layout);
/* Makes a layout with any strides; if `strides` is NULL, in C order. */
VG_PUBLIC enum vg_status vg_layout_strided(int rank, const int64_t *shape, const int64_t *strides, size_t item_size,
					   struct vg_layout *ret_layout);

/* Reorders the axes: axis i of the result is axis axes[i] of the layout. */
VG_PUBLIC enum vg_status vg_layout_permute(const struct vg_layout *layout, const int *axes,
					   struct vg_layout *ret_layout);
/* Gives the elements another shape and keeps their C order. The shape is `shape`, of which one entry may be -1.
 * UNSUPPORTED if that needs a copy. */
VG_PUBLIC enum vg_status vg_layout_reshape(const struct vg_layout *layout, int rank, const int64_t *shape,
					   struct vg_layout *ret_layout);
/* Merges the axes from `first` to `last`, both included, into one. UNSUPPORTED if that needs a copy. */
VG_PUBLIC enum vg_status vg_layout_flatten(const struct vg_layout *layout, int first, int last,
					   struct vg_layout *ret_layout);
/* Drops all axes of extent 1, or adds one before `axis` (at the end: axis == rank). */
VG_PUBLIC enum vg_status vg_layout_squeeze(const struct vg_layout *layout, struct vg_layout *ret_layout);
VG_PUBLIC enum vg_status vg_layout_unsqueeze(const struct vg_layout *layout, int axis, struct vg_layout *ret_layout);
/* Broadcasts as NumPy does: axes are aligned at the end, extents of 1 are repeated. */
VG_PUBLIC enum vg_status vg_layout_broadcast(const struct vg_layout *layout, int rank, const int64_t *shape,
					     struct vg_layout *ret_layout);
/* Selects the elements start, start + step, … before `stop` of one axis. With a negative step, `stop` may
 * be -1. */
VG_PUBLIC enum vg_status vg_layout_slice(const struct vg_layout *layout, int axis, int64_t start, int64_t stop,
					 int64_t step, struct vg_layout *ret_layout);
/* Changes the size of the elements along an axis whose stride is 1: 8 floats become 4 doubles. */
VG_PUBLIC enum vg_status vg_layout_repack(const struct vg_layout *layout, int axis, size_t item_size,
					  struct vg_layout *ret_layout);
/* Returns the largest power of two up to `limit` that vg_layout_repack() accepts for the axis and to which `address`
 * and every row are aligned; the item size itself if no larger one is possible. */
VG_PUBLIC enum vg_status vg_layout_max_item_size(const struct vg_layout *layout, int axis, vg_address address,
						 size_t limit, size_t *ret_item_size);

/* Returns the number of elements; 0 if an extent is 0. The number cannot overflow for layouts made by the functions
 * above. */
VG_PUBLIC int64_t vg_layout_volume(const struct vg_layout *layout);
/* Computes the least and the greatest offset of an element, in elements from the pointer. Both are 0 if there are no
 * elements. */
VG_PUBLIC void vg_layout_bounds(const struct vg_layout *layout, int64_t *ret_least, int64_t *ret_greatest);
/* Computes the bytes from the pointer to the end of the last element. INVALID if elements lie before the pointer. */
VG_PUBLIC enum vg_status vg_layout_required_size(const struct vg_layout *layout, size_t *ret_bytes);
/* These functions return nonzero if the elements have no gaps between them: in C order, in F order, or in some order
 * of the axes. */
VG_PUBLIC int vg_layout_is_contiguous_c(const struct vg_layout *layout);
VG_PUBLIC int vg_layout_is_contiguous_f(const struct vg_layout *layout);
VG_PUBLIC int vg_layout_is_contiguous(const struct vg_layout *layout);
/* Returns nonzero if every element has only one index. Exact for layouts made from dense ones by slicing and
 * permuting; may be 0 for interleaved strides without a common element. */
VG_PUBLIC int vg_layout_is_unique(const struct vg_layout *layout);

#ifdef __cplusplus
}
#endif
#endif
