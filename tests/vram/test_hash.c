// Compares the hashes that the device computes with the published test vectors, and with the host's hashes at every
// boundary of BLAKE3's hash tree.
#include "core/memory_test.h"
#include "vram/hash.h"
#include "vram/scratch.h"
#include "vram_test.h"

static const uint8_t *const key = (const uint8_t *)vector_key;

struct subject {
	struct bench bench;
	struct vram_hasher *hasher;
	struct vg_buffer *buffer;
	uint8_t *data;
	size_t size;
};

static struct subject open_subject(size_t size)
{
	struct subject s = {.bench = open_bench(), .data = pattern(size), .size = size};

	OK(vram_hasher_create(s.bench.context, &s.hasher));
	OK(vg_buffer_create(s.bench.pool, size, s.bench.stream, &s.buffer));
	OK(vg_buffer_write(s.buffer, 0, s.data, size, s.bench.stream));
	OK(vg_stream_sync(s.bench.stream));
	return s;
}

static void close_subject(struct subject *s)
{
	vg_buffer_destroy(s->buffer);
	vram_hasher_destroy(s->hasher);
	close_bench(&s->bench);
	free(s->data);
}

// Checks that the device's hash of a part of the buffer equals the host's.
static void check_part(struct subject *s, size_t offset, size_t size)
{
	uint8_t root[VRAM_ROOT_BYTES] = {0}, expected[VRAM_ROOT_BYTES];
	char want[2 * VRAM_ROOT_BYTES + 1];

	OK(vram_hash(s->hasher, s->bench.stream, vg_buffer_address(s->buffer) + offset, size, key, root));
	vram_blake3(s->data + offset, size, key, expected);
	strcpy(want, hex(expected));
	if (strcmp(hex(root), want) != 0)
		FAIL("%zu bytes from byte %zu: %s, not %s", size, offset, hex(root), want);
}

TEST(matches_published_vectors)
{
	struct subject s = open_subject(vectors[VECTOR_COUNT - 1].size);
	uint8_t root[VRAM_ROOT_BYTES];

	for (size_t i = 0; i < VECTOR_COUNT; i++) {
		if (vectors[i].size == 0)
			continue;
		OK(vram_hash(s.hasher, s.bench.stream, vg_buffer_address(s.buffer), vectors[i].size, key, root));
		CHECK_STR(hex(root), vectors[i].root);
	}
	close_subject(&s);
}

// Hashes parts that end near the boundaries of groups. A group is the 256 chunks of 1 KiB that one thread block reduces
// to one node of the hash tree.
TEST(matches_the_host_at_boundaries_of_the_tree)
{
	const size_t chunk = 1024, group = 256 * chunk, mib = (size_t)1 << 20;
	const size_t sizes[] = {1,
				2,
				3,
				4,
				15,
				16,
				17,
				63,
				64,
				65,
				127,
				128,
				129,
				960,
				961,
				1023,
				1024,
				1025,
				1087,
				1088,
				1089,
				2047,
				2048,
				2049,
				3 * chunk,
				3 * chunk + 1,
				4 * chunk - 1,
				4 * chunk,
				5 * chunk + 7,
				31 * chunk,
				32 * chunk + 1,
				127 * chunk + 13,
				128 * chunk,
				129 * chunk,
				group - 1,
				group,
				group + 1,
				group + chunk,
				2 * group - 1,
				2 * group,
				2 * group + 1,
				3 * group + 5,
				3 * mib + 70 * chunk + 5,
				4 * mib};
	struct subject s = open_subject(4 * mib);

	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		check_part(&s, 0, sizes[i]);
	close_subject(&s);
}

// Makes the library hash a buffer in several pieces, at least 4 MiB each. The pieces use the same scratch memory, and
// add a level to the hash tree.
TEST(matches_the_host_with_several_pieces)
{
	const size_t mib = (size_t)1 << 20;
	const size_t sizes[] = {4 * mib, 4 * mib + 1, 8 * mib, 12 * mib - 1, 12 * mib + 300 * 1024 + 5};
	struct subject s = open_subject(sizes[4]);

	vram_hasher_set_piece(s.hasher, 4 * mib);
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		check_part(&s, 0, sizes[i]);
	vram_hasher_set_piece(s.hasher, 8 * mib);
	check_part(&s, 0, sizes[4]);
	close_subject(&s);
}

