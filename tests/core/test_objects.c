// Tests common properties of all objects: close, destroy, options.
#include "core_test.h"

#include <stddef.h>

static struct vg_device *device;
static struct vg_context *context;
static struct vg_stream *stream;
static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry one()\n{\n\tret;\n}\n";

static void begin(void)
{
	if (context)
		return;
	context = first_context();
	device = vg_context_device(context);
	OK(vg_stream_create(context, NULL, &stream));
}

// Checks that an object can be closed twice, that later calls return CLOSED, and that the handle is then NULL. The
// object can still be destroyed.
#define CLOSES(type, object, close, gone, use)     \
	do {                                       \
		OK(close);                         \
		OK(close);                         \
		CHECK(gone);                       \
		REFUSED(use, VG_CLOSED, "closed"); \
		type##_destroy(object);            \
		type##_destroy(NULL);              \
	} while (0)

TEST(streams_events_and_contexts_close)
{
	struct vg_stream *own, *none;
	struct vg_context *primary;
	struct vg_event *event;
	int done;

	begin();
	OK(vg_stream_create(context, NULL, &own));
	CLOSES(vg_stream, own, vg_stream_close(own), !vg_stream_handle(own), vg_stream_sync(own));
	OK(vg_event_create(context, NULL, &event));
	CLOSES(vg_event, event, vg_event_close(event), !vg_event_handle(event), vg_event_query(event, &done));
	OK(vg_context_primary(device, &primary));
	CLOSES(vg_context, primary, vg_context_close(primary), !vg_context_handle(primary),
	       vg_stream_create(primary, NULL, &none));
}

TEST(memory_closes)
{
	struct vg_virtual_memory_options options = {.size = sizeof options, .granularity = VG_GRANULARITY_MINIMUM};
	struct vg_memory_properties properties;
	struct vg_physical_memory *physical;
	struct vg_address_range *range;
	struct vg_memory_resource *pool;
	struct vg_mapping *mapping;
	struct vg_buffer *buffer, *none;

	begin();
	OK(vg_device_pool_create(device, NULL, &pool));
	OK(vg_buffer_create(pool, 4096, stream, &buffer));
	CLOSES(vg_buffer, buffer, vg_buffer_close(buffer, stream),
	       !vg_buffer_address(buffer) && !vg_buffer_size(buffer), vg_buffer_properties(buffer, &properties));
	CLOSES(vg_memory_resource, pool, vg_memory_resource_close(pool), !vg_memory_pool_handle(pool),
	       vg_buffer_create(pool, 4096, stream, &none));
	OK(vg_physical_memory_create(device, 1 << 21, &options, &physical));
	OK(vg_address_range_create(vg_physical_memory_size(physical), 0, 0, &range));
	OK(vg_mapping_create(range, 0, physical, &mapping));
	CLOSES(vg_mapping, mapping, vg_mapping_close(mapping), !vg_mapping_address(mapping),
	       vg_mapping_set_access(mapping, &device, 1, VG_ACCESS_READ));
	OK(vg_mapping_create(range, 0, physical, &mapping));
	int descriptor;
	CLOSES(vg_physical_memory, physical, vg_physical_memory_close(physical), !vg_physical_memory_size(physical),
	       vg_physical_memory_export(physical, &descriptor));
	vg_mapping_destroy(mapping);
	OK(vg_physical_memory_create(device, 1 << 21, &options, &physical));
	CLOSES(vg_address_range, range, vg_address_range_close(range), !vg_address_range_address(range),
	       vg_mapping_create(range, 0, physical, &mapping));
	vg_physical_memory_destroy(physical);
}

