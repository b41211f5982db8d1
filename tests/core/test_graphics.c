// Tests the states of a graphics resource, on the simulated driver, which simulates OpenGL objects.
#include "core_test.h"

static struct vg_context *context;
static struct vg_stream *stream;

__attribute__((constructor)) static void declare_objects(void)
{
	setenv("VIRGATE_SIM_GL", "1=64K,2=32x16", 1);
}

static void begin(void)
{
	if (!getenv("VIRGATE_SIM"))
		SKIP("no OpenGL context: the simulated driver declares its own objects");
	if (context)
		return;
	context = first_context();
	OK(vg_stream_create(context, NULL, &stream));
}

TEST(closing_the_mapped_buffer_unmaps)
{
	struct vg_graphics_resource *resource;
	struct vg_buffer *buffer, *second;

	begin();
	OK(vg_graphics_resource_of_gl_buffer(context, 1, 0, &resource));
	CHECK(vg_graphics_resource_handle(resource) != NULL);
	CHECK(!vg_graphics_resource_is_mapped(resource));
	REFUSED(vg_graphics_resource_unmap(resource, NULL), VG_STATE, "not mapped");
	OK(vg_graphics_resource_map(resource, stream, &buffer));
	CHECK(vg_graphics_resource_is_mapped(resource));
	CHECK_INT(vg_buffer_size(buffer), 65536);
	OK(vg_buffer_fill(buffer, &(unsigned char){5}, 1, stream));
	REFUSED(vg_graphics_resource_map(resource, stream, &second), VG_STATE, "already mapped");
	OK(vg_buffer_close(buffer, stream));
	CHECK(!vg_graphics_resource_is_mapped(resource));
	CHECK_INT(vg_buffer_size(buffer), 0);
	vg_buffer_destroy(buffer);
	OK(vg_graphics_resource_map(resource, stream, &buffer));
	vg_buffer_destroy(buffer);
	CHECK(!vg_graphics_resource_is_mapped(resource));
	vg_graphics_resource_destroy(resource);
}

TEST(unmapping_closes_the_buffer_with_any_references)
{
	struct vg_graphics_resource *resource;
	struct vg_buffer *buffer, *later;

	begin();
	OK(vg_graphics_resource_of_gl_buffer(context, 1, VG_GRAPHICS_WRITE_DISCARD, &resource));
	OK(vg_graphics_resource_map(resource, stream, &buffer));
	struct vg_buffer *held = vg_buffer_retain(buffer);
	OK(vg_graphics_resource_unmap(resource, stream));
	CHECK_INT(vg_buffer_address(buffer), 0);
	REFUSED(vg_buffer_fill(buffer, &(unsigned char){5}, 1, stream), VG_CLOSED, "buffer has been closed");
	OK(vg_graphics_resource_map(resource, stream, &later));
	vg_buffer_destroy(buffer); // destroying the old buffer does not affect the new mapping
	vg_buffer_destroy(held);
	CHECK(vg_graphics_resource_is_mapped(resource));
	CHECK_INT(vg_buffer_size(later), 65536);
	vg_buffer_destroy(later);
	vg_graphics_resource_destroy(resource);
}

TEST(any_order_of_destruction_is_safe)
{
	struct vg_graphics_resource *resource;
	struct vg_buffer *buffer;

	begin();
	OK(vg_graphics_resource_of_gl_buffer(context, 1, 0, &resource));
	OK(vg_graphics_resource_map(resource, stream, &buffer));
	vg_graphics_resource_destroy(resource); // the buffer keeps the resource
	CHECK_INT(vg_buffer_size(buffer), 65536);
	vg_buffer_destroy(buffer);
}

TEST(closing_unmaps_and_unregisters_once)
{
	struct vg_graphics_resource *resource;
	struct vg_buffer *buffer;

	begin();
	OK(vg_graphics_resource_of_gl_buffer(context, 1, 0, &resource));
	OK(vg_graphics_resource_map(resource, stream, &buffer));
	OK(vg_graphics_resource_close(resource, NULL));
	CHECK(vg_graphics_resource_handle(resource) == NULL);
	CHECK_INT(vg_buffer_size(buffer), 0);
	OK(vg_graphics_resource_close(resource, stream));
	REFUSED(vg_graphics_resource_map(resource, stream, &buffer), VG_CLOSED, "closed");
	vg_buffer_destroy(buffer);
	vg_graphics_resource_destroy(resource);
}

