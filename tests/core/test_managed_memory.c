// Tests advice on managed memory, prefetches and discards.
#include "memory_test.h"

static const struct vg_memory_location host = {VG_LOCATION_HOST, 0}, device0 = {VG_LOCATION_DEVICE, 0},
				       none = {VG_LOCATION_NONE, 0};

struct scene {
	struct bench b;
	struct vg_memory_resource *managed;
	struct vg_buffer *buffers[3], *ordinary;
};

static struct scene open_scene(void)
{
	struct scene s = {.b = open_bench()};

	OK(vg_managed_pool_current(s.b.device, &s.managed));
	for (int i = 0; i < 3; i++)
		OK(vg_buffer_create(s.managed, 2 << 20, s.b.stream, &s.buffers[i]));
	OK(vg_buffer_create(s.b.pool, 64, s.b.stream, &s.ordinary));
	return s;
}

static void close_scene(struct scene *s)
{
	for (int i = 0; i < 3; i++)
		vg_buffer_destroy(s->buffers[i]);
	vg_buffer_destroy(s->ordinary);
	vg_memory_resource_destroy(s->managed);
	close_bench(&s->b);
}

// Returns the last prefetch location that the driver has recorded for the buffer.
static int last_prefetch(const struct scene *s, struct vg_buffer *buffer)
{
	struct CUctx_st *before;
	int type = -1;

	DRIVER(cuCtxPushCurrent_v2, (struct CUctx_st *), vg_context_handle(s->b.context));
	DRIVER(cuMemRangeGetAttribute, (void *, size_t, int, vg_address, size_t), &type, sizeof type, 7,
	       vg_buffer_address(buffer), vg_buffer_size(buffer));
	DRIVER(cuCtxPopCurrent_v2, (struct CUctx_st **), &before);
	return type;
}

// Opens memory that accepts advice: memory of cuMemAllocManaged. Pools set the location of their memory themselves.
static struct vg_buffer *open_advised(struct vg_context *context)
{
	struct vg_buffer *buffer;
	struct CUctx_st *before;
	vg_address address;

	DRIVER(cuCtxPushCurrent_v2, (struct CUctx_st *), vg_context_handle(context));
	DRIVER(cuMemAllocManaged, (vg_address *, size_t, unsigned), &address, 2 << 20, 1);
	DRIVER(cuCtxPopCurrent_v2, (struct CUctx_st **), &before);
	OK(vg_buffer_borrow(address, 2 << 20, NULL, &buffer));
	return buffer;
}

