// Tests memory resources other than pools: custom ones, graph memory, memory without streams, the default of a device.
#include "memory_test.h"

// ---- custom resources ------------------------------------------------------------------------------

// A resource of host memory that counts its allocations.
struct arena {
	int allocations, deallocations, destroyed;
	struct vg_stream *last_stream;
	enum vg_status answer; // the status that the allocate function returns
	size_t more;	       // by how many bytes the allocation is larger than requested
	int nothing;	       // if set, the allocate function succeeds without an address
	enum vg_status on_free;
};

static enum vg_status arena_allocate(void *user, size_t size, struct vg_stream *stream,
				     struct vg_allocation *ret_allocation)
{
	struct arena *arena = user;

	if (arena->answer)
		return arena->answer;
	CHECK(ret_allocation->address == 0 && ret_allocation->size == size && ret_allocation->user == NULL);
	arena->allocations++;
	void *memory = calloc(1, size + arena->more + 1);
	ret_allocation->address = arena->nothing ? 0 : (uintptr_t)memory;
	ret_allocation->size = size + arena->more;
	ret_allocation->user = memory;
	return VG_OK;
}

static enum vg_status arena_deallocate(void *user, const struct vg_allocation *allocation, struct vg_stream *stream)
{
	struct arena *arena = user;

	arena->deallocations++;
	arena->last_stream = stream;
	free(allocation->user);
	return arena->on_free;
}

static void arena_destroy(void *user)
{
	((struct arena *)user)->destroyed++;
}

static struct vg_memory_resource_operations arena_operations(void)
{
	return (struct vg_memory_resource_operations){.size = sizeof(struct vg_memory_resource_operations),
						      .name = "arena",
						      .allocate = arena_allocate,
						      .deallocate = arena_deallocate,
						      .destroy = arena_destroy,
						      .properties = {.device = -1, .host_accessible = 1}};
}

TEST(custom_resource_is_called_once_for_each_buffer)
{
	struct bench b = open_bench();
	struct vg_memory_resource_operations operations = arena_operations();
	struct arena arena = {.more = 3};
	struct vg_memory_resource *resource;
	struct vg_memory_properties p;
	struct vg_buffer *buffer, *other;
	struct vg_stream *second;

	OK(vg_stream_create(b.context, NULL, &second));
	OK(vg_memory_resource_create(&operations, &arena, &resource));
	CHECK_STR(vg_memory_resource_name(resource), "arena");
	OK(vg_buffer_create(resource, 61, NULL, &buffer));
	CHECK_INT(vg_buffer_size(buffer), 64); // rounded up
	OK(vg_buffer_properties(buffer, &p));
	CHECK(p.device == -1 && p.host_accessible && !p.device_accessible && !p.managed);
	OK(vg_buffer_close(buffer, NULL));
	CHECK(arena.deallocations == 1 && !arena.last_stream);
	vg_buffer_destroy(buffer);
	CHECK_INT(arena.deallocations, 1);
	// A buffer is freed on the stream that it was allocated on, unless another stream is given.
	OK(vg_buffer_create(resource, 61, b.stream, &buffer));
	vg_buffer_destroy(buffer);
	CHECK(arena.last_stream == b.stream);
	OK(vg_buffer_create(resource, 61, b.stream, &buffer));
	OK(vg_buffer_close(buffer, second));
	vg_buffer_destroy(buffer);
	CHECK(arena.last_stream == second);
	OK(vg_buffer_create(resource, 61, b.stream, &buffer));
	OK(vg_buffer_set_deallocation_stream(buffer, second));
	// Closes a buffer that has another reference. The resource must exist until the last reference is released. The
	// memory is freed on the stream that was passed to the close.
	other = vg_buffer_retain(buffer);
	OK(vg_buffer_close(buffer, NULL));
	vg_buffer_destroy(buffer);
	vg_memory_resource_destroy(resource);
	CHECK_INT(arena.deallocations, 3);
	CHECK_INT(arena.destroyed, 0);
	vg_stream_destroy(second);
	vg_buffer_destroy(other);
	CHECK_INT(arena.deallocations, 4);
	CHECK_INT(arena.allocations, 4);
	CHECK_INT(arena.destroyed, 1);
	close_bench(&b);
}

