#include "memory_test.h"

TEST(buffer_copies_and_fills_on_a_stream)
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
	OK(vg_buffer_fill(first, &(unsigned){0x11223344}, 4, b.stream));
	OK(vg_buffer_read(second, 0, back, sizeof back, b.stream));
	OK(vg_stream_sync(b.stream));
	CHECK(memcmp(words, back, sizeof words) == 0);
	OK(vg_buffer_copy(second, first, b.stream));
	OK(vg_buffer_read(second, 0, back, sizeof back, b.stream));
	OK(vg_stream_sync(b.stream));
	CHECK_INT(back[0], 0x11223344);
	CHECK_INT(back[63], 0x11223344);
	OK(vg_buffer_read(second, 60, back, 8, b.stream));
	REFUSED(vg_buffer_read(second, 60, back, sizeof back, b.stream), VG_INVALID,
		"256 bytes at offset 60: the buffer has 256 bytes");
	REFUSED(vg_buffer_write(second, SIZE_MAX, words, 4, b.stream), VG_INVALID, "the buffer has 256 bytes");
	REFUSED(vg_buffer_write(second, 0, NULL, 4, b.stream), VG_INVALID, "the host's address is NULL");
	OK(vg_buffer_write(second, 256, NULL, 0, b.stream));
	vg_buffer_destroy(first);
	vg_buffer_destroy(second);
	close_bench(&b);
}

TEST(buffer_fill_patterns)
{
	struct bench b = open_bench();
	struct vg_buffer *buffer, *odd;
	unsigned char bytes[12];

	OK(vg_buffer_create(b.pool, 12, b.stream, &buffer));
	OK(vg_buffer_fill_byte(buffer, 255, b.stream));
	OK(vg_buffer_read(buffer, 0, bytes, 12, b.stream));
	OK(vg_stream_sync(b.stream));
	CHECK_INT(bytes[11], 255);
	OK(vg_buffer_fill(buffer, "\1\2", 2, b.stream));
	OK(vg_buffer_read(buffer, 0, bytes, 12, b.stream));
	OK(vg_stream_sync(b.stream));
	CHECK(memcmp(bytes, "\1\2\1\2\1\2\1\2\1\2\1\2", 12) == 0);
	OK(vg_buffer_fill(buffer, "\1\2\3\4", 4, b.stream));
	OK(vg_buffer_read(buffer, 0, bytes, 12, b.stream));
	OK(vg_stream_sync(b.stream));
	CHECK(memcmp(bytes, "\1\2\3\4\1\2\3\4\1\2\3\4", 12) == 0);
	REFUSED(vg_buffer_fill_byte(buffer, 256, b.stream), VG_INVALID, "256 is not a byte: 0 to 255");
	REFUSED(vg_buffer_fill_byte(buffer, -1, b.stream), VG_INVALID, "-1 is not a byte");
	REFUSED(vg_buffer_fill(buffer, "123", 3, b.stream), VG_INVALID, "a pattern of 3 bytes");
	REFUSED(vg_buffer_fill(buffer, "", 0, b.stream), VG_INVALID, "a pattern of 0 bytes");
	REFUSED(vg_buffer_fill(buffer, "12345678", 8, b.stream), VG_INVALID, "a pattern of 8 bytes");
	REFUSED(vg_buffer_fill(buffer, NULL, 4, b.stream), VG_INVALID, "pattern is NULL");
	OK(vg_buffer_borrow(vg_buffer_address(buffer), 7, NULL, &odd));
	REFUSED(vg_buffer_fill(odd, "12", 2, b.stream), VG_INVALID, "must be multiples of it");
	OK(vg_buffer_fill_byte(odd, 1, b.stream));
	vg_buffer_destroy(odd);
	OK(vg_buffer_borrow(vg_buffer_address(buffer) + 1, 8, NULL, &odd));
	REFUSED(vg_buffer_fill(odd, "1234", 4, b.stream), VG_INVALID, "must be multiples of it");
	vg_buffer_destroy(odd);
	vg_buffer_destroy(buffer);
	close_bench(&b);
}

