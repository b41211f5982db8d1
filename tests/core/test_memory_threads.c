// Tests several threads that use the same memory objects, mainly for the thread sanitizer.
#include "memory_test.h"

enum { THREADS = 4, ROUNDS = 100 };

struct shared {
	struct bench b;
	struct vg_memory_resource *resource, *named;
	struct vg_buffer *buffer;
	unsigned char uuid[16];
};

static void run_threads(void *(*body)(void *), struct shared *shared)
{
	pthread_t threads[THREADS];
	void *problem;

	for (int i = 0; i < THREADS; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, body, shared), 0);
	for (int i = 0; i < THREADS; i++) {
		CHECK_INT(pthread_join(threads[i], &problem), 0);
		if (problem)
			FAIL("a thread: %s", (const char *)problem);
	}
}

// Returns a text about a failed call of this thread. The thread that joins this one ends the test with that text.
static void *describe_failure(const char *call)
{
	const struct vg_error *error = vg_last_error();
	char *text;

	return asprintf(&text, "%s: %s: %s", call, vg_status_text(error->status), error->text) < 0 ? "no memory" : text;
}

#define DO(call)                                        \
	do {                                            \
		if (call)                               \
			return describe_failure(#call); \
	} while (0)

static void *use_default_resource(void *data)
{
	struct shared *s = data;
	struct vg_buffer *buffer;

	for (int i = 0; i < ROUNDS; i++) {
		DO(vg_device_allocate(s->b.device, 4096, s->b.stream, &buffer));
		DO(vg_device_set_memory_resource(s->b.device, i % 3 ? NULL : s->b.pool));
		DO(vg_buffer_fill_byte(buffer, i, s->b.stream));
		vg_buffer_destroy(buffer);
	}
	return NULL;
}

TEST(threads_use_the_default_memory_resource)
{
	struct shared s = {.b = open_bench()};

	run_threads(use_default_resource, &s);
	OK(vg_device_set_memory_resource(s.b.device, NULL));
	close_bench(&s.b);
}

static void *use_adaptors(void *data)
{
	struct shared *s = data;
	struct vg_buffer *buffer;

	for (int i = 0; i < ROUNDS; i++) {
		DO(vg_buffer_create(s->resource, 100, s->b.stream, &buffer));
		vg_buffer_destroy(buffer);
		if (vg_buffer_create(s->resource, 1 << 20, s->b.stream, &buffer) != VG_LIMIT)
			return "no limit";
	}
	return NULL;
}

TEST(threads_use_one_adaptor)
{
	struct shared s = {.b = open_bench()};
	struct vg_memory_statistics statistics;
	struct vg_memory_resource *limited;
	size_t used;

	OK(vg_limiting_resource_create(s.b.pool, 1000, &limited));
	OK(vg_statistics_resource_create(limited, &s.resource));
	run_threads(use_adaptors, &s);
	OK(vg_statistics_resource_read(s.resource, &statistics));
	CHECK_INT(statistics.bytes, 0);
	CHECK_INT(statistics.total_buffers, THREADS * ROUNDS);
	CHECK_INT(statistics.failures, THREADS * ROUNDS);
	OK(vg_limiting_resource_used(limited, &used));
	CHECK_INT(used, 0);
	vg_memory_resource_destroy(s.resource);
	vg_memory_resource_destroy(limited);
	close_bench(&s.b);
}

static void *grow(void *data)
{
	struct shared *s = data;
	struct vg_buffer *larger, *largest;

	for (int i = 0; i < ROUNDS / 4; i++) {
		struct vg_stream *stream;
		DO(vg_stream_create(s->b.context, NULL, &stream));
		DO(vg_buffer_set_deallocation_stream(s->buffer, stream));
		vg_stream_destroy(stream); // the buffers keep the stream
		DO(vg_buffer_grow(s->buffer, 4 << 20, NULL, &larger));
		DO(vg_buffer_grow(larger, 6 << 20, NULL, &largest));
		vg_buffer_destroy(larger);
		DO(vg_buffer_fill_byte(largest, i, s->b.stream));
		DO(vg_buffer_close(largest, s->b.stream)); // close the buffer on the stream where it was used last
		vg_buffer_destroy(largest);
	}
	return NULL;
}

TEST(threads_grow_one_buffer)
{
	struct shared s = {.b = open_bench()};
	size_t before = 0;

	OK(vg_virtual_memory_resource_create(s.b.device, NULL, &s.resource));
	// The driver allocates page tables in the first round and keeps them. So only the second round must leave the
	// free memory unchanged.
	for (int i = 0; i < 2; i++) {
		before = free_on(s.b.device);
		OK(vg_buffer_create(s.resource, 2 << 20, s.b.stream, &s.buffer));
		run_threads(grow, &s);
		vg_buffer_destroy(s.buffer);
	}
	CHECK_INT(free_on(s.b.device), before);
	vg_memory_resource_destroy(s.resource);
	close_bench(&s.b);
}

static void *look_up(void *data)
{
	struct shared *s = data;
	struct vg_memory_resource *pool, *found;
	const struct vg_device_pool_options options = {.size = sizeof options, .shareable = 1};
	unsigned char uuid[16];

	for (int i = 0; i < ROUNDS; i++) {
		DO(vg_memory_pool_find(s->uuid, &found));
		if (found != s->named)
			return "another pool";
		vg_memory_resource_destroy(found);
		DO(vg_device_pool_create(s->b.device, &options, &pool));
		DO(vg_memory_pool_uuid(pool, uuid));
		DO(vg_memory_pool_register(pool, uuid, &found));
		vg_memory_resource_destroy(i % 2 ? pool : found);
		vg_memory_resource_destroy(i % 2 ? found : pool);
		if (vg_memory_pool_find(uuid, &found) != VG_NOT_FOUND)
			return "still registered";
	}
	return NULL;
}

TEST(threads_register_pools)
{
	struct shared s = {.b = open_bench()};
	struct vg_memory_resource *named;

	OK(vg_device_pool_create(
		s.b.device,
		&(struct vg_device_pool_options){.size = sizeof(struct vg_device_pool_options), .shareable = 1},
		&s.named));
	OK(vg_memory_pool_uuid(s.named, s.uuid));
	OK(vg_memory_pool_register(s.named, s.uuid, &named));
	vg_memory_resource_destroy(named);
	run_threads(look_up, &s);
	vg_memory_resource_destroy(s.named);
	close_bench(&s.b);
}

static void *drop_while_capturing(void *data)
{
	struct shared *s = data;
	struct vg_graph_builder *builder;
	struct vg_stream *stream;
	struct vg_buffer *buffer;

	DO(vg_stream_create(s->b.context, NULL, &stream));
	for (int i = 0; i < ROUNDS / 4; i++) {
		DO(vg_buffer_create(s->b.pool, 4096, stream, &buffer));
		DO(vg_graph_builder_create_on(stream, &builder));
		DO(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_THREAD_LOCAL));
		vg_buffer_destroy(buffer);
		DO(vg_graph_builder_end(builder));
		vg_graph_builder_destroy(builder);
	}
	vg_stream_destroy(stream);
	return NULL;
}

TEST(threads_destroy_buffers_during_captures)
{
	struct shared s = {.b = open_bench()};
	struct vg_memory_pool_attributes attributes;
	struct vg_buffer *last;

	run_threads(drop_while_capturing, &s);
	OK(vg_buffer_create(s.b.pool, 64, s.b.stream, &last));
	vg_buffer_destroy(last);
	OK(vg_device_sync(s.b.device));
	OK(vg_memory_pool_attributes(s.b.pool, &attributes));
	CHECK_INT(attributes.used_mem_current, 0);
	close_bench(&s.b);
}