TEST(advice_is_set_and_read)
{
	struct scene s = open_scene();
	struct vg_memory_location location, users[2];
	struct vg_buffer *buffer = open_advised(s.b.context);
	vg_address address = vg_buffer_address(buffer);
	int read_mostly = 7;
	size_t count;

	OK(vg_buffer_read_mostly(buffer, &read_mostly));
	CHECK_INT(read_mostly, 0);
	OK(vg_buffer_set_read_mostly(buffer, 5));
	OK(vg_buffer_read_mostly(buffer, &read_mostly));
	CHECK_INT(read_mostly, 1);
	OK(vg_buffer_set_read_mostly(buffer, 0));
	OK(vg_buffer_read_mostly(buffer, &read_mostly));
	CHECK_INT(read_mostly, 0);
	OK(vg_buffer_preferred_location(buffer, &location));
	CHECK_INT(location.type, VG_LOCATION_NONE);
	OK(vg_buffer_set_preferred_location(buffer, device0));
	OK(vg_buffer_preferred_location(buffer, &location));
	CHECK(location.type == VG_LOCATION_DEVICE && location.id == 0);
	OK(vg_buffer_set_preferred_location(buffer, host));
	OK(vg_buffer_preferred_location(buffer, &location));
	CHECK(location.type == VG_LOCATION_HOST && location.id == 0);
	OK(vg_buffer_set_preferred_location(buffer, none));
	OK(vg_buffer_preferred_location(buffer, &location));
	CHECK_INT(location.type, VG_LOCATION_NONE);
	OK(vg_buffer_accessed_by(buffer, users, 2, &count));
	CHECK_INT(count, 0);
	OK(vg_buffer_set_accessed_by(buffer, host, 1));
	OK(vg_buffer_set_accessed_by(buffer, device0, 1));
	OK(vg_buffer_accessed_by(buffer, users, 2, &count));
	CHECK(count == 2 && users[0].type == VG_LOCATION_DEVICE && users[0].id == 0 &&
	      users[1].type == VG_LOCATION_HOST);
	OK(vg_buffer_accessed_by(buffer, NULL, 0, &count));
	CHECK_INT(count, 2);
	users[0] = none;
	count = 77;
	REFUSED(vg_buffer_accessed_by(buffer, users, 1, &count), VG_LIMIT, "there are 2 locations, and room for 1");
	CHECK(count == 77 && users[0].type == VG_LOCATION_NONE);
	OK(vg_buffer_set_accessed_by(buffer, host, 0));
	OK(vg_buffer_accessed_by(buffer, users, 2, &count));
	CHECK(count == 1 && users[0].type == VG_LOCATION_DEVICE);
	REFUSED(vg_buffer_set_read_mostly(s.buffers[0], 1), VG_DRIVER, "CUDA_ERROR_NOT_SUPPORTED");
	vg_buffer_destroy(buffer);
	free_words(s.b.context, address);
	close_scene(&s);
}

TEST(managed_memory_is_prefetched_and_discarded)
{
	struct scene s = open_scene();
	const struct vg_memory_location each[] = {host, device0, host};
	struct vg_buffer *empty, *mixed[2];

	OK(vg_buffers_prefetch(s.buffers, 1, &device0, 1, s.b.stream));
	OK(vg_stream_sync(s.b.stream));
	CHECK_INT(last_prefetch(&s, s.buffers[0]), VG_LOCATION_DEVICE);
	OK(vg_buffers_prefetch(s.buffers, 3, &host, 1, s.b.stream));
	OK(vg_stream_sync(s.b.stream));
	for (int i = 0; i < 3; i++)
		CHECK_INT(last_prefetch(&s, s.buffers[i]), VG_LOCATION_HOST);
	OK(vg_buffers_prefetch(s.buffers, 3, each, 3, s.b.stream));
	OK(vg_stream_sync(s.b.stream));
	CHECK_INT(last_prefetch(&s, s.buffers[0]), VG_LOCATION_HOST);
	CHECK_INT(last_prefetch(&s, s.buffers[1]), VG_LOCATION_DEVICE);
	CHECK_INT(last_prefetch(&s, s.buffers[2]), VG_LOCATION_HOST);
	OK(vg_buffers_discard(s.buffers, 3, s.b.stream));
	OK(vg_buffers_discard_and_prefetch(s.buffers, 3, &device0, 1, s.b.stream));
	OK(vg_stream_sync(s.b.stream));
	for (int i = 0; i < 3; i++)
		CHECK_INT(last_prefetch(&s, s.buffers[i]), VG_LOCATION_DEVICE);
	OK(vg_buffer_create(s.managed, 0, s.b.stream, &empty));
	mixed[0] = empty;
	mixed[1] = s.buffers[0];
	OK(vg_buffers_prefetch(mixed, 2, &host, 1, s.b.stream));
	OK(vg_buffers_prefetch(mixed, 1, &host, 1, s.b.stream));
	OK(vg_buffers_discard(NULL, 0, s.b.stream));
	OK(vg_stream_sync(s.b.stream));
	CHECK_INT(last_prefetch(&s, s.buffers[0]), VG_LOCATION_HOST);
	vg_buffer_destroy(empty);
	close_scene(&s);
}