TEST(buffer_is_closed_once)
{
	struct bench b = open_bench();
	struct vg_buffer *buffer, *other;
	struct vg_memory_properties properties;

	OK(vg_buffer_create(b.pool, 64, b.stream, &buffer));
	OK(vg_buffer_create(b.pool, 64, b.stream, &other));
	OK(vg_buffer_close(buffer, NULL));
	OK(vg_buffer_close(buffer, b.stream));
	CHECK_INT(vg_buffer_address(buffer), 0);
	CHECK_INT(vg_buffer_size(buffer), 0);
	CHECK(!vg_buffer_memory_resource(buffer));
	CHECK(!vg_buffer_owner(buffer));
	CHECK(!vg_buffer_equal(buffer, buffer));
	REFUSED(vg_buffer_fill_byte(buffer, 0, b.stream), VG_CLOSED, "the buffer has been closed");
	REFUSED(vg_buffer_copy(other, buffer, b.stream), VG_CLOSED, "the buffer has been closed");
	REFUSED(vg_buffer_properties(buffer, &properties), VG_CLOSED, "the buffer has been closed");
	REFUSED(vg_buffer_set_deallocation_stream(buffer, b.stream), VG_CLOSED, "the buffer has been closed");
	REFUSED(vg_buffer_close(NULL, NULL), VG_INVALID, "buffer is NULL");
	vg_buffer_destroy(buffer);
	vg_buffer_destroy(other);
	vg_buffer_destroy(NULL);
	close_bench(&b);
}

TEST(buffer_sizes_must_match)
{
	struct bench b = open_bench();
	struct vg_buffer *small, *large, *made = NULL, *borrowed;

	OK(vg_buffer_create(b.pool, 64, b.stream, &small));
	OK(vg_buffer_create(b.pool, 65, b.stream, &large));
	REFUSED(vg_buffer_copy(small, large, b.stream), VG_INVALID, "a buffer of 65 bytes into one of 64");
	OK(vg_buffer_borrow(vg_buffer_address(small), 64, NULL, &borrowed));
	OK(vg_buffer_copy(borrowed, small, b.stream));
	REFUSED(vg_buffer_duplicate(borrowed, b.stream, &made), VG_INVALID, "has no memory resource");
	OK(vg_memory_resource_close(b.pool));
	REFUSED(vg_buffer_duplicate(small, b.stream, &made), VG_CLOSED, "the device pool has been closed");
	CHECK(!made);
	REFUSED(vg_buffer_copy(NULL, small, b.stream), VG_INVALID, "to is NULL");
	REFUSED(vg_buffer_copy(small, NULL, b.stream), VG_INVALID, "from is NULL");
	REFUSED(vg_buffer_copy(small, borrowed, NULL), VG_INVALID, "stream is NULL");
	vg_buffer_destroy(borrowed);
	vg_buffer_destroy(small);
	vg_buffer_destroy(large);
	close_bench(&b);
}

TEST(empty_buffer)
{
	struct bench b = open_bench();
	struct vg_buffer *empty, *copy;

	OK(vg_buffer_create(b.pool, 0, b.stream, &empty));
	CHECK_INT(vg_buffer_size(empty), 0);
	OK(vg_buffer_fill(empty, "1234", 4, b.stream));
	OK(vg_buffer_duplicate(empty, b.stream, &copy));
	OK(vg_buffer_copy(copy, empty, b.stream));
	OK(vg_buffer_close(empty, b.stream));
	vg_buffer_destroy(empty);
	vg_buffer_destroy(copy);
	close_bench(&b);
}

TEST(buffers_are_equal_by_address_and_size)
{
	struct vg_buffer *one, *same, *longer, *elsewhere;

	OK(vg_buffer_borrow(0x1000, 16, NULL, &one));
	OK(vg_buffer_borrow(0x1000, 16, NULL, &same));
	OK(vg_buffer_borrow(0x1000, 17, NULL, &longer));
	OK(vg_buffer_borrow(0x2000, 16, NULL, &elsewhere));
	CHECK(vg_buffer_equal(one, same));
	CHECK(!vg_buffer_equal(one, longer));
	CHECK(!vg_buffer_equal(one, elsewhere));
	CHECK(!vg_buffer_equal(one, NULL));
	CHECK(vg_buffer_hash(one) == vg_buffer_hash(same));
	CHECK(vg_buffer_hash(one) != vg_buffer_hash(longer));
	CHECK(vg_buffer_hash(one) != vg_buffer_hash(elsewhere));
	vg_buffer_destroy(one);
	vg_buffer_destroy(same);
	vg_buffer_destroy(longer);
	vg_buffer_destroy(elsewhere);
}

// ---- borrowed memory -----------------------------------------------------------------------------

static int dropped;
static void *dropped_owner;

