#include "core_test.h"

struct bench {
	struct vg_device *device;
	struct vg_context *context;
	struct vg_stream *stream;
	struct vg_memory_resource *pool;
};

static struct bench open_bench(void)
{
	struct bench b = {.context = first_context()};

	b.device = vg_context_device(b.context);
	OK(vg_stream_create(b.context, NULL, &b.stream));
	OK(vg_device_pool_create(b.device, NULL, &b.pool));
	return b;
}

static void close_bench(struct bench *b)
{
	vg_memory_resource_destroy(b->pool);
	vg_stream_destroy(b->stream);
	vg_context_destroy(b->context);
}

TEST(copy_and_fill_on_a_stream)
{
	struct bench b = open_bench();
	struct vg_buffer *first, *second;
	unsigned words[64], back[64] = {0};

	for (unsigned i = 0; i < 64; i++)
		words[i] = i * 0x01020304u;
	OK(vg_buffer_create(b.pool, sizeof words, b.stream, &first));
	CHECK_INT(vg_buffer_size(first), sizeof words);
	CHECK(vg_buffer_address(first) != 0);
	CHECK(vg_buffer_memory_resource(first) == b.pool);
	OK(vg_buffer_write(first, 0, words, sizeof words, b.stream));
	OK(vg_buffer_duplicate(first, b.stream, &second));
	CHECK(!vg_buffer_equal(first, second));
	OK(vg_buffer_fill(first, &(unsigned){0x11223344}, 4, b.stream));
	OK(vg_buffer_read(second, 0, back, sizeof back, b.stream));
	OK(vg_stream_sync(b.stream));
	CHECK(memcmp(words, back, sizeof words) == 0);
	OK(vg_buffer_copy(second, first, b.stream));
	OK(vg_buffer_read(second, 0, back, sizeof back, b.stream));
	OK(vg_stream_sync(b.stream));
	CHECK_INT(back[0], 0x11223344);
	CHECK_INT(back[63], 0x11223344);
	OK(vg_buffer_close(first, b.stream));
	OK(vg_buffer_close(first, b.stream));
	CHECK_INT(vg_buffer_address(first), 0);
	CHECK_INT(vg_buffer_size(first), 0);
	CHECK(!vg_buffer_memory_resource(first));
	REFUSED(vg_buffer_fill_byte(first, 0, b.stream), VG_CLOSED, "the buffer has been closed");
	vg_buffer_destroy(first);
	vg_buffer_destroy(second);
	close_bench(&b);
}
