// Tests that tensor maps are checked and encoded. test_tensor_map_copy.c tests copies by a kernel, on hardware.
#include "code_test.h"

#include <cuda.h>

static const struct vg_data_type f32 = {VG_TYPE_FLOAT, 32, 1};
static struct vg_context *context;
static struct vg_stream *stream;
static struct vg_buffer *buffer;

static void begin(void)
{
	struct vg_memory_resource *pool;

	if (context)
		return;
	context = first_context();
	OK(vg_stream_create(context, NULL, &stream));
	OK(vg_device_pool_current(vg_context_device(context), &pool));
	OK(vg_buffer_create(pool, 1 << 20, stream, &buffer));
	vg_memory_resource_destroy(pool);
}

static struct vg_view *view_of(int rank, const int64_t *shape, struct vg_data_type type)
{
	struct vg_layout layout;
	struct vg_view *view;

	begin();
	OK(vg_layout_dense(rank, shape, type.bits / 8u, VG_ORDER_C, &layout));
	OK(vg_view_of_buffer(buffer, &layout, type, 0, &view));
	return view;
}

TEST(a_tiled_map_is_aligned_and_keeps_its_view)
{
	struct vg_view *view = view_of(2, (int64_t[]){64, 128}, f32);
	struct vg_tensor_map *map;

	OK(vg_tensor_map_tiled(context, view, (unsigned[]){16, 32}, NULL, &map));
	vg_view_destroy(view);
	CHECK(vg_tensor_map_value(map) && (uintptr_t)vg_tensor_map_value(map) % 64 == 0);
	CHECK(vg_tensor_map_device(map) == vg_context_device(context));
	vg_tensor_map_destroy(map);
}

TEST(the_driver_gets_the_axes_reversed)
{
	// The driver needs an innermost extent of a multiple of 16 bytes. With the axes in the wrong order it would
	// accept the first box and refuse the second.
	struct vg_view *view = view_of(2, (int64_t[]){64, 128}, f32);
	struct vg_tensor_map *map;

	OK(vg_tensor_map_tiled(context, view, (unsigned[]){3, 4}, NULL, &map));
	vg_tensor_map_destroy(map);
	CHECK_INT(vg_tensor_map_tiled(context, view, (unsigned[]){4, 3}, NULL, &map), VG_DRIVER);
	vg_view_destroy(view);
}

TEST(invalid_tiled_maps_are_refused)
{
	struct vg_view *view = view_of(2, (int64_t[]){64, 128}, f32), *other;
	struct vg_tensor_map *map = NULL;
	struct vg_layout layout = *vg_view_layout(view);

	REFUSED(vg_tensor_map_tiled(context, view, (unsigned[]){0, 4}, NULL, &map), VG_INVALID,
		"box[0] is 0: it must be in [1, 256]");
	REFUSED(vg_tensor_map_tiled(context, view, (unsigned[]){4, 257}, NULL, &map), VG_INVALID, "box[1] is 257");
	REFUSED(vg_tensor_map_tiled(context, view, (unsigned[]){4, 4},
				    &(struct vg_tensor_map_options){.size = sizeof(struct vg_tensor_map_options),
								    .element_strides = {9, 1}},
				    &map),
		VG_INVALID, "element_strides[0] is 9");
	REFUSED(vg_tensor_map_tiled(
			context, view, (unsigned[]){4, 4},
			&(struct vg_tensor_map_options){.size = sizeof(struct vg_tensor_map_options), .swizzle = 9},
			&map),
		VG_INVALID, "options.swizzle is 9");
	REFUSED(vg_tensor_map_tiled(context, view, (unsigned[]){4, 4},
				    &(struct vg_tensor_map_options){.size = sizeof(struct vg_tensor_map_options),
								    .type = VG_TENSOR_FLOAT16},
				    &map),
		VG_INVALID, "elements of 2 bytes, the view has 4");
	OK(vg_layout_slice(&layout, 1, 1, 128, 1, &layout)); // the slice begins at offset 4
	OK(vg_view_reinterpret(view, &layout, NULL, &other));
	REFUSED(vg_tensor_map_tiled(context, other, (unsigned[]){4, 4}, NULL, &map), VG_INVALID, "aligned to 16 bytes");
	vg_view_destroy(other);
	OK(vg_layout_permute(vg_view_layout(view), (int[]){1, 0}, &layout));
	OK(vg_view_reinterpret(view, &layout, NULL, &other));
	REFUSED(vg_tensor_map_tiled(context, other, (unsigned[]){4, 4}, NULL, &map), VG_INVALID,
		"innermost axis must have a stride of 1");
	vg_view_destroy(other);
	vg_view_destroy(view);
	view = view_of(2, (int64_t[]){64, 127}, f32);
	REFUSED(vg_tensor_map_tiled(context, view, (unsigned[]){4, 4}, NULL, &map), VG_INVALID,
		"strides[0] is 508 bytes");
	vg_view_destroy(view);
	view = view_of(6, (int64_t[]){2, 2, 2, 2, 2, 4}, f32);
	REFUSED(vg_tensor_map_tiled(context, view, (unsigned[]){1, 1, 1, 1, 1, 4}, NULL, &map), VG_INVALID,
		"rank must be between 1 and 5");
	vg_view_destroy(view);
	view = view_of(1, (int64_t[]){64}, (struct vg_data_type){VG_TYPE_COMPLEX, 64, 1});
	REFUSED(vg_tensor_map_tiled(context, view, (unsigned[]){4}, NULL, &map), VG_INVALID,
		"name one in options.type");
	vg_view_destroy(view);
	CHECK(map == NULL);
}

