// Tests memory adaptors: limit, statistics, log, retries.
#include "memory_test.h"

TEST(limit_is_enforced)
{
	struct bench b = open_bench();
	struct vg_memory_resource *limited, *virtual, *limited_virtual;
	struct vg_buffer *first, *second = NULL;
	size_t used;

	OK(vg_limiting_resource_create(b.pool, 1000, &limited));
	OK(vg_buffer_create(limited, 600, b.stream, &first));
	REFUSED(vg_buffer_create(limited, 401, b.stream, &second), VG_LIMIT,
		"asked for 401 B, 600 B of this resource's 1000 B are used");
	CHECK(!second);
	OK(vg_buffer_create(limited, 400, b.stream, &second));
	OK(vg_limiting_resource_used(limited, &used));
	CHECK_INT(used, 1000);
	vg_buffer_destroy(first);
	OK(vg_limiting_resource_used(limited, &used));
	CHECK_INT(used, 400);
	REFUSED(vg_buffer_create(limited, SIZE_MAX, b.stream, &first), VG_LIMIT, "400 B of this");
	REFUSED(vg_limiting_resource_used(b.pool, &used), VG_INVALID, "a device pool has no limit");
	vg_buffer_destroy(second);
	// The limiting resource counts the rounded sizes of allocations. It does not count allocations that failed.
	OK(vg_virtual_memory_resource_create(b.device, NULL, &virtual));
	OK(vg_limiting_resource_create(virtual, 3 << 20, &limited_virtual));
	OK(vg_buffer_create(limited_virtual, 1 << 20, NULL, &first));
	OK(vg_limiting_resource_used(limited_virtual, &used));
	CHECK_INT(used, 2 << 20);
	REFUSED(vg_buffer_create(limited_virtual, 1 << 20, NULL, &second), VG_LIMIT, "asked for 2.0 MiB");
	OK(vg_limiting_resource_used(limited_virtual, &used));
	CHECK_INT(used, 2 << 20);
	REFUSED(vg_buffer_grow(first, 4 << 20, NULL, &second), VG_INVALID,
		"a buffer of a limiting resource cannot grow");
	vg_buffer_destroy(first);
	OK(vg_limiting_resource_used(limited_virtual, &used));
	CHECK_INT(used, 0);
	vg_memory_resource_destroy(limited_virtual);
	vg_memory_resource_destroy(virtual);
	vg_memory_resource_destroy(limited);
	close_bench(&b);
}

TEST(adaptors_keep_their_upstream)
{
	struct bench b = open_bench();
	struct vg_memory_resource *limited, *counted;
	struct vg_memory_properties p;
	struct vg_buffer *buffer;

	OK(vg_limiting_resource_create(b.pool, 1000, &limited));
	OK(vg_statistics_resource_create(limited, &counted));
	vg_memory_resource_destroy(limited);
	OK(vg_memory_resource_properties(counted, &p));
	CHECK(p.device == 0 && p.device_accessible && !p.host_accessible);
	OK(vg_buffer_create(counted, 64, b.stream, &buffer));
	CHECK(vg_buffer_memory_resource(buffer) == counted);
	REFUSED(vg_buffer_create(counted, 64, NULL, &buffer), VG_INVALID, "stream is NULL: a statistics resource");
	struct vg_graph_builder *builder = begin_capture(b.stream);
	struct vg_buffer *none = NULL;
	REFUSED(vg_buffer_create(counted, 64, b.stream, &none), VG_STATE, "a device pool cannot");
	REFUSED(vg_buffer_close(buffer, NULL), VG_STATE, "a device pool cannot");
	OK(vg_graph_builder_end(builder));
	vg_graph_builder_destroy(builder);
	vg_memory_resource_destroy(counted);
	OK(vg_buffer_fill_byte(buffer, 1, b.stream));
	vg_buffer_destroy(buffer);
	close_bench(&b);
}

TEST(statistics)
{
	struct bench b = open_bench();
	struct vg_memory_statistics s;
	struct vg_memory_resource *counted;
	struct vg_buffer *first, *second;

	OK(vg_statistics_resource_create(b.pool, &counted));
	OK(vg_buffer_create(counted, 100, b.stream, &first));
	OK(vg_buffer_create(counted, 50, b.stream, &second));
	vg_buffer_destroy(first);
	CHECK_INT(vg_buffer_create(counted, (size_t)1 << 50, b.stream, &first), VG_DRIVER);
	OK(vg_buffer_create(counted, 10, b.stream, &first));
	OK(vg_statistics_resource_read(counted, &s));
	CHECK_INT(s.bytes, 60);
	CHECK_INT(s.peak_bytes, 150);
	CHECK_INT(s.total_bytes, 160);
	CHECK_INT(s.buffers, 2);
	CHECK_INT(s.peak_buffers, 2);
	CHECK_INT(s.total_buffers, 3);
	CHECK_INT(s.failures, 1);
	REFUSED(vg_statistics_resource_read(b.pool, &s), VG_INVALID, "a device pool keeps no statistics");
	vg_buffer_destroy(first);
	vg_buffer_destroy(second);
	vg_memory_resource_destroy(counted);
	close_bench(&b);
}

// ---- log -------------------------------------------------------------------------------------------

static struct vg_memory_event events[8];
static int event_count;

static void note(void *user, const struct vg_memory_event *event)
{
	CHECK(user == events);
	vg_stream_sync(NULL); // sets an error, which must not become the last error of the caller
	events[event_count++] = *event;
}

