// Tests failures of every driver call of tensor maps, graphics resources and process objects.
#include "core_fault.h"

static const struct vg_data_type f32 = {VG_TYPE_FLOAT, 32, 1};
static struct vg_context *context;
static struct vg_stream *stream;
static struct vg_buffer *buffer, *mapped;
static struct vg_view *view, *other, *image;
static struct vg_tensor_map *map;
static struct vg_graphics_resource *resource;
static struct CUarray_st *array;

__attribute__((constructor)) static void declare_objects(void)
{
	setenv("VIRGATE_SIM_GL", "1=64K,2=32x16", 1);
}

static void clean(void)
{
	vg_tensor_map_destroy(map);
	vg_view_destroy(image);
	vg_view_destroy(other);
	vg_view_destroy(view);
	vg_buffer_destroy(mapped);
	vg_graphics_resource_destroy(resource);
	vg_buffer_destroy(buffer);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
}

static enum vg_status open_stream(void)
{
	struct vg_device *device;

	TRY(vg_device_get(0, &device));
	TRY(vg_context_primary(device, &context));
	return vg_stream_create(context, NULL, &stream);
}

static enum vg_status open_views(void)
{
	struct vg_memory_resource *memory;
	struct vg_layout layout;

	TRY(open_stream());
	TRY(vg_synchronous_resource_create(context, &memory));
	enum vg_status status = vg_buffer_create(memory, 1 << 16, NULL, &buffer);
	vg_memory_resource_destroy(memory);
	TRY(status);
	TRY(vg_layout_dense(2, (int64_t[]){64, 128}, sizeof(float), VG_ORDER_C, &layout));
	TRY(vg_view_of_buffer(buffer, &layout, f32, 0, &view));
	layout.offset = 64 * 128;
	TRY(vg_view_of_buffer(buffer, &layout, f32, 0, &other));
	TRY(vg_layout_dense(4, (int64_t[]){1, 16, 16, 32}, sizeof(float), VG_ORDER_C, &layout));
	return vg_view_of_buffer(buffer, &layout, f32, 0, &image);
}

static enum vg_status make_tiled(void)
{
	return vg_tensor_map_tiled(context, view, (unsigned[]){16, 32}, NULL, &map);
}

TEST(tiled_maps)
{
	static const struct fault_subject subject = {open_views, make_tiled, clean};

	FAULT_EVERY_CALL(&subject, "cuTensorMapEncodeTiled");
}

static enum vg_status make_im2col(void)
{
	static const struct vg_im2col pixels = {{-1, -1}, {-1, -1}, 16, 32};

	return vg_tensor_map_im2col(context, image, &pixels, NULL, &map);
}

TEST(im2col_maps)
{
	static const struct fault_subject subject = {open_views, make_im2col, clean};

	FAULT_EVERY_CALL(&subject, "cuTensorMapEncodeIm2col");
}

static enum vg_status open_map(void)
{
	TRY(open_views());
	return make_tiled();
}

static enum vg_status replace(void)
{
	unsigned char before[VG_TENSOR_MAP_BYTES];

	memcpy(before, vg_tensor_map_value(map), sizeof before);
	enum vg_status status = vg_tensor_map_replace_address(map, other);
	if (status) // a failed call does not change the map
		CHECK(memcmp(before, vg_tensor_map_value(map), sizeof before) == 0);
	return status;
}

TEST(a_failed_replacement_keeps_the_address)
{
	static const struct fault_subject subject = {open_map, replace, clean};

	FAULT_EVERY_CALL(&subject, "cuTensorMapReplaceAddress");
}

static enum vg_status open_resource(void)
{
	TRY(open_stream());
	return vg_graphics_resource_of_gl_buffer(context, 1, 0, &resource);
}

// Maps the buffer. If that fails, nothing may be mapped, and a second try must succeed.
static enum vg_status map_buffer(void)
{
	enum vg_status status = vg_graphics_resource_map(resource, stream, &mapped);

	if (status) {
		int code = vg_last_error()->code;
		CHECK(mapped == NULL && !vg_graphics_resource_is_mapped(resource));
		OK(vg_graphics_resource_map(resource, stream, &mapped));
		vg_buffer_destroy(mapped);
		mapped = NULL;
		CHECK(!vg_graphics_resource_is_mapped(resource));
		CHECK_INT(vg_last_error()->code, code); // a successful call keeps the last error
	}
	return status;
}

TEST(a_failed_map_leaves_the_buffer_unmapped)
{
	static const struct fault_subject subject = {open_resource, map_buffer, clean};

	FAULT_EVERY_CALL(&subject, "cuGraphicsMapResources", "cuGraphicsResourceGetMappedPointer_v2");
}

static enum vg_status open_image(void)
{
	TRY(open_stream());
	return vg_graphics_resource_of_gl_image(context, 2, 0x0de1, 0, &resource);
}

static enum vg_status map_image(void)
{
	enum vg_status status = vg_graphics_resource_map_array(resource, stream, 0, 0, &array);

	if (status)
		CHECK(!vg_graphics_resource_is_mapped(resource));
	return status;
}

TEST(a_failed_map_leaves_the_image_unmapped)
{
	static const struct fault_subject subject = {open_image, map_image, clean};

	FAULT_EVERY_CALL(&subject, "cuGraphicsMapResources", "cuGraphicsSubResourceGetMappedArray");
}

static enum vg_status open_mapping(void)
{
	TRY(open_resource());
	return vg_graphics_resource_map(resource, stream, &mapped);
}

// Unmaps the resource. If that fails, the resource must still be mapped, its memory must be valid, and a second try
// must succeed.
static enum vg_status unmap(void)
{
	enum vg_status status = vg_graphics_resource_unmap(resource, stream);

	CHECK_INT(vg_graphics_resource_is_mapped(resource), status != VG_OK);
	CHECK_INT(vg_buffer_size(mapped), status ? 65536 : 0);
	return status;
}

TEST(a_failed_unmap_keeps_the_mapping)
{
	static const struct fault_subject subject = {open_mapping, unmap, clean};

	FAULT_EVERY_CALL(&subject, "cuGraphicsUnmapResources");
}

static enum vg_status close_buffer(void)
{
	enum vg_status status = vg_buffer_close(mapped, stream);

	CHECK_INT(vg_graphics_resource_is_mapped(resource), status != VG_OK);
	if (status) { // the buffer was closed, but the resource is still mapped, and a later unmap must succeed
		vg_buffer_destroy(mapped);
		mapped = NULL;
		OK(vg_graphics_resource_unmap(resource, stream));
	}
	return status;
}

TEST(a_failed_close_keeps_the_mapping)
{
	static const struct fault_subject subject = {open_mapping, close_buffer, clean};

	FAULT_EVERY_CALL(&subject, "cuGraphicsUnmapResources");
}

static enum vg_status close_resource(void)
{
	return vg_graphics_resource_close(resource, NULL);
}

TEST(closing_a_mapped_resource_reports_the_failure)
{
	static const struct fault_subject subject = {open_mapping, close_resource, clean};

	FAULT_EVERY_CALL(&subject, "cuGraphicsUnmapResources", "cuGraphicsUnregisterResource");
}