TEST(managed_memory_refusals)
{
	struct scene s = open_scene();
	struct vg_memory_location two[] = {host, host}, location;
	struct vg_buffer *with_null[] = {s.buffers[0], NULL};
	int value;
	size_t count;

	REFUSED(vg_buffer_set_read_mostly(s.ordinary, 1), VG_INVALID, "not a managed-memory allocation");
	REFUSED(vg_buffer_read_mostly(s.ordinary, &value), VG_INVALID, "not a managed-memory allocation");
	REFUSED(vg_buffer_set_preferred_location(s.ordinary, host), VG_INVALID, "not a managed-memory allocation");
	REFUSED(vg_buffer_preferred_location(s.ordinary, &location), VG_INVALID, "not a managed-memory allocation");
	REFUSED(vg_buffer_set_accessed_by(s.ordinary, host, 1), VG_INVALID, "not a managed-memory allocation");
	REFUSED(vg_buffer_accessed_by(s.ordinary, NULL, 0, &count), VG_INVALID, "not a managed-memory allocation");
	REFUSED(vg_buffers_prefetch(&s.ordinary, 1, &host, 1, s.b.stream), VG_INVALID,
		"not a managed-memory allocation");
	REFUSED(vg_buffers_discard(&s.ordinary, 1, s.b.stream), VG_INVALID, "not a managed-memory allocation");
	REFUSED(vg_buffers_prefetch(s.buffers, 3, two, 2, s.b.stream), VG_INVALID, "2 locations for 3 buffers");
	REFUSED(vg_buffers_discard_and_prefetch(s.buffers, 3, two, 0, s.b.stream), VG_INVALID,
		"0 locations for 3 buffers");
	REFUSED(vg_buffers_prefetch(s.buffers, 3, NULL, 1, s.b.stream), VG_INVALID, "locations is NULL");
	REFUSED(vg_buffers_prefetch(s.buffers, 3, &none, 1, s.b.stream), VG_INVALID, "location.type is 0");
	REFUSED(vg_buffers_prefetch(NULL, 3, &host, 1, s.b.stream), VG_INVALID, "buffers is NULL, and count 3");
	REFUSED(vg_buffers_prefetch(with_null, 2, &host, 1, s.b.stream), VG_INVALID, "buffer is NULL");
	REFUSED(vg_buffers_prefetch(s.buffers, 3, &host, 1, NULL), VG_INVALID, "stream is NULL");
	REFUSED(vg_buffers_discard(s.buffers, SIZE_MAX, s.b.stream), VG_INVALID, "there cannot be so many");
	REFUSED(vg_buffer_set_preferred_location(s.buffers[0], (struct vg_memory_location){VG_LOCATION_DEVICE, 999}),
		VG_INVALID, "location.id is 999");
	REFUSED(vg_buffer_set_preferred_location(s.buffers[0], (struct vg_memory_location){VG_LOCATION_HOST_NUMA, -1}),
		VG_INVALID, "location.id is -1");
	REFUSED(vg_buffer_set_accessed_by(s.buffers[0], (struct vg_memory_location){VG_LOCATION_HOST_NUMA, 0}, 1),
		VG_INVALID, "location.type is 3: a device or the host");
	REFUSED(vg_buffer_set_accessed_by(s.buffers[0], none, 1), VG_INVALID, "location.type is 0");
	REFUSED(vg_buffer_read_mostly(s.buffers[0], NULL), VG_INVALID, "ret_read_mostly is NULL");
	REFUSED(vg_buffer_set_read_mostly(NULL, 1), VG_INVALID, "buffer is NULL");
	OK(vg_buffer_close(s.buffers[2], NULL));
	REFUSED(vg_buffer_set_read_mostly(s.buffers[2], 1), VG_CLOSED, "the buffer has been closed");
	REFUSED(vg_buffers_discard(s.buffers, 3, s.b.stream), VG_CLOSED, "the buffer has been closed");
	close_scene(&s);
}