static void drop(void *owner)
{
	dropped++;
	dropped_owner = owner;
}

TEST(buffer_keeps_the_owner_of_borrowed_memory)
{
	struct vg_buffer *buffer, *again;
	int owner;
	struct vg_buffer_borrow_options options = {.size = sizeof options, .owner = &owner, .release = drop};

	dropped = 0;
	OK(vg_buffer_borrow(0x1000, 16, &options, &buffer));
	CHECK(vg_buffer_owner(buffer) == &owner);
	CHECK(!vg_buffer_memory_resource(buffer));
	again = vg_buffer_retain(buffer);
	vg_buffer_destroy(buffer);
	CHECK_INT(dropped, 0);
	OK(vg_buffer_close(again, NULL));
	CHECK_INT(dropped, 1);
	CHECK(dropped_owner == &owner);
	vg_buffer_destroy(again);
	CHECK_INT(dropped, 1);
}

TEST(buffer_borrow_refusals)
{
	struct bench b = open_bench();
	struct vg_buffer *buffer = NULL;
	struct vg_buffer_borrow_options options = {.size = sizeof options, .owner = &b, .resource = b.pool};

	REFUSED(vg_buffer_borrow(0x1000, 16, &options, &buffer), VG_INVALID, "cannot be both given");
	options.owner = NULL;
	REFUSED(vg_buffer_borrow(0x1000, 16, &options, &buffer), VG_INVALID,
		"options.stream is NULL: a device pool frees");
	REFUSED(vg_buffer_borrow(0, 16, NULL, &buffer), VG_INVALID, "16 bytes at 0x0");
	REFUSED(vg_buffer_borrow(UINT64_MAX - 4, 16, NULL, &buffer), VG_INVALID, "there is no such memory");
	REFUSED(vg_buffer_borrow(2, SIZE_MAX, NULL, &buffer), VG_INVALID, "there is no such memory");
	REFUSED(vg_buffer_borrow(0x1000, 16, NULL, NULL), VG_INVALID, "ret_buffer is NULL");
	options.size = 3;
	REFUSED(vg_buffer_borrow(0x1000, 16, &options, &buffer), VG_INVALID, "size is 3");
	CHECK(!buffer);
	close_bench(&b);
}

TEST(borrowed_buffer_is_freed_by_the_given_resource)
{
	struct bench b = open_bench();
	struct vg_memory_resource *resource;
	struct vg_buffer *adopted;

	OK(vg_synchronous_resource_create(b.context, &resource));
	size_t before = free_on(b.device);
	OK(vg_buffer_borrow(words(b.context, 8 << 20), 8 << 20,
			    &(struct vg_buffer_borrow_options){.size = sizeof(struct vg_buffer_borrow_options),
							       .resource = resource},
			    &adopted));
	CHECK(vg_buffer_memory_resource(adopted) == resource);
	CHECK(free_on(b.device) < before);
	vg_buffer_destroy(adopted);
	CHECK_INT(free_on(b.device), before);
	vg_memory_resource_destroy(resource);
	close_bench(&b);
}

// ---- which processors can access the memory -------------------------------------------------------

static struct vg_memory_properties borrowed_properties(vg_address address)
{
	struct vg_memory_properties properties;
	struct vg_buffer *buffer;

	OK(vg_buffer_borrow(address, 64, NULL, &buffer));
	OK(vg_buffer_properties(buffer, &properties));
	vg_buffer_destroy(buffer);
	return properties;
}

#define CHECK_PLACE(p, device_, on_device, on_host, is_managed) \
	do {                                                    \
		CHECK_INT((p).device, device_);                 \
		CHECK_INT((p).device_accessible, on_device);    \
		CHECK_INT((p).host_accessible, on_host);        \
		CHECK_INT((p).managed, is_managed);             \
	} while (0)