TEST(images_map_as_arrays)
{
	struct vg_graphics_resource *resource;
	struct CUarray_st *array = NULL;
	struct vg_buffer *buffer;

	begin();
	OK(vg_graphics_resource_of_gl_image(context, 2, 0x0de1, VG_GRAPHICS_READ_ONLY, &resource));
	REFUSED(vg_graphics_resource_map(resource, stream, &buffer), VG_UNSUPPORTED, "an image has no address");
	REFUSED(vg_graphics_resource_map_array(resource, stream, 5, 0, &array), VG_DRIVER, "layer 5");
	CHECK(!vg_graphics_resource_is_mapped(resource)); // the resource is not mapped after the failure
	OK(vg_graphics_resource_map_array(resource, stream, 0, 0, &array));
	CHECK(array != NULL);
	OK(vg_graphics_resource_unmap(resource, NULL));
	vg_graphics_resource_destroy(resource);
}

TEST(missing_objects_are_refused)
{
	struct vg_graphics_resource *resource = NULL;

	begin();
	REFUSED(vg_graphics_resource_of_gl_buffer(context, 9, 0, &resource), VG_DRIVER, "buffer 9");
	REFUSED(vg_graphics_resource_of_gl_buffer(context, 2, 0, &resource), VG_DRIVER, "buffer 2");
	REFUSED(vg_graphics_resource_of_gl_buffer(context, 1, 16, &resource), VG_INVALID, "unknown register flag 0x10");
	REFUSED(vg_graphics_resource_of_gl_image(context, 1, 0x0de1, 0, &resource), VG_DRIVER, "image 1");
	REFUSED(vg_graphics_resource_of_gl_buffer(NULL, 1, 0, &resource), VG_INVALID, "context is NULL");
	REFUSED(vg_graphics_resource_map(NULL, stream, NULL), VG_INVALID, "resource is NULL");
	CHECK(resource == NULL);
	vg_graphics_resource_destroy(NULL);
}

TEST(flags_can_be_combined)
{
	const unsigned all = VG_GRAPHICS_READ_ONLY | VG_GRAPHICS_SURFACE_LOAD_STORE | VG_GRAPHICS_TEXTURE_GATHER;
	static const unsigned flags[] = {0, VG_GRAPHICS_READ_ONLY, VG_GRAPHICS_WRITE_DISCARD};
	struct vg_graphics_resource *resource;

	begin();
	for (int i = 0; i < 3; i++) {
		OK(vg_graphics_resource_of_gl_buffer(context, 1, flags[i], &resource));
		vg_graphics_resource_destroy(resource);
	}
	OK(vg_graphics_resource_of_gl_image(context, 2, 0x0de1, all, &resource));
	vg_graphics_resource_destroy(resource);
}

TEST(invalid_mappings_are_refused)
{
	struct vg_graphics_resource *resource;
	struct CUarray_st *array = NULL;
	struct vg_buffer *buffer = NULL;
	struct vg_stream *own;

	begin();
	OK(vg_graphics_resource_of_gl_buffer(context, 1, 0, &resource));
	REFUSED(vg_graphics_resource_map(resource, NULL, &buffer), VG_INVALID, "stream is NULL");
	REFUSED(vg_graphics_resource_map(resource, stream, NULL), VG_INVALID, "ret_buffer is NULL");
	REFUSED(vg_graphics_resource_map_array(resource, stream, 0, 0, &array), VG_UNSUPPORTED, "a buffer is no array");
	OK(vg_stream_create(context, NULL, &own));
	OK(vg_graphics_resource_map(resource, own, &buffer));
	OK(vg_stream_close(own)); // the mapping retains its stream, so a later unmap can pass NULL for it
	REFUSED(vg_graphics_resource_unmap(resource, own), VG_CLOSED, "stream has been closed");
	CHECK(vg_graphics_resource_is_mapped(resource));
	OK(vg_graphics_resource_unmap(resource, NULL));
	vg_stream_destroy(own);
	vg_buffer_destroy(buffer);
	OK(vg_graphics_resource_close(resource, stream)); // the resource is not mapped: the stream is ignored
	REFUSED(vg_graphics_resource_unmap(resource, stream), VG_CLOSED, "closed");
	CHECK(!vg_graphics_resource_is_mapped(resource) && !vg_graphics_resource_is_mapped(NULL));
	vg_graphics_resource_destroy(resource);
	CHECK(array == NULL);
}
