/* Tensor maps: descriptions of tensors in memory for the Tensor Memory Accelerator (compute capability 9.0).
 *
 * Shapes, boxes, strides and corners have the outermost axis first, as in layouts; the driver, which has the innermost
 * axis first, gets them reversed. The innermost axis must have a stride of 1. */
#ifndef VIRGATE_TENSOR_MAP_H
#define VIRGATE_TENSOR_MAP_H

#include <virgate/context.h>
#include <virgate/view.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { VG_TENSOR_MAP_RANK = 5, VG_TENSOR_MAP_BYTES = 128 };

struct vg_tensor_map;

/* Element types: the driver's values plus one, because 0 is the default. */
enum vg_tensor_type {
	VG_TENSOR_DEFAULT = 0, /* the element type of the view */
	VG_TENSOR_UINT8,
	VG_TENSOR_UINT16,
	VG_TENSOR_UINT32,
	VG_TENSOR_INT32,
	VG_TENSOR_UINT64,
	VG_TENSOR_INT64,
	VG_TENSOR_FLOAT16,
	VG_TENSOR_FLOAT32,
	VG_TENSOR_FLOAT64,
	VG_TENSOR_BFLOAT16,
	VG_TENSOR_FLOAT32_FTZ,
	VG_TENSOR_TFLOAT32,
	VG_TENSOR_TFLOAT32_FTZ
};
enum vg_tensor_swizzle {
	VG_SWIZZLE_DEFAULT = 0, /* no swizzle; for wide maps 128 bytes */
	VG_SWIZZLE_NONE,
	VG_SWIZZLE_32B,
	VG_SWIZZLE_64B,
	VG_SWIZZLE_128B
};
/* The driver's values. */
enum vg_tensor_interleave { VG_INTERLEAVE_NONE, VG_INTERLEAVE_16B, VG_INTERLEAVE_32B };
enum vg_tensor_promotion { VG_PROMOTION_NONE, VG_PROMOTION_64B, VG_PROMOTION_128B, VG_PROMOTION_256B };
enum vg_tensor_fill { VG_FILL_ZERO, VG_FILL_NAN }; /* the value of elements outside the tensor */
enum vg_tensor_wide_mode { VG_WIDE_W, VG_WIDE_W128 };

struct vg_tensor_map_options {
	size_t size;				      /* sizeof(struct vg_tensor_map_options) */
	unsigned element_strides[VG_TENSOR_MAP_RANK]; /* distances of 1 to 8 elements; all 0: 1 for each axis */
	enum vg_tensor_type type;
	enum vg_tensor_interleave interleave;
	enum vg_tensor_swizzle swizzle;
	enum vg_tensor_promotion l2_promotion;
	enum vg_tensor_fill fill;
};

/* Creates a map of tiles: a copy moves a box of `box[i]` elements of axis i, 1 to 256 each, with one entry for each
 * axis of the view (1 to 5). The map keeps the view. `options` may be NULL. The caller owns *ret_map. INVALID (rank,
 * box, strides, an address that is not a multiple of 16, elements that a map cannot hold), UNSUPPORTED (host memory,
 * another device's memory, a driver without maps), CLOSED, NO_MEMORY, DRIVER. Any thread. Source:
 * cuTensorMapEncodeTiled. */
VG_PUBLIC enum vg_status vg_tensor_map_tiled(struct vg_context *context, struct vg_view *view, const unsigned *box,
					     const struct vg_tensor_map_options *options,
					     struct vg_tensor_map **ret_map);

/* For images with axes N, [D, [H,]] W, C: views of rank 3 to 5; corners have rank - 2 entries. */
struct vg_im2col {
	/* Corners of the box, relative to the image's edges. */
	int lower[VG_TENSOR_MAP_RANK - 2], upper[VG_TENSOR_MAP_RANK - 2];
	unsigned channels_per_pixel, pixels_per_column;
};
/* Creates a map for im2col copies. Otherwise like vg_tensor_map_tiled(). Source: cuTensorMapEncodeIm2col. */
VG_PUBLIC enum vg_status vg_tensor_map_im2col(struct vg_context *context, struct vg_view *view,
					      const struct vg_im2col *box, const struct vg_tensor_map_options *options,
					      struct vg_tensor_map **ret_map);

struct vg_im2col_wide {
	int lower_w, upper_w;
	unsigned channels_per_pixel, pixels_per_column;
	enum vg_tensor_wide_mode mode;
};
/* Creates a map for wide im2col copies. Otherwise like vg_tensor_map_tiled(). UNSUPPORTED below compute capability
 * 10.0. Source: cuTensorMapEncodeIm2colWide. */
VG_PUBLIC enum vg_status vg_tensor_map_im2col_wide(struct vg_context *context, struct vg_view *view,
						   const struct vg_im2col_wide *box,
						   const struct vg_tensor_map_options *options,
						   struct vg_tensor_map **ret_map);

/* Replaces the memory of the map by other memory of the same device. The view must have the same shape and strides.
 * The map drops the old view only after success. Not while another thread uses the map. INVALID, CLOSED, UNSUPPORTED,
 * DRIVER. Source: cuTensorMapReplaceAddress. */
VG_PUBLIC enum vg_status vg_tensor_map_replace_address(struct vg_tensor_map *map, struct vg_view *view);

/* Drops the caller's reference. Accepts NULL. Any thread. */
VG_PUBLIC void vg_tensor_map_destroy(struct vg_tensor_map *map);

/* Returns the VG_TENSOR_MAP_BYTES bytes, aligned to 64, that a kernel takes by value: (struct
 * vg_argument){vg_tensor_map_value(map), VG_TENSOR_MAP_BYTES}. Valid until the map is destroyed or changed. */
VG_PUBLIC const void *vg_tensor_map_value(const struct vg_tensor_map *map);
VG_PUBLIC struct vg_device *vg_tensor_map_device(const struct vg_tensor_map *map);

#ifdef __cplusplus
}
#endif
#endif
