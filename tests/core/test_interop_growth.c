// Checks that views, tensor maps, graphics resources and process objects that are created and destroyed many times, in
// any order and by several threads, do not leak.
#include "core_heap.h"

#include <pthread.h>
#include <stdatomic.h>

static const struct vg_data_type f32 = {VG_TYPE_FLOAT, 32, 1};
static struct vg_context *context;
static struct vg_stream *stream;
static struct vg_buffer *buffer;
static struct vg_layout matrix;

__attribute__((constructor)) static void declare_objects(void)
{
	setenv("VIRGATE_SIM_GL", "1=64K,2=64K,3=64K,4=64K", 1);
}

static void begin(void)
{
	struct vg_memory_resource *pool;

	context = first_context();
	OK(vg_stream_create(context, NULL, &stream));
	OK(vg_device_pool_current(vg_context_device(context), &pool));
	OK(vg_buffer_create(pool, 64 * 128 * sizeof(float), stream, &buffer));
	OK(vg_layout_dense(2, (int64_t[]){64, 128}, sizeof(float), VG_ORDER_C, &matrix));
	vg_memory_resource_destroy(pool);
}

static void end(void)
{
	vg_buffer_destroy(buffer);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
}

TEST(views)
{
	struct DLManagedTensorVersioned *versioned;
	struct DLManagedTensor *tensor;
	struct vg_view *view, *other;

	begin();
	heap_open();
	HEAP_STEADY(OK(vg_view_of_buffer(buffer, &matrix, f32, 0, &view)); vg_view_destroy(view););
	HEAP_STEADY(OK(vg_view_of_buffer(buffer, &matrix, f32, 0, &view));
		    OK(vg_view_reinterpret(view, NULL, NULL, &other)); vg_view_destroy(view);
		    OK(vg_view_export(other, &tensor)); vg_view_destroy(other); OK(vg_view_import(tensor, &view));
		    vg_view_destroy(view););
	HEAP_STEADY(OK(vg_view_of_buffer(buffer, &matrix, f32, 1, &view));
		    OK(vg_view_export_versioned(view, &versioned)); OK(vg_view_import_versioned(versioned, &other));
		    vg_view_destroy(view); vg_view_destroy(other););
	struct vg_layout too_large = matrix;
	too_large.shape[0] = 65;
	HEAP_STEADY(CHECK_INT(vg_view_of_buffer(buffer, &too_large, f32, 0, &view), VG_INVALID););
	end();
}

TEST(tensor_maps)
{
	static const struct vg_im2col pixels = {{-1, -1}, {-1, -1}, 16, 32};
	struct vg_tensor_map *map;
	struct vg_view *view, *other, *image;
	struct vg_layout layout;

	begin();
	heap_open();
	OK(vg_layout_dense(4, (int64_t[]){1, 16, 16, 32}, sizeof(float), VG_ORDER_C, &layout));
	OK(vg_view_of_buffer(buffer, &layout, f32, 0, &image));
	HEAP_STEADY(OK(vg_view_of_buffer(buffer, &matrix, f32, 0, &view));
		    OK(vg_view_of_buffer(buffer, &matrix, f32, 0, &other));
		    OK(vg_tensor_map_tiled(context, view, (unsigned[]){16, 32}, NULL, &map)); vg_view_destroy(view);
		    OK(vg_tensor_map_replace_address(map, other)); vg_view_destroy(other); vg_tensor_map_destroy(map););
	HEAP_STEADY(OK(vg_tensor_map_im2col(context, image, &pixels, NULL, &map)); vg_tensor_map_destroy(map););
	HEAP_STEADY(CHECK_INT(vg_tensor_map_tiled(context, image, (unsigned[]){0, 0, 0, 0}, NULL, &map), VG_INVALID););
	vg_view_destroy(image);
	end();
}

TEST(graphics_resources)
{
	struct vg_graphics_resource *resource;
	struct vg_buffer *mapped;

	if (!getenv("VIRGATE_SIM"))
		SKIP("no OpenGL context: the simulated driver declares its own objects");
	begin();
	heap_open();
	HEAP_STEADY(OK(vg_graphics_resource_of_gl_buffer(context, 1, 0, &resource));
		    vg_graphics_resource_destroy(resource););
	HEAP_STEADY(OK(vg_graphics_resource_of_gl_buffer(context, 1, 0, &resource));
		    OK(vg_graphics_resource_map(resource, stream, &mapped)); vg_graphics_resource_destroy(resource);
		    vg_buffer_destroy(mapped););
	HEAP_STEADY(OK(vg_graphics_resource_of_gl_buffer(context, 1, 0, &resource));
		    OK(vg_graphics_resource_map(resource, stream, &mapped));
		    OK(vg_graphics_resource_close(resource, NULL)); vg_buffer_destroy(mapped);
		    vg_graphics_resource_destroy(resource););
	HEAP_STEADY(CHECK_INT(vg_graphics_resource_of_gl_buffer(context, 9, 0, &resource), VG_DRIVER););
	HEAP_STEADY(CHECK_INT(vg_graphics_resource_of_gl_image(context, 1, 0x0de1, 0, &resource), VG_DRIVER););
	end();
}

