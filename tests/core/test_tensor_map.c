// Tensor maps are checked and encoded here; that a kernel copies by one is tested on hardware.
#include "core_test.h"

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

TEST(the_driver_gets_the_axes_turned_around)
{
	// A box whose innermost extent is not a multiple of 16 bytes is the driver's to refuse: turned the wrong way it
	// would accept the first and refuse the second.
	struct vg_view *view = view_of(2, (int64_t[]){64, 128}, f32);
	struct vg_tensor_map *map;

	OK(vg_tensor_map_tiled(context, view, (unsigned[]){3, 4}, NULL, &map));
	vg_tensor_map_destroy(map);
	CHECK_INT(vg_tensor_map_tiled(context, view, (unsigned[]){4, 3}, NULL, &map), VG_DRIVER);
	vg_view_destroy(view);
}

TEST(tiled_maps_refuse_what_the_hardware_cannot_hold)
{
	struct vg_view *view = view_of(2, (int64_t[]){64, 128}, f32), *other;
	struct vg_tensor_map *map = NULL;
	struct vg_layout layout = *vg_view_layout(view);

	REFUSED(vg_tensor_map_tiled(context, view, (unsigned[]){0, 4}, NULL, &map), VG_INVALID, "box[0] is 0: it must be in [1, 256]");
	REFUSED(vg_tensor_map_tiled(context, view, (unsigned[]){4, 257}, NULL, &map), VG_INVALID, "box[1] is 257");
	REFUSED(vg_tensor_map_tiled(context, view, (unsigned[]){4, 4},
				    &(struct vg_tensor_map_options){.size = sizeof(struct vg_tensor_map_options),
								    .element_strides = {9, 1}},
				    &map),
		VG_INVALID, "element_strides[0] is 9");
	REFUSED(vg_tensor_map_tiled(context, view, (unsigned[]){4, 4},
				    &(struct vg_tensor_map_options){.size = sizeof(struct vg_tensor_map_options), .swizzle = 9}, &map),
		VG_INVALID, "options.swizzle is 9");
	REFUSED(vg_tensor_map_tiled(context, view, (unsigned[]){4, 4},
				    &(struct vg_tensor_map_options){.size = sizeof(struct vg_tensor_map_options),
								    .type = VG_TENSOR_FLOAT16},
				    &map),
		VG_INVALID, "elements of 2 bytes, the view has 4");
	OK(vg_layout_slice(&layout, 1, 1, 128, 1, &layout)); // 4 bytes on
	OK(vg_view_reinterpret(view, &layout, NULL, &other));
	REFUSED(vg_tensor_map_tiled(context, other, (unsigned[]){4, 4}, NULL, &map), VG_INVALID, "aligned to 16 bytes");
	vg_view_destroy(other);
	OK(vg_layout_permute(vg_view_layout(view), (int[]){1, 0}, &layout));
	OK(vg_view_reinterpret(view, &layout, NULL, &other));
	REFUSED(vg_tensor_map_tiled(context, other, (unsigned[]){4, 4}, NULL, &map), VG_INVALID, "innermost axis must have a stride of 1");
	vg_view_destroy(other);
	vg_view_destroy(view);
	view = view_of(2, (int64_t[]){64, 127}, f32);
	REFUSED(vg_tensor_map_tiled(context, view, (unsigned[]){4, 4}, NULL, &map), VG_INVALID, "strides[0] is 508 bytes");
	vg_view_destroy(view);
	view = view_of(6, (int64_t[]){2, 2, 2, 2, 2, 4}, f32);
	REFUSED(vg_tensor_map_tiled(context, view, (unsigned[]){1, 1, 1, 1, 1, 4}, NULL, &map), VG_INVALID,
		"rank must be between 1 and 5");
	vg_view_destroy(view);
	view = view_of(1, (int64_t[]){64}, (struct vg_data_type){VG_TYPE_COMPLEX, 64, 1});
	REFUSED(vg_tensor_map_tiled(context, view, (unsigned[]){4}, NULL, &map), VG_INVALID, "name one in options.type");
	vg_view_destroy(view);
	CHECK(map == NULL);
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

TEST(im2col_maps_take_ranks_3_to_5)
{
	struct vg_view *image = view_of(4, (int64_t[]){2, 16, 16, 32}, f32), *flat = view_of(2, (int64_t[]){64, 128}, f32);
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

TEST(another_address_takes_the_place_of_the_first)
{
	struct vg_view *view = view_of(2, (int64_t[]){64, 128}, f32), *other, *narrow = view_of(2, (int64_t[]){32, 128}, f32);
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