// Hashes more than one piece of the default size, so that three levels of the hash tree are above the pieces. The host
// would take too long, so the result is compared with that of smaller pieces.
TEST(matches_smaller_pieces_above_4_gib)
{
	const size_t mib = (size_t)1 << 20, size = 4096 * mib + (300 << 10) + 5;
	uint8_t root[VRAM_ROOT_BYTES], pieces[VRAM_ROOT_BYTES];
	size_t free;

	if (getenv("VIRGATE_SIM"))
		SKIP("4 GiB take the simulated GPU a minute");
	struct subject s = open_subject(65 * mib);
	OK(vg_device_memory_info(s.bench.device, &free, NULL));
	if (free < 5120 * mib) {
		close_subject(&s);
		SKIP("the device has %zu MiB free, this takes 5120", free / mib);
	}
	vg_buffer_destroy(s.buffer);
	OK(vg_buffer_create(s.bench.pool, size, s.bench.stream, &s.buffer));
	// each part of the buffer gets data from another offset, so that all parts differ
	for (size_t at = 0; at < size; at += 64 * mib)
		OK(vg_buffer_write(s.buffer, at, s.data + at / mib, size - at < 64 * mib ? size - at : 64 * mib,
				   s.bench.stream));
	OK(vram_hash(s.hasher, s.bench.stream, vg_buffer_address(s.buffer), size, key, root));
	vram_hasher_set_piece(s.hasher, 12 * mib);
	OK(vram_hash(s.hasher, s.bench.stream, vg_buffer_address(s.buffer), size, key, pieces));
	CHECK(memcmp(root, pieces, sizeof root) == 0);
	close_subject(&s);
}

TEST(matches_the_host_for_any_alignment)
{
	struct subject s = open_subject(600 * 1024);

	for (size_t offset = 1; offset <= 16; offset++) {
		check_part(&s, offset, 1);
		check_part(&s, offset, 3000);
		check_part(&s, offset, 8 * 1024 + 64);
	}
	check_part(&s, 7, 512 * 1024 + 100);
	close_subject(&s);
}

// A change of any byte in the hashed range changes the hash. A change outside that range does not.
TEST(depends_on_each_byte_of_the_range_only)
{
	const size_t size = 300 * 1024 + 3, places[] = {0, 1, 63, 64, 1023, 1024, 256 * 1024 - 1, 256 * 1024, size - 1};
	struct subject s = open_subject(size + 1);
	uint8_t before[VRAM_ROOT_BYTES], after[VRAM_ROOT_BYTES], byte;
	vg_address address = vg_buffer_address(s.buffer);

	OK(vram_hash(s.hasher, s.bench.stream, address, size, key, before));
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		byte = s.data[places[i]] ^ 0x10;
		OK(vg_buffer_write(s.buffer, places[i], &byte, 1, s.bench.stream));
		OK(vram_hash(s.hasher, s.bench.stream, address, size, key, after));
		CHECK(memcmp(before, after, sizeof before) != 0);
		OK(vg_buffer_write(s.buffer, places[i], &s.data[places[i]], 1, s.bench.stream));
	}
	byte = s.data[size] ^ 0xff;
	OK(vg_buffer_write(s.buffer, size, &byte, 1, s.bench.stream));
	OK(vram_hash(s.hasher, s.bench.stream, address, size, key, after));
	CHECK(memcmp(before, after, sizeof before) == 0);
	close_subject(&s);
}

struct runner {
	struct subject *subject;
	size_t offset;
	pthread_t thread;
	char message[256];
};

static void *run(void *argument)
{
	struct runner *r = argument;
	uint8_t root[VRAM_ROOT_BYTES], expected[VRAM_ROOT_BYTES];
	struct vg_stream *stream;

	if (vg_stream_create(r->subject->bench.context, NULL, &stream)) {
		snprintf(r->message, sizeof r->message, "%s", vg_last_error()->text);
		return NULL;
	}
	for (size_t i = 0; i < 8 && !r->message[0]; i++) {
		size_t offset = r->offset + 16 * i, size = 1024 * (3 * i + 246) + i;
		vram_blake3(r->subject->data + offset, size, key, expected);
		if (vram_hash(r->subject->hasher, stream, vg_buffer_address(r->subject->buffer) + offset, size, key,
			      root))
			snprintf(r->message, sizeof r->message, "%s", vg_last_error()->text);
		else if (memcmp(root, expected, sizeof root) != 0)
			snprintf(r->message, sizeof r->message, "%zu bytes from byte %zu: another hash", size, offset);
	}
	vg_stream_destroy(stream);
	return NULL;
}