TEST(buffer_properties_come_from_resource_or_pointer)
{
	struct bench b = open_bench();
	struct vg_memory_resource *pinned;
	struct vg_buffer *buffer, *host;
	struct vg_memory_properties p;
	struct CUctx_st *before;
	vg_address managed;
	static char unknown[64];

	OK(vg_buffer_create(b.pool, 64, b.stream, &buffer));
	OK(vg_buffer_properties(buffer, &p));
	CHECK_PLACE(p, 0, 1, 0, 0);
	p = borrowed_properties(vg_buffer_address(buffer));
	CHECK_PLACE(p, 0, 1, 0, 0);
	OK(vg_legacy_pinned_resource_create(b.context, &pinned));
	OK(vg_buffer_create(pinned, 64, NULL, &host));
	OK(vg_buffer_properties(host, &p));
	CHECK_PLACE(p, -1, 1, 1, 0);
	p = borrowed_properties(vg_buffer_address(host));
	CHECK_PLACE(p, 0, 1, 1, 0);
	p = borrowed_properties((vg_address)(uintptr_t)unknown);
	CHECK_PLACE(p, -1, 0, 1, 0);
	DRIVER(cuCtxPushCurrent_v2, (struct CUctx_st *), vg_context_handle(b.context));
	DRIVER(cuMemAllocManaged, (vg_address *, size_t, unsigned), &managed, 64, 1);
	DRIVER(cuCtxPopCurrent_v2, (struct CUctx_st **), &before);
	p = borrowed_properties(managed);
	CHECK_PLACE(p, 0, 1, 1, 1);
	free_words(b.context, managed);
	vg_buffer_destroy(buffer);
	vg_buffer_destroy(host);
	vg_memory_resource_destroy(pinned);
	close_bench(&b);
}

// ---- destruction in any order, by any thread ------------------------------------------------------

TEST(buffer_keeps_pool_stream_and_context)
{
	struct bench b = open_bench();
	struct vg_buffer *buffer;

	OK(vg_buffer_create(b.pool, 1 << 20, b.stream, &buffer));
	struct vg_stream *stream = b.stream;
	vg_memory_resource_destroy(b.pool);
	OK(vg_buffer_fill_byte(buffer, 3, stream));
	vg_context_destroy(b.context);
	vg_stream_destroy(b.stream);
	vg_buffer_destroy(buffer);
}

static void end(int which, struct bench *b, struct vg_memory_resource *adaptor, struct vg_buffer *buffer)
{
	switch (which) {
	case 0:
		vg_context_destroy(b->context);
		break;
	case 1:
		vg_stream_destroy(b->stream);
		break;
	case 2:
		vg_memory_resource_destroy(b->pool);
		break;
	case 3:
		vg_memory_resource_destroy(adaptor);
		break;
	default:
		vg_buffer_destroy(buffer);
	}
}

TEST(buffer_and_dependencies_are_destroyed_in_any_order)
{
	struct bench keep = open_bench(); // keeps the context alive, so that a leak increases the used memory
	size_t before = 0;

	for (int order = 0; order < 5 * 4 * 3 * 2; order++) {
		if (order == 1) // the driver may keep some memory of round 0, so compare from the next round on
			before = free_on(keep.device);
		struct bench b = open_bench();
		struct vg_memory_resource *adaptor;
		struct vg_buffer *buffer;
		int left[] = {0, 1, 2, 3, 4};
		OK(vg_statistics_resource_create(b.pool, &adaptor));
		OK(vg_buffer_create(adaptor, 4096, b.stream, &buffer));
		for (int count = 5, code = order; count > 0; code /= count--) {
			end(left[code % count], &b, adaptor, buffer);
			left[code % count] = left[count - 1];
		}
	}
	CHECK_INT(free_on(keep.device), before);
	close_bench(&keep);
}

TEST(buffer_is_freed_without_a_current_context)
{
	struct bench b = open_bench();
	struct vg_buffer *buffer;
	struct CUctx_st *current;

	OK(vg_buffer_create(b.pool, 64, b.stream, &buffer));
	DRIVER(cuCtxGetCurrent, (struct CUctx_st **), &current);
	CHECK(!current);
	OK(vg_buffer_close(buffer, NULL));
	vg_buffer_destroy(buffer);
	DRIVER(cuCtxGetCurrent, (struct CUctx_st **), &current);
	CHECK(!current);
	close_bench(&b);
}

static void *create_and_destroy(void *data)
{
	struct bench *b = data;

	for (int i = 0; i < 200; i++) {
		struct vg_buffer *buffer;
		if (vg_buffer_create(b->pool, 1 << (i % 16), b->stream, &buffer))
			return "create";
		if (vg_buffer_fill_byte(buffer, i % 256, b->stream) ||
		    vg_buffer_set_deallocation_stream(buffer, b->stream))
			return "use";
		vg_buffer_destroy(buffer);
	}
	return NULL;
}