static enum vg_status refuse_with_error(void *user, size_t size, struct vg_stream *stream,
					struct vg_allocation *ret_allocation)
{
	struct vg_buffer *buffer;

	return vg_buffer_borrow(0, 16, NULL, &buffer);
}

TEST(custom_resource_sets_the_error)
{
	struct bench b = open_bench();
	struct vg_memory_resource_operations operations = arena_operations();
	struct arena arena = {.answer = VG_LIMIT};
	struct vg_memory_resource *resource;
	struct vg_buffer *buffer = NULL;

	OK(vg_memory_resource_create(&operations, &arena, &resource));
	// If the custom function fails without setting an error, the library sets one, even if an older error is still
	// set.
	REFUSED(vg_stream_sync(NULL), VG_INVALID, "stream is NULL");
	REFUSED(vg_buffer_create(resource, 1 << 20, NULL, &buffer), VG_LIMIT,
		"arena: could not allocate 1.0 MiB: over a limit");
	arena.answer = VG_OK;
	arena.nothing = 1;
	REFUSED(vg_buffer_create(resource, 64, NULL, &buffer), VG_INVALID,
		"arena returned 64 bytes at 0x0, and 64 were asked for");
	// The library frees the allocation without an address. The allocation that failed is not freed.
	CHECK_INT(arena.deallocations, 1);
	vg_memory_resource_destroy(resource);
	operations.allocate = refuse_with_error;
	OK(vg_memory_resource_create(&operations, &arena, &resource));
	REFUSED(vg_buffer_create(resource, 64, NULL, &buffer), VG_INVALID, "16 bytes at 0x0");
	CHECK(!buffer);
	vg_memory_resource_destroy(resource);
	operations.allocate = arena_allocate;
	arena = (struct arena){.on_free = VG_BUSY};
	OK(vg_memory_resource_create(&operations, &arena, &resource));
	OK(vg_buffer_create(resource, 64, NULL, &buffer));
	REFUSED(vg_buffer_close(buffer, NULL), VG_BUSY, "arena: could not free 64 B: in use");
	vg_buffer_destroy(buffer);
	CHECK_INT(arena.deallocations, 1);
	vg_memory_resource_destroy(resource);
	close_bench(&b);
}

TEST(custom_resource_needs_its_functions)
{
	struct vg_memory_resource_operations operations = arena_operations();
	struct vg_memory_resource *resource = NULL;
	struct arena arena = {0};
	struct vg_buffer *buffer = NULL;

	operations.name = NULL;
	REFUSED(vg_memory_resource_create(&operations, NULL, &resource), VG_INVALID, "the name is missing");
	operations = arena_operations();
	operations.allocate = NULL;
	REFUSED(vg_memory_resource_create(&operations, NULL, &resource), VG_INVALID, "allocate is missing");
	operations = arena_operations();
	operations.deallocate = NULL;
	REFUSED(vg_memory_resource_create(&operations, NULL, &resource), VG_INVALID, "deallocate is missing");
	REFUSED(vg_memory_resource_create(NULL, NULL, &resource), VG_INVALID, "operations is NULL");
	operations.size = 0;
	REFUSED(vg_memory_resource_create(&operations, NULL, &resource), VG_INVALID, "size is 0");
	CHECK(!resource);
	operations = arena_operations();
	operations.needs_stream = 1;
	OK(vg_memory_resource_create(&operations, &arena, &resource));
	REFUSED(vg_buffer_create(resource, 64, NULL, &buffer), VG_INVALID,
		"stream is NULL: a arena allocates and frees");
	CHECK_INT(arena.allocations, 0);
	OK(vg_memory_resource_close(resource));
	CHECK_INT(arena.destroyed, 1);
	REFUSED(vg_buffer_create(resource, 64, NULL, &buffer), VG_CLOSED, "has been closed");
	vg_memory_resource_destroy(resource);
	CHECK_INT(arena.destroyed, 1);
}