TEST(threads_use_one_hasher)
{
	struct subject s = open_subject(1 << 20);
	struct runner runners[4] = {0};

	for (int i = 0; i < 4; i++) {
		runners[i] = (struct runner){.subject = &s, .offset = 4096 * (size_t)i};
		CHECK(pthread_create(&runners[i].thread, NULL, run, &runners[i]) == 0);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(runners[i].thread, NULL);
	for (int i = 0; i < 4; i++)
		CHECK_STR(runners[i].message, "");
	close_subject(&s);
}

TEST(waits_for_work_queued_before)
{
	struct subject s = open_subject(2 << 20);
	uint8_t root[VRAM_ROOT_BYTES], expected[VRAM_ROOT_BYTES];

	memset(s.data, 0x5a, s.size);
	OK(vg_buffer_fill_byte(s.buffer, 0x5a, s.bench.stream));
	OK(vram_hash(s.hasher, s.bench.stream, vg_buffer_address(s.buffer), s.size, key, root));
	vram_blake3(s.data, s.size, key, expected);
	CHECK(memcmp(root, expected, sizeof root) == 0);
	close_subject(&s);
}

TEST(leaks_no_memory)
{
	struct subject s = open_subject(300 << 10);

	check_part(&s, 0, s.size);
	MEMORY_STEADY(s.bench.device, for (int i = 0; i < 10; i++) check_part(&s, 0, s.size - 1024 * (size_t)i););
	close_subject(&s);
}

TEST(scratch_memory_is_reused_or_grows)
{
	struct vg_context *context = first_context();
	struct vram_scratch_list list = {0};
	struct vram_scratch *first, *second, *large;

	OK(vram_scratch_list_init(&list, context));
	OK(vram_scratch_acquire(&list, 1000, &first));
	OK(vram_scratch_acquire(&list, 1000, &second));
	vg_address address = first->buffer->address;
	CHECK(address != second->buffer->address);
	vram_scratch_release(&list, second);
	vram_scratch_release(&list, first);
	OK(vram_scratch_acquire(&list, 1000, &first));
	CHECK_INT(first->buffer->address, address);
	// The list of scratch buffers has one free buffer. It is too small, so a larger one replaces it.
	OK(vram_scratch_acquire(&list, 5 << 20, &large));
	CHECK(large->buffer->size >= 5 << 20);
	CHECK(list.first == NULL);
	vram_scratch_release(&list, first);
	vram_scratch_release(&list, large);
	vram_scratch_list_finish(&list);
	vg_context_destroy(context);
}

TEST(does_not_invalidate_a_capture_of_another_stream)
{
	struct subject s = open_subject(1000); // this hash needs new scratch memory
	struct vg_graph_builder *builder;
	struct vg_stream *captured;

	OK(vg_stream_create(s.bench.context, NULL, &captured));
	OK(vg_graph_builder_create_on(captured, &builder));
	OK(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_GLOBAL));
	check_part(&s, 0, 1000);
	OK(vg_graph_builder_end(builder));
	vg_graph_builder_destroy(builder);
	vg_stream_destroy(captured);
	close_subject(&s);
}

TEST(forked_child_destroys_without_driver_calls)
{
	struct subject s = open_subject(300 << 10);

	check_part(&s, 0, s.size);
	pid_t child = fork();
	if (child == 0) {
		vram_hasher_destroy(s.hasher);
		_exit(0);
	}
	CHECK_CHILD(child);
	check_part(&s, 0, s.size);
	close_subject(&s);
}

#define HASH(address, size) vram_hash(s.hasher, s.bench.stream, address, size, key, root)

TEST(refuses_invalid_arguments)
{
	struct subject s = open_subject(4096);
	uint8_t root[VRAM_ROOT_BYTES] = {77};
	vg_address address = vg_buffer_address(s.buffer);
	struct vram_hasher *hasher = NULL;

	REFUSED(HASH(address, 0), VG_INVALID, "0 bytes at 0x");
	REFUSED(HASH(0, 5), VG_INVALID, "nothing to hash");
	REFUSED(HASH(address, SIZE_MAX), VG_INVALID, "past the end of the address space");
	REFUSED(vram_hash(s.hasher, NULL, address, 1, key, root), VG_INVALID, "stream is NULL");
	struct vg_graph_builder *builder = begin_capture(s.bench.stream);
	REFUSED(HASH(address, 1), VG_STATE, "being captured");
	vg_graph_builder_destroy(builder);
	OK(vg_stream_close(s.bench.stream));
	REFUSED(HASH(address, 1), VG_CLOSED, "stream");
	REFUSED(vram_hasher_create(NULL, &hasher), VG_INVALID, "context is NULL");
	CHECK(hasher == NULL);
	CHECK_INT(root[0], 77);
	close_subject(&s);
}

TEST(refuses_a_stream_of_another_context)
{
	struct subject s = open_subject(4096);
	uint8_t root[VRAM_ROOT_BYTES];
	struct CUctx_st *handle, *before;
	struct vg_context *context;
	struct vg_stream *stream;

	DRIVER(cuCtxCreate_v4, (struct CUctx_st **, void *, unsigned, int), &handle, NULL, 0, 0);
	DRIVER(cuCtxPopCurrent_v2, (struct CUctx_st **), &before);
	OK(vg_context_borrow(handle, &context));
	OK(vg_stream_create(context, NULL, &stream));
	REFUSED(vram_hash(s.hasher, stream, vg_buffer_address(s.buffer), 1, key, root), VG_INVALID, "another context");
	vg_stream_destroy(stream);
	vg_context_destroy(context);
	DRIVER(cuCtxDestroy_v2, (struct CUctx_st *), handle);
	close_subject(&s);
}

TEST(works_in_a_green_context)
{
	struct subject s = open_subject(1 << 20);
	struct vg_context *green = green_context(8);
	struct vg_stream *plain = s.bench.stream;

	OK(vg_stream_create(green, NULL, &s.bench.stream));
	check_part(&s, 0, s.size);
	vg_stream_destroy(s.bench.stream);
	s.bench.stream = plain;
	vg_context_destroy(green);
	close_subject(&s);
}