TEST(threads_use_one_pool_and_stream)
{
	struct bench b = open_bench();
	struct vg_memory_pool_attributes attributes;
	pthread_t threads[4];
	void *problem;

	for (int i = 0; i < 4; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, create_and_destroy, &b), 0);
	for (int i = 0; i < 4; i++) {
		CHECK_INT(pthread_join(threads[i], &problem), 0);
		CHECK(!problem);
	}
	OK(vg_stream_sync(b.stream));
	OK(vg_memory_pool_attributes(b.pool, &attributes));
	CHECK_INT(attributes.used_mem_current, 0);
	close_bench(&b);
}

TEST(buffers_are_created_and_destroyed_without_leaks)
{
	struct bench b = open_bench();
	struct vg_memory_pool_attributes attributes;
	int rounds = getenv("VIRGATE_TEST_FULL") ? 100000 : 1000;

	for (int i = 0; i < rounds; i++) {
		struct vg_buffer *buffer;
		OK(vg_buffer_create(b.pool, 4096, b.stream, &buffer));
		vg_buffer_destroy(buffer);
	}
	OK(vg_stream_sync(b.stream));
	OK(vg_memory_pool_attributes(b.pool, &attributes));
	CHECK_INT(attributes.used_mem_current, 0);
	CHECK_INT(attributes.reserved_mem_high, 32 << 20);
	close_bench(&b);
}

// ---- captures --------------------------------------------------------------------------------------

TEST(buffer_destroyed_during_a_capture_is_freed_after_it)
{
	struct bench b = open_bench();
	struct vg_memory_pool_attributes attributes;
	struct vg_buffer *buffer, *next;

	OK(vg_buffer_create(b.pool, 1 << 20, b.stream, &buffer));
	struct vg_graph_builder *builder = begin_capture(b.stream);
	REFUSED(vg_buffer_close(buffer, NULL), VG_STATE, "cannot perform memory operations on a capturing stream");
	CHECK(vg_buffer_address(buffer) != 0);
	REFUSED(vg_buffer_create(b.pool, 64, b.stream, &next), VG_STATE, "consider the graph memory resource");
	vg_buffer_destroy(buffer);
	OK(vg_graph_builder_end(builder));
	OK(vg_memory_pool_attributes(b.pool, &attributes));
	CHECK_INT(attributes.used_mem_current, 1 << 20);
	OK(vg_buffer_create(b.pool, 64, b.stream, &next));
	vg_buffer_destroy(next);
	OK(vg_stream_sync(b.stream));
	OK(vg_memory_pool_attributes(b.pool, &attributes));
	CHECK_INT(attributes.used_mem_current, 0);
	vg_graph_builder_destroy(builder);
	close_bench(&b);
}

// The legacy stream may not be used while a blocking stream is being captured.
TEST(buffer_of_the_legacy_stream_waits_for_other_captures)
{
	struct bench b = open_bench();
	struct vg_memory_pool_attributes attributes;
	struct vg_memory_resource *graph_memory;
	struct vg_stream *legacy, *blocking;
	struct vg_buffer *buffer, *next = NULL;

	OK(vg_stream_default(b.context, VG_DEFAULT_STREAM_LEGACY, &legacy));
	OK(vg_stream_create(b.context,
			    &(struct vg_stream_options){.size = sizeof(struct vg_stream_options), .blocking = 1},
			    &blocking));
	OK(vg_graph_memory_resource(b.device, &graph_memory));
	OK(vg_buffer_create(b.pool, 1 << 20, legacy, &buffer));
	struct vg_graph_builder *builder = begin_capture(blocking);
	REFUSED(vg_buffer_create(b.pool, 64, legacy, &next), VG_STATE, "on a capturing stream");
	REFUSED(vg_buffer_create(graph_memory, 64, legacy, &next), VG_STATE, "on a non-capturing stream");
	REFUSED(vg_buffer_close(buffer, NULL), VG_STATE, "on a capturing stream");
	vg_buffer_destroy(buffer);
	OK(vg_graph_builder_end(builder)); // the capture is still valid
	vg_graph_builder_destroy(builder);
	OK(vg_buffer_create(b.pool, 0, b.stream, &next));
	vg_buffer_destroy(next);
	OK(vg_stream_sync(legacy));
	OK(vg_memory_pool_attributes(b.pool, &attributes));
	CHECK_INT(attributes.used_mem_current, 0);
	vg_memory_resource_destroy(graph_memory);
	vg_stream_destroy(blocking);
	vg_stream_destroy(legacy);
	close_bench(&b);
}