// ---- memory without streams ------------------------------------------------------------------------------

static void *release_soon(void *hold)
{
	usleep(50000);
	atomic_store((atomic_int *)hold, 0);
	return NULL;
}

TEST(legacy_pinned_memory)
{
	struct bench b = open_bench();
	struct vg_memory_resource *resource;
	struct vg_memory_properties p;
	struct vg_buffer *buffer, *device;

	REFUSED(vg_legacy_pinned_resource_create(NULL, &resource), VG_INVALID, "context is NULL");
	OK(vg_legacy_pinned_resource_create(b.context, &resource));
	OK(vg_memory_resource_properties(resource, &p));
	CHECK(p.device == -1 && p.host_accessible && p.device_accessible && !p.managed);
	OK(vg_buffer_create(resource, 4096, NULL, &buffer));
	memset((void *)(uintptr_t)vg_buffer_address(buffer), 5, 4096);
	OK(vg_buffer_create(b.pool, 4096, b.stream, &device));
	OK(vg_buffer_copy(device, buffer, b.stream));
	OK(vg_buffer_fill_byte(buffer, 7, b.stream));
	OK(vg_stream_sync(b.stream));
	CHECK_INT(*(unsigned char *)(uintptr_t)vg_buffer_address(buffer), 7);
	// If a stream is given, closing waits for the work of that stream.
	atomic_int hold = 1;
	pthread_t thread;
	int done;
	hold_up(b.stream, &hold);
	CHECK_INT(pthread_create(&thread, NULL, release_soon, &hold), 0);
	OK(vg_buffer_close(buffer, b.stream));
	OK(vg_stream_query(b.stream, &done));
	CHECK_INT(done, 1);
	CHECK_INT(pthread_join(thread, NULL), 0);
	vg_buffer_destroy(buffer);
	vg_buffer_destroy(device);
	OK(vg_buffer_create(resource, 0, NULL, &buffer));
	CHECK(vg_buffer_address(buffer) == 0 && vg_buffer_size(buffer) == 0);
	vg_buffer_destroy(buffer);
	vg_memory_resource_destroy(resource);
	close_bench(&b);
}

TEST(synchronous_memory)
{
	struct bench b = open_bench();
	struct vg_memory_resource *resource;
	struct vg_memory_properties p;
	struct vg_buffer *buffer = NULL;
	size_t before = free_on(b.device);

	OK(vg_synchronous_resource_create(b.context, &resource));
	OK(vg_memory_resource_properties(resource, &p));
	CHECK(p.device == 0 && !p.host_accessible && p.device_accessible && !p.managed);
	OK(vg_buffer_create(resource, 64 << 20, NULL, &buffer));
	CHECK_INT(before - free_on(b.device), 64 << 20);
	vg_buffer_destroy(buffer);
	CHECK_INT(free_on(b.device), before);
	OK(vg_buffer_create(resource, 0, NULL, &buffer));
	CHECK(vg_buffer_address(buffer) == 0);
	vg_buffer_destroy(buffer);
	buffer = NULL;
	REFUSED(vg_buffer_create(resource, (size_t)1 << 50, NULL, &buffer), VG_DRIVER, "asked for 1.0 PiB");
	CHECK(!buffer);
	vg_memory_resource_destroy(resource);
	close_bench(&b);
}