TEST(code_closes)
{
	struct vg_launch_config config = {.size = sizeof config, .grid = {1}, .block = {1}};
	struct vg_compile_cache_options place = {.size = sizeof place, .path = "/tmp"};
	struct vg_prepared_launch *launch;
	struct vg_compile_cache *cache;
	struct vg_object_code *code, *none;
	struct vg_program *program;
	struct vg_linker *linker;
	struct vg_kernel *kernel, *another;
	char directory[] = "/tmp/virgate-test-XXXXXX";

	begin();
	OK(vg_object_code_create(VG_CODE_PTX, ptx, sizeof ptx - 1, NULL, &code));
	OK(vg_object_code_kernel(code, "one", &kernel));
	OK(vg_launch_prepare(context, &config, kernel, NULL, 0, &launch));
	OK(vg_launch_run(launch, stream));
	CLOSES(vg_prepared_launch, launch, vg_prepared_launch_close(launch), 1, vg_launch_run(launch, stream));
	OK(vg_stream_sync(stream));
	CLOSES(vg_kernel, kernel, vg_kernel_close(kernel), !vg_kernel_handle(kernel),
	       vg_launch(stream, &config, kernel, NULL, 0));
	struct vg_linker_options driver = {.size = sizeof driver, .backend = VG_BACKEND_DRIVER};
	OK(vg_linker_create(&code, 1, &driver, &linker));
	CLOSES(vg_linker, linker, vg_linker_close(linker), !vg_linker_handle(linker),
	       vg_linker_link(linker, VG_CODE_CUBIN, &none));
	CLOSES(vg_object_code, code, vg_object_code_close(code), 1, vg_object_code_kernel(code, "one", &another));
	OK(vg_program_create(VG_SOURCE_PTX, ptx, sizeof ptx - 1, NULL, &program));
	CLOSES(vg_program, program, vg_program_close(program), !vg_program_handle(program),
	       vg_program_compile(program, VG_CODE_CUBIN, NULL, &none));
	CHECK(mkdtemp(directory) != NULL);
	place.path = directory;
	OK(vg_compile_cache_open(&place, &cache));
	CLOSES(vg_compile_cache, cache, vg_compile_cache_close(cache), 1, vg_compile_cache_clear(cache));
	CHECK_INT(rmdir(directory), 0);
}

TEST(graphs_close)
{
	struct vg_graph_definition *definition;
	struct vg_graph_builder *builder;
	struct vg_graph *graph;

	begin();
	OK(vg_graph_definition_create(context, &definition));
	OK(vg_graph_definition_instantiate(definition, NULL, &graph));
	CLOSES(vg_graph, graph, vg_graph_close(graph), !vg_graph_handle(graph), vg_graph_launch(graph, stream));
	CLOSES(vg_graph_definition, definition, vg_graph_definition_close(definition),
	       !vg_graph_definition_handle(definition), vg_graph_add_empty(definition, NULL, 0, NULL));
	OK(vg_graph_builder_create(context, &builder));
	CLOSES(vg_graph_builder, builder, vg_graph_builder_close(builder), !vg_graph_builder_stream(builder),
	       vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_RELAXED));
}

TEST(options_of_older_and_newer_headers)
{
	struct {
		struct vg_stream_options known;
		int younger;
	} longer = {{.size = sizeof longer}, 0};
	// The fields of an older header: the library does not read beyond them.
	struct vg_stream_options shorter = {
		.size = offsetof(struct vg_stream_options, priority), .blocking = 1, .priority = 12345};
	struct vg_stream *own = NULL;

	begin();
	OK(vg_stream_create(context, &longer.known, &own));
	vg_stream_destroy(own);
	own = NULL;
	longer.younger = 7;
	REFUSED(vg_stream_create(context, &longer.known, &own), VG_UNSUPPORTED, "a field at byte");
	CHECK(own == NULL);
	OK(vg_stream_create(context, &shorter, &own));
	CHECK_INT(vg_stream_is_blocking(own), 1);
	vg_stream_destroy(own);
	REFUSED(vg_stream_create(context, &(struct vg_stream_options){.blocking = 1}, &own), VG_INVALID,
		"size is 0: set it to sizeof the structure");
}

// Makes a chain of objects in which each refers to the one before, and destroys it from its root. Each object is freed
// with its last user.
TEST(objects_keep_their_dependencies)
{
	struct vg_context *own;
	struct vg_stream *queue;
	struct vg_memory_resource *pool;
	struct vg_buffer *buffer;
	struct vg_layout layout;
	struct vg_view *view;
	unsigned char byte = 0;

	begin();
	OK(vg_context_primary(device, &own));
	OK(vg_stream_create(own, NULL, &queue));
	OK(vg_device_pool_create(device, NULL, &pool));
	OK(vg_buffer_create(pool, 256, queue, &buffer));
	OK(vg_layout_dense(1, (int64_t[]){256}, 1, VG_ORDER_C, &layout));
	OK(vg_view_of_buffer(buffer, &layout, (struct vg_data_type){VG_TYPE_UINT, 8, 1}, 0, &view));
	vg_context_destroy(own);
	vg_stream_destroy(queue);
	vg_memory_resource_destroy(pool);
	vg_buffer_destroy(buffer);
	OK(vg_buffer_fill_byte(vg_view_buffer(view), 0x5a, stream));
	OK(vg_buffer_read(vg_view_buffer(view), 255, &byte, 1, stream));
	OK(vg_stream_sync(stream));
	CHECK_INT(byte, 0x5a);
	vg_view_destroy(view);
}