TEST(log_of_events)
{
	struct bench b = open_bench();
	struct vg_memory_resource *logged;
	struct vg_buffer *buffer, *none = NULL;

	event_count = 0;
	OK(vg_logging_resource_create(b.pool, note, events, &logged));
	OK(vg_buffer_create(logged, 100, b.stream, &buffer));
	vg_address address = vg_buffer_address(buffer);
	REFUSED(vg_buffer_create(logged, (size_t)1 << 50, b.stream, &none), VG_DRIVER, "asked for 1.0 PiB");
	vg_buffer_destroy(buffer);
	CHECK_INT(event_count, 3);
	CHECK(!events[0].freed && events[0].address == address && events[0].size == 100 &&
	      events[0].stream == b.stream && events[0].status == VG_OK);
	CHECK(!events[1].freed && events[1].address == 0 && events[1].size == (size_t)1 << 50 &&
	      events[1].status == VG_DRIVER);
	CHECK(events[2].freed && events[2].address == address && events[2].size == 100 && events[2].status == VG_OK);
	vg_memory_resource_destroy(logged);
	close_bench(&b);
}

static char lines[1024];

static void keep_line(void *user, enum vg_log_level level, const char *text)
{
	strncat(lines, text, sizeof lines - strlen(lines) - 1);
	strncat(lines, "\n", sizeof lines - strlen(lines) - 1);
}

TEST(log_as_text)
{
	struct bench b = open_bench();
	struct vg_memory_resource *logged;
	struct vg_buffer *buffer;

	lines[0] = 0;
	OK(vg_logging_resource_create(b.pool, NULL, NULL, &logged));
	vg_log_set(keep_line, NULL);
	OK(vg_buffer_create(logged, 1 << 20, b.stream, &buffer));
	vg_buffer_destroy(buffer);
	vg_log_set(NULL, NULL);
	CHECK_CONTAINS(lines, "device pool: allocated 1.0 MiB at 0x");
	CHECK_CONTAINS(lines, "device pool: freed 1.0 MiB at 0x");
	vg_memory_resource_destroy(logged);
	close_bench(&b);
}

// ---- retries -----------------------------------------------------------------------------------------

struct reserve {
	struct vg_buffer *spare; // the callback frees this buffer when memory runs out
	int asked;
	size_t size;
};

static int release_spare(void *user, size_t size)
{
	struct reserve *reserve = user;
	struct vg_buffer *spare = reserve->spare;

	reserve->asked++;
	reserve->size = size;
	vg_stream_sync(NULL); // sets an error, which must not become the last error of the caller
	reserve->spare = NULL;
	vg_buffer_destroy(spare);
	return spare != NULL;
}

TEST(retry_when_out_of_memory)
{
	struct bench b = open_bench();
	struct reserve reserve = {0};
	struct vg_memory_resource *limited, *retrying;
	struct vg_buffer *buffer = NULL;

	OK(vg_limiting_resource_create(b.pool, 1000, &limited));
	OK(vg_retrying_resource_create(limited, release_spare, &reserve, &retrying));
	OK(vg_buffer_create(limited, 900, b.stream, &reserve.spare));
	OK(vg_buffer_create(retrying, 500, b.stream, &buffer));
	CHECK(reserve.asked == 1 && reserve.size == 500 && !reserve.spare);
	vg_buffer_destroy(buffer);
	buffer = NULL;
	REFUSED(vg_buffer_create(retrying, 2000, b.stream, &buffer), VG_LIMIT, "asked for 2.0 KiB");
	CHECK_INT(reserve.asked, 2);
	vg_memory_resource_destroy(retrying);
	// The adaptor also retries when the device runs out of memory. It returns other failures at once.
	OK(vg_retrying_resource_create(b.pool, release_spare, &reserve, &retrying));
	REFUSED(vg_buffer_create(retrying, (size_t)1 << 50, b.stream, &buffer), VG_DRIVER, "CUDA_ERROR_OUT_OF_MEMORY");
	CHECK_INT(reserve.asked, 3);
	REFUSED(vg_buffer_create(retrying, 64, NULL, &buffer), VG_INVALID, "stream is NULL");
	CHECK_INT(reserve.asked, 3);
	CHECK(!buffer);
	vg_memory_resource_destroy(retrying);
	vg_memory_resource_destroy(limited);
	close_bench(&b);
}

TEST(adaptor_refusals)
{
	struct bench b = open_bench();
	struct vg_memory_resource *made = NULL, *closed;

	REFUSED(vg_limiting_resource_create(NULL, 1, &made), VG_INVALID, "upstream is NULL");
	REFUSED(vg_statistics_resource_create(NULL, &made), VG_INVALID, "upstream is NULL");
	REFUSED(vg_logging_resource_create(NULL, NULL, NULL, &made), VG_INVALID, "upstream is NULL");
	REFUSED(vg_retrying_resource_create(b.pool, NULL, NULL, &made), VG_INVALID, "callback is NULL");
	REFUSED(vg_limiting_resource_create(b.pool, 1, NULL), VG_INVALID, "ret_resource is NULL");
	OK(vg_device_pool_create(b.device, NULL, &closed));
	OK(vg_memory_resource_close(closed));
	struct vg_buffer *adopted = NULL;
	OK(vg_limiting_resource_create(b.pool, 1, &made));
	REFUSED(vg_buffer_borrow(4096, 16,
				 &(struct vg_buffer_borrow_options){.size = sizeof(struct vg_buffer_borrow_options),
								    .resource = made,
								    .stream = b.stream},
				 &adopted),
		VG_INVALID, "a limiting resource frees only what it allocated itself");
	CHECK(!adopted);
	vg_memory_resource_destroy(made);
	made = NULL;
	REFUSED(vg_limiting_resource_create(closed, 1, &made), VG_CLOSED, "the device pool has been closed");
	CHECK(!made);
	vg_memory_resource_destroy(closed);
	close_bench(&b);
}