// Calls for memory without streams cannot be captured: they are refused. Buffers that are destroyed meanwhile are freed
// later.
TEST(memory_without_streams_during_captures)
{
	struct bench b = open_bench();
	struct vg_memory_resource *pinned, *device;
	struct vg_buffer *one, *two, *three, *four, *new_one = NULL;
	size_t before = free_on(b.device);

	OK(vg_legacy_pinned_resource_create(b.context, &pinned));
	OK(vg_synchronous_resource_create(b.context, &device));
	OK(vg_buffer_create(pinned, 64, b.stream, &one));
	OK(vg_buffer_create(device, 4 << 20, b.stream, &two));
	OK(vg_buffer_create(pinned, 64, NULL, &three));
	OK(vg_buffer_create(device, 4 << 20, NULL, &four));
	struct vg_graph_builder *builder = begin_capture(b.stream);
	REFUSED(vg_buffer_create(pinned, 64, b.stream, &new_one), VG_STATE, "a legacy pinned resource cannot perform");
	REFUSED(vg_buffer_create(device, 64, b.stream, &new_one), VG_STATE, "a synchronous resource cannot perform");
	REFUSED(vg_buffer_close(two, NULL), VG_STATE, "on a capturing stream");
	vg_buffer_destroy(one);
	vg_buffer_destroy(two);
	vg_buffer_destroy(three); // the buffer has no stream: it is freed at once
	vg_buffer_destroy(four);
	OK(vg_graph_builder_end(builder)); // the capture is still valid
	OK(vg_buffer_create(b.pool, 0, b.stream, &new_one));
	vg_buffer_destroy(new_one);
	CHECK_INT(free_on(b.device), before);
	vg_graph_builder_destroy(builder);
	vg_memory_resource_destroy(pinned);
	vg_memory_resource_destroy(device);
	close_bench(&b);
}

// ---- memory of graphs ----------------------------------------------------------------------------------

TEST(each_device_has_one_graph_memory_resource)
{
	struct bench b = open_bench();
	struct vg_memory_resource *resource, *again;
	struct vg_buffer *buffer = NULL;

	REFUSED(vg_graph_memory_resource(NULL, &resource), VG_INVALID, "device is NULL");
	OK(vg_graph_memory_resource(b.device, &resource));
	OK(vg_graph_memory_resource(b.device, &again));
	CHECK(resource == again);
	OK(vg_memory_resource_close(again));
	vg_memory_resource_destroy(again);
	REFUSED(vg_buffer_create(resource, 64, b.stream, &buffer), VG_STATE,
		"cannot perform memory operations on a non-capturing stream");
	CHECK(!buffer);
	vg_memory_resource_destroy(resource);
	close_bench(&b);
}