TEST(process_objects)
{
	enum vg_process_state state;
	struct vg_process *process;

	begin();
	heap_open();
	HEAP_STEADY(OK(vg_process_open(getppid(), &process));
		    CHECK_INT(vg_process_state(process, &state), VG_NOT_FOUND); vg_process_destroy(process););
	end();
}

enum { THREADS = 4, ROUNDS = 200 };

static atomic_int dropped;

static void drop(void *owner)
{
	atomic_fetch_add(&dropped, 1);
}

// Each thread makes views of one buffer and of one foreign owner, and has a graphics resource of its own.
static void *work(void *number)
{
	static float memory[64 * 128];
	struct vg_view_options options = {.size = sizeof options, .owner = memory, .release = drop};

	for (int i = 0; i < ROUNDS; i++) {
		struct vg_graphics_resource *resource = NULL;
		struct vg_buffer *mapped = NULL;
		struct vg_view *view, *other, *host;
		struct vg_tensor_map *map;
		struct DLManagedTensor *tensor;

		if (vg_view_of_buffer(buffer, &matrix, f32, 0, &view) ||
		    vg_view_reinterpret(view, &matrix, NULL, &other) ||
		    vg_tensor_map_tiled(context, view, (unsigned[]){16, 32}, NULL, &map) ||
		    vg_tensor_map_replace_address(map, other) ||
		    vg_view_create((uintptr_t)memory, &matrix, f32, &options, &host) || vg_view_export(host, &tensor))
			return (void *)vg_last_error()->text;
		if (getenv("VIRGATE_SIM") &&
		    (vg_graphics_resource_of_gl_buffer(context, *(unsigned *)number, 0, &resource) ||
		     vg_graphics_resource_map(resource, stream, &mapped)))
			return (void *)vg_last_error()->text;
		vg_view_destroy(view);
		vg_view_destroy(host);
		vg_view_destroy(other);
		if (vg_view_import(tensor, &host))
			return (void *)vg_last_error()->text;
		vg_view_destroy(host);
		vg_graphics_resource_destroy(resource);
		vg_buffer_destroy(mapped);
		vg_tensor_map_destroy(map);
	}
	return NULL;
}

TEST(threads_use_one_buffer_and_owner)
{
	static unsigned names[THREADS] = {1, 2, 3, 4};
	pthread_t threads[THREADS];
	void *problem;

	begin();
	for (int i = 0; i < THREADS; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, work, &names[i]), 0);
	for (int i = 0; i < THREADS; i++) {
		CHECK_INT(pthread_join(threads[i], &problem), 0);
		if (problem)
			FAIL("a thread: %s", (const char *)problem);
	}
	CHECK_INT(atomic_load(&dropped), THREADS * ROUNDS);
	end();
}

// Two threads map and unmap one resource: each time one of them succeeds and the other one gets an error.
static void *map_and_unmap(void *resource)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct vg_buffer *mapped;
		enum vg_status status = vg_graphics_resource_map(resource, stream, &mapped);
		if (status && status != VG_STATE)
			return (void *)vg_last_error()->text;
		if (status == VG_OK)
			vg_buffer_destroy(mapped);
	}
	return NULL;
}

TEST(threads_map_one_resource)
{
	struct vg_graphics_resource *resource;
	pthread_t threads[2];
	void *problem;

	if (!getenv("VIRGATE_SIM"))
		SKIP("no OpenGL context: the simulated driver declares its own objects");
	begin();
	OK(vg_graphics_resource_of_gl_buffer(context, 1, 0, &resource));
	for (int i = 0; i < 2; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, map_and_unmap, resource), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_INT(pthread_join(threads[i], &problem), 0);
		if (problem)
			FAIL("a thread: %s", (const char *)problem);
	}
	CHECK(!vg_graphics_resource_is_mapped(resource));
	vg_graphics_resource_destroy(resource);
	end();
}