// Checks that the map is equal to one that cuTensorMapEncodeTiled() encodes. If one option is missing, the map must
// differ.
TEST(options_are_passed_to_the_driver)
{
	static CUtensorMap direct __attribute__((aligned(64)));
	static const cuuint64_t shape[] = {32, 16, 64}, strides[] = {32 * 2, 16 * 32 * 2};
	static const cuuint32_t box[] = {16, 4, 2}, steps[] = {1, 2, 1};
	const struct vg_tensor_map_options options = {.size = sizeof options,
						      .element_strides = {1, 2, 1},
						      .type = VG_TENSOR_BFLOAT16,
						      .interleave = VG_INTERLEAVE_32B,
						      .swizzle = VG_SWIZZLE_32B,
						      .l2_promotion = VG_PROMOTION_128B,
						      .fill = VG_FILL_NAN};
	struct vg_view *view = view_of(3, (int64_t[]){64, 16, 32}, (struct vg_data_type){VG_TYPE_BFLOAT, 16, 1});
	struct vg_tensor_map *map, *other;

	OK(vg_tensor_map_tiled(context, view, (unsigned[]){2, 4, 16}, &options, &map));
	OK(vg_context_set_current(context, NULL));
	DRIVER(cuTensorMapEncodeTiled,
	       (void *, int, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
		const cuuint32_t *, int, int, int, int),
	       &direct, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, (void *)(uintptr_t)vg_buffer_address(buffer), shape,
	       strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_32B, CU_TENSOR_MAP_SWIZZLE_32B,
	       CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
	OK(vg_context_restore(NULL));
	CHECK(memcmp(vg_tensor_map_value(map), &direct, sizeof direct) == 0);
	for (int without = 0; without < 5; without++) {
		struct vg_tensor_map_options less = options;
		if (without == 0)
			memset(less.element_strides, 0, sizeof less.element_strides);
		else if (without == 1)
			less.interleave = VG_INTERLEAVE_16B;
		else if (without == 2)
			less.l2_promotion = VG_PROMOTION_NONE;
		else if (without == 3)
			less.fill = VG_FILL_ZERO;
		else
			less.type = VG_TENSOR_FLOAT16;
		if (without == 1) // interleaving without swizzling
			less.swizzle = VG_SWIZZLE_NONE;
		OK(vg_tensor_map_tiled(context, view, (unsigned[]){2, 4, 16}, &less, &other));
		CHECK(memcmp(vg_tensor_map_value(other), &direct, sizeof direct) != 0);
		vg_tensor_map_destroy(other);
	}
	vg_tensor_map_destroy(map);
	vg_view_destroy(view);
}

TEST(a_tensor_without_elements_has_no_map)
{
	struct vg_view *view = view_of(2, (int64_t[]){0, 128}, f32);
	struct vg_tensor_map *map = NULL;

	REFUSED(vg_tensor_map_tiled(context, view, (unsigned[]){4, 4}, NULL, &map), VG_INVALID,
		"shape[0] is 0: a map needs elements");
	CHECK(!map);
	vg_view_destroy(view);
}

TEST(host_memory_is_refused)
{
	static float data[64] __attribute__((aligned(64)));
	struct vg_tensor_map *map;
	struct vg_layout layout;
	struct vg_view *view;

	begin();
	OK(vg_layout_dense(2, (int64_t[]){8, 8}, 4, VG_ORDER_C, &layout));
	OK(vg_view_create((uintptr_t)data, &layout, f32, NULL, &view));
	REFUSED(vg_tensor_map_tiled(context, view, (unsigned[]){4, 4}, NULL, &map), VG_UNSUPPORTED, "host memory");
	vg_view_destroy(view);
}

TEST(im2col_maps_have_ranks_3_to_5)
{
	struct vg_view *image = view_of(4, (int64_t[]){2, 16, 16, 32}, f32),
		       *flat = view_of(2, (int64_t[]){64, 128}, f32);
	const struct vg_im2col box = {{-1, -1}, {-1, -1}, 16, 32};
	struct vg_tensor_map *map;

	OK(vg_tensor_map_im2col(context, image, &box, NULL, &map));
	vg_tensor_map_destroy(map);
	REFUSED(vg_tensor_map_im2col(context, flat, &box, NULL, &map), VG_INVALID, "rank must be between 3 and 5");
	REFUSED(vg_tensor_map_im2col(context, image, NULL, NULL, &map), VG_INVALID, "box is NULL");
	vg_view_destroy(image);
	vg_view_destroy(flat);
}

TEST(wide_maps_need_a_newer_device)
{
	struct vg_view *image = view_of(4, (int64_t[]){2, 16, 16, 32}, f32);
	const struct vg_im2col_wide box = {-1, -1, 32, 32, VG_WIDE_W};
	struct vg_tensor_map *map = NULL;

	enum vg_status status = vg_tensor_map_im2col_wide(context, image, &box, NULL, &map);
	if (status) {
		CHECK_INT(status, VG_UNSUPPORTED);
		CHECK_CONTAINS(vg_last_error()->text, "compute capability 10.0");
	}
	vg_tensor_map_destroy(map);
	vg_view_destroy(image);
}

TEST(replacing_the_address)
{
	struct vg_view *view = view_of(2, (int64_t[]){64, 128}, f32), *other,
		       *narrow = view_of(2, (int64_t[]){32, 128}, f32);
	struct vg_layout layout = *vg_view_layout(view);
	unsigned char before[VG_TENSOR_MAP_BYTES];
	struct vg_tensor_map *map;

	OK(vg_tensor_map_tiled(context, view, (unsigned[]){16, 32}, NULL, &map));
	memcpy(before, vg_tensor_map_value(map), sizeof before);
	layout.offset = 64 * 128;
	OK(vg_view_of_buffer(buffer, &layout, f32, 0, &other));
	REFUSED(vg_tensor_map_replace_address(map, narrow), VG_INVALID, "shape or strides");
	CHECK(memcmp(before, vg_tensor_map_value(map), sizeof before) == 0);
	OK(vg_tensor_map_replace_address(map, other));
	CHECK(memcmp(before, vg_tensor_map_value(map), sizeof before) != 0);
	OK(vg_tensor_map_replace_address(map, view));
	CHECK(memcmp(before, vg_tensor_map_value(map), sizeof before) == 0);
	vg_tensor_map_destroy(map);
	vg_view_destroy(other);
	vg_view_destroy(narrow);
	vg_view_destroy(view);
}

// Types and swizzles are the driver's numbers plus one, so that 0 can be the default.
#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(VG_TENSOR_UINT8 - 1, CU_TENSOR_MAP_DATA_TYPE_UINT8);
SAME(VG_TENSOR_UINT16 - 1, CU_TENSOR_MAP_DATA_TYPE_UINT16);
SAME(VG_TENSOR_UINT32 - 1, CU_TENSOR_MAP_DATA_TYPE_UINT32);
SAME(VG_TENSOR_INT32 - 1, CU_TENSOR_MAP_DATA_TYPE_INT32);
SAME(VG_TENSOR_UINT64 - 1, CU_TENSOR_MAP_DATA_TYPE_UINT64);
SAME(VG_TENSOR_INT64 - 1, CU_TENSOR_MAP_DATA_TYPE_INT64);
SAME(VG_TENSOR_FLOAT16 - 1, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
SAME(VG_TENSOR_FLOAT32 - 1, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
SAME(VG_TENSOR_FLOAT64 - 1, CU_TENSOR_MAP_DATA_TYPE_FLOAT64);
SAME(VG_TENSOR_BFLOAT16 - 1, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
SAME(VG_TENSOR_FLOAT32_FTZ - 1, CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ);
SAME(VG_TENSOR_TFLOAT32 - 1, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32);
SAME(VG_TENSOR_TFLOAT32_FTZ - 1, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ);
SAME(VG_SWIZZLE_NONE - 1, CU_TENSOR_MAP_SWIZZLE_NONE);
SAME(VG_SWIZZLE_32B - 1, CU_TENSOR_MAP_SWIZZLE_32B);
SAME(VG_SWIZZLE_64B - 1, CU_TENSOR_MAP_SWIZZLE_64B);
SAME(VG_SWIZZLE_128B - 1, CU_TENSOR_MAP_SWIZZLE_128B);
SAME(VG_INTERLEAVE_NONE, CU_TENSOR_MAP_INTERLEAVE_NONE);
SAME(VG_INTERLEAVE_16B, CU_TENSOR_MAP_INTERLEAVE_16B);
SAME(VG_INTERLEAVE_32B, CU_TENSOR_MAP_INTERLEAVE_32B);
SAME(VG_PROMOTION_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE);
SAME(VG_PROMOTION_64B, CU_TENSOR_MAP_L2_PROMOTION_L2_64B);
SAME(VG_PROMOTION_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
SAME(VG_PROMOTION_256B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
SAME(VG_FILL_ZERO, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
SAME(VG_FILL_NAN, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
SAME(VG_WIDE_W, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W);
SAME(VG_WIDE_W128, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128);
SAME(VG_TENSOR_MAP_BYTES, sizeof(CUtensorMap));

TEST(every_type_of_elements_has_a_map)
{
	static const struct {
		enum vg_tensor_type type;
		unsigned bits;
		// The element type of the views for which `type` is the default. VG_TYPE_OPAQUE: `type` is no default.
		uint8_t code;
	} types[] = {
		{VG_TENSOR_UINT8, 8, VG_TYPE_UINT},	      {VG_TENSOR_UINT16, 16, VG_TYPE_UINT},
		{VG_TENSOR_UINT32, 32, VG_TYPE_UINT},	      {VG_TENSOR_INT32, 32, VG_TYPE_INT},
		{VG_TENSOR_UINT64, 64, VG_TYPE_UINT},	      {VG_TENSOR_INT64, 64, VG_TYPE_INT},
		{VG_TENSOR_FLOAT16, 16, VG_TYPE_FLOAT},	      {VG_TENSOR_FLOAT32, 32, VG_TYPE_FLOAT},
		{VG_TENSOR_FLOAT64, 64, VG_TYPE_FLOAT},	      {VG_TENSOR_BFLOAT16, 16, VG_TYPE_BFLOAT},
		{VG_TENSOR_FLOAT32_FTZ, 32, VG_TYPE_OPAQUE},  {VG_TENSOR_TFLOAT32, 32, VG_TYPE_OPAQUE},
		{VG_TENSOR_TFLOAT32_FTZ, 32, VG_TYPE_OPAQUE},
	};
	struct vg_tensor_map_options options = {.size = sizeof options};
	struct vg_tensor_map *named, *by_default;

	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		struct vg_view *view = view_of(2, (int64_t[]){64, 128},
					       (struct vg_data_type){types[i].code, (uint8_t)types[i].bits, 1});
		options.type = types[i].type;
		OK(vg_tensor_map_tiled(context, view, (unsigned[]){16, 16}, &options, &named));
		options.type = VG_TENSOR_DEFAULT;
		if (types[i].code == VG_TYPE_OPAQUE) {
			REFUSED(vg_tensor_map_tiled(context, view, (unsigned[]){16, 16}, &options, &by_default),
				VG_INVALID, "name one in options.type");
		} else {
			OK(vg_tensor_map_tiled(context, view, (unsigned[]){16, 16}, &options, &by_default));
			CHECK(memcmp(vg_tensor_map_value(named), vg_tensor_map_value(by_default),
				     VG_TENSOR_MAP_BYTES) == 0);
			vg_tensor_map_destroy(by_default);
		}
		vg_tensor_map_destroy(named);
		vg_view_destroy(view);
	}
}

TEST(limits_of_ranks_boxes_and_steps)
{
	static const int64_t shape[] = {2, 2, 2, 4, 256};
	static const unsigned box[] = {1, 2, 1, 2, 256}, steps[] = {1, 8, 2, 1, 1};
	struct vg_tensor_map_options options = {.size = sizeof options};
	struct vg_tensor_map *map;

	for (int rank = 1; rank <= VG_TENSOR_MAP_RANK; rank++) {
		struct vg_view *view = view_of(rank, shape + 5 - rank, (struct vg_data_type){VG_TYPE_UINT, 8, 1});
		memset(options.element_strides, 0, sizeof options.element_strides);
		OK(vg_tensor_map_tiled(context, view, box + 5 - rank, &options, &map));
		vg_tensor_map_destroy(map);
		memcpy(options.element_strides, steps + 5 - rank, (size_t)rank * sizeof *steps);
		OK(vg_tensor_map_tiled(context, view, box + 5 - rank, &options, &map));
		vg_tensor_map_destroy(map);
		vg_view_destroy(view);
	}
}

// Tests memory of another device: a context of device 0 refuses memory of device 1. Memory that both devices can access
// is allowed.
TEST(device_memory_must_be_of_the_contexts_device)
{
	struct vg_view_options options = {.size = sizeof options, .kind = VG_MEMORY_DEVICE, .device = 1};
	struct vg_memory_resource *pinned;
	struct vg_tensor_map *map = NULL;
	struct vg_buffer *host;
	struct vg_layout layout;
	struct vg_view *view, *good = view_of(2, (int64_t[]){64, 128}, f32);

	layout = *vg_view_layout(good);
	OK(vg_view_create(vg_buffer_address(buffer), &layout, f32, &options, &view));
	REFUSED(vg_tensor_map_tiled(context, view, (unsigned[]){4, 4}, NULL, &map), VG_UNSUPPORTED,
		"of device 1's memory, the context of device 0");
	OK(vg_tensor_map_tiled(context, good, (unsigned[]){4, 4}, NULL, &map));
	REFUSED(vg_tensor_map_replace_address(map, view), VG_UNSUPPORTED, "of device 1's memory");
	vg_view_destroy(view);
	OK(vg_legacy_pinned_resource_create(context, &pinned));
	OK(vg_buffer_create(pinned, 64 * 128 * 4, NULL, &host));
	OK(vg_view_of_buffer(host, &layout, f32, 0, &view));
	CHECK_INT(vg_view_kind(view), VG_MEMORY_PINNED);
	OK(vg_tensor_map_replace_address(map, view));
	vg_tensor_map_destroy(map);
	OK(vg_tensor_map_tiled(context, view, (unsigned[]){4, 4}, NULL, &map));
	vg_view_destroy(view);
	vg_buffer_destroy(host);
	vg_memory_resource_destroy(pinned);
	vg_tensor_map_destroy(map); // the map kept the view, the buffer and the resource
	vg_view_destroy(good);
}

TEST(invalid_replacements_are_refused)
{
	struct vg_view *view = view_of(2, (int64_t[]){64, 128}, f32);
	struct vg_context *own;
	struct vg_tensor_map *map;

	OK(vg_context_primary(vg_context_device(context), &own));
	OK(vg_tensor_map_tiled(own, view, (unsigned[]){4, 4}, NULL, &map));
	vg_context_destroy(own);
	REFUSED(vg_tensor_map_replace_address(map, NULL), VG_INVALID, "view is NULL");
	REFUSED(vg_tensor_map_replace_address(NULL, view), VG_INVALID, "map is NULL");
	OK(vg_tensor_map_replace_address(map, view)); // the view of the map itself is valid, too
	vg_view_destroy(view);
	CHECK(vg_tensor_map_value(NULL) == NULL && vg_tensor_map_device(NULL) == NULL);
	vg_tensor_map_destroy(map);
	vg_tensor_map_destroy(NULL);
}