TEST(graph_memory_becomes_nodes)
{
	struct bench b = open_bench();
	struct vg_graph_memory_attributes a;
	struct vg_memory_resource *resource;
	struct vg_buffer *buffer, *kept, *result;
	struct vg_graph *graph;
	unsigned word = 0;

	OK(vg_graph_memory_resource(b.device, &resource));
	OK(vg_buffer_create(b.pool, 4, b.stream, &result));
	struct vg_graph_builder *builder = begin_capture(b.stream);
	OK(vg_buffer_create(resource, 4, b.stream, &buffer));
	OK(vg_buffer_fill(buffer, &(unsigned){4711}, 4, b.stream));
	OK(vg_buffer_copy(result, buffer, b.stream));
	OK(vg_buffer_close(buffer, b.stream));
	OK(vg_buffer_create(resource, 4, b.stream, &kept));
	OK(vg_graph_builder_end(builder));
	REFUSED(vg_buffer_close(kept, b.stream), VG_STATE, "on a non-capturing stream");
	vg_address kept_address = vg_buffer_address(kept);
	vg_buffer_destroy(kept); // does not free the memory, which belongs to the graph
	vg_buffer_destroy(buffer);
	OK(vg_graph_builder_complete(builder, NULL, &graph));
	OK(vg_graph_launch(graph, b.stream));
	OK(vg_buffer_read(result, 0, &word, 4, b.stream));
	OK(vg_stream_sync(b.stream));
	CHECK_INT(word, 4711);
	OK(vg_graph_memory_attributes(b.device, &a));
	CHECK(a.reserved_mem_current > 0 && a.reserved_mem_high >= a.reserved_mem_current && a.used_mem_high > 0);
	// Memory that the graph allocated and does not free is freed like memory of a pool.
	OK(vg_buffer_borrow(kept_address, 4,
			    &(struct vg_buffer_borrow_options){.size = sizeof(struct vg_buffer_borrow_options),
							       .resource = b.pool,
							       .stream = b.stream},
			    &kept));
	OK(vg_buffer_fill_byte(kept, 1, b.stream));
	vg_buffer_destroy(kept);
	vg_graph_destroy(graph);
	vg_graph_builder_destroy(builder);
	OK(vg_device_sync(b.device));
	OK(vg_graph_memory_trim(b.device));
	OK(vg_graph_memory_attributes(b.device, &a));
	CHECK_INT(a.used_mem_current, 0);
	CHECK_INT(a.reserved_mem_current, 0);
	CHECK(a.reserved_mem_high > 0);
	REFUSED(vg_graph_memory_set_reserved_mem_high(b.device, 1), VG_INVALID,
		"attribute reserved_mem_high may only be set to zero (got 1)");
	REFUSED(vg_graph_memory_set_used_mem_high(b.device, 7), VG_INVALID, "may only be set to zero (got 7)");
	OK(vg_graph_memory_set_reserved_mem_high(b.device, 0));
	OK(vg_graph_memory_set_used_mem_high(b.device, 0));
	OK(vg_graph_memory_attributes(b.device, &a));
	CHECK(a.reserved_mem_high == 0 && a.used_mem_high == 0);
	REFUSED(vg_graph_memory_trim(NULL), VG_INVALID, "device is NULL");
	REFUSED(vg_graph_memory_attributes(b.device, NULL), VG_INVALID, "ret_attributes is NULL");
	REFUSED(vg_graph_memory_set_used_mem_high(NULL, 0), VG_INVALID, "device is NULL");
	vg_buffer_destroy(result);
	vg_memory_resource_destroy(resource);
	close_bench(&b);
}

// ---- the default resource of a device ----------------------------------------------------------------

TEST(device_has_a_default_memory_resource)
{
	struct bench b = open_bench();
	struct vg_memory_resource *resource, *again;
	struct vg_buffer *buffer;

	OK(vg_device_memory_resource(b.device, &resource));
	OK(vg_device_memory_resource(b.device, &again));
	CHECK(resource == again);
	CHECK_STR(vg_memory_resource_name(resource), "device pool");
	CHECK(!vg_memory_pool_is_owned(resource));
	OK(vg_device_allocate(b.device, 64, b.stream, &buffer));
	CHECK(vg_buffer_memory_resource(buffer) == resource);
	vg_buffer_destroy(buffer);
	vg_memory_resource_destroy(again);
	OK(vg_device_set_memory_resource(b.device, b.pool));
	OK(vg_device_allocate(b.device, 64, b.stream, &buffer));
	CHECK(vg_buffer_memory_resource(buffer) == b.pool);
	vg_buffer_destroy(buffer);
	// If the program closes the default resource, the device chooses another one.
	OK(vg_memory_resource_close(b.pool));
	REFUSED(vg_device_set_memory_resource(b.device, b.pool), VG_CLOSED, "the device pool has been closed");
	OK(vg_device_allocate(b.device, 64, b.stream, &buffer));
	CHECK(!vg_memory_pool_is_owned(vg_buffer_memory_resource(buffer)));
	vg_buffer_destroy(buffer);
	OK(vg_device_set_memory_resource(b.device, NULL));
	vg_memory_resource_destroy(resource);
	REFUSED(vg_device_memory_resource(NULL, &resource), VG_INVALID, "device is NULL");
	REFUSED(vg_device_set_memory_resource(NULL, NULL), VG_INVALID, "device is NULL");
	REFUSED(vg_device_allocate(NULL, 64, b.stream, &buffer), VG_INVALID, "device is NULL");
	close_bench(&b);
}
