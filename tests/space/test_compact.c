// Tests compaction: which blocks it moves, which stay, and how long it takes.
#include "core/core.h"
#include "space/mover.h"
#include "space_test.h"

#include <pthread.h>

enum { BLOCKS = 48 };

static struct vg_movable_block *block[BLOCKS];

static vg_address pin(struct vg_movable_block *one)
{
	vg_address address = 0;

	OK(vg_movable_block_pin(one, &address));
	return address;
}

static void unpin(struct vg_movable_block *one)
{
	OK(vg_movable_block_unpin(one));
}

static void fill(struct vg_memory_space *space, size_t size)
{
	for (int i = 0; i < BLOCKS; i++) {
		OK(vg_movable_block_create(space, size, &block[i]));
		write_pattern(space, pin(block[i]), size, (uint64_t)i);
		unpin(block[i]);
	}
}

// Frees all blocks except every `keep`-th one.
static void thin(int keep)
{
	for (int i = 0; i < BLOCKS; i++)
		if (i % keep) {
			vg_movable_block_destroy(block[i]);
			block[i] = NULL;
		}
}

static void check_contents(struct vg_memory_space *space)
{
	for (int i = 0; i < BLOCKS; i++) {
		if (!block[i])
			continue;
		check_pattern(space, pin(block[i]), vg_movable_block_size(block[i]), (uint64_t)i);
		unpin(block[i]);
	}
}

static void drop_all(void)
{
	for (int i = 0; i < BLOCKS; i++) {
		vg_movable_block_destroy(block[i]);
		block[i] = NULL;
	}
}

static void half_of(size_t size, int keep)
{
	struct vg_memory_space *space = open_space(256 * MIB);
	struct vg_compact_result result;

	fill(space, size);
	thin(keep);
	struct vg_memory_space_info before = info_of(space);
	OK(vg_memory_space_compact(space, NULL, &result));
	struct vg_memory_space_info after = info_of(space);
	check_figures(space);
	CHECK_INT(after.allocated, before.allocated);
	CHECK_INT(after.blocks, before.blocks);
	CHECK_INT(result.complete, 1);
	CHECK(result.blocks_moved > 0);
	CHECK_INT(result.bytes_moved, result.blocks_moved * size);
	CHECK_INT(after.bytes_moved, result.bytes_moved);
	CHECK(result.bytes_returned > 0);
	CHECK(result.copy_ms > 0);
	CHECK(result.verify_ms > 0);
	CHECK(after.held < before.held);
	check_contents(space);
	// A second compaction moves nothing.
	OK(vg_memory_space_compact(space, NULL, &result));
	CHECK_INT(result.blocks_moved, 0);
	CHECK_INT(result.complete, 1);
	drop_all();
	vg_memory_space_destroy(space);
}

TEST(compaction_moves_blocks_of_a_megabyte)
{
	half_of(MIB, 2);
}
TEST(parts_of_pages)
{
	half_of(600 * KIB + 5, 3);
}
TEST(small_blocks)
{
	half_of(128 * KIB, 4);
}

// Pinned blocks must not move, so their pages cannot be freed.
TEST(pinned_blocks_stay)
{
	struct vg_memory_space *space = open_space(256 * MIB);
	struct vg_compact_result result;
	vg_address address[BLOCKS] = {0};

	fill(space, MIB);
	thin(2);
	for (int i = 0; i < BLOCKS; i += 8)
		address[i] = pin(block[i]);
	OK(vg_memory_space_compact(space, NULL, &result));
	CHECK(result.blocks_moved > 0);
	for (int i = 0; i < BLOCKS; i += 8)
		CHECK(address[i] == pin(block[i]));
	check_contents(space);
	check_figures(space);
	drop_all();
	vg_memory_space_destroy(space);
}

// ---- a copy that differs from its source ------------------------------------------------------------

static void spoil(const struct move_piece *pieces, size_t count)
{
	CHECK_INT(core_driver->cuMemsetD8_v2(pieces[count / 2].to + 5, 0x77, 1), CUDA_SUCCESS);
}

TEST(a_wrong_copy_undoes_the_pass)
{
	struct vg_memory_space *space = open_space(256 * MIB);
	struct vg_compact_result result;

	fill(space, 300 * KIB);
	thin(3);
	struct vg_memory_space_info before = info_of(space);
	space_mover_set_between(spoil);
	REFUSED(vg_memory_space_compact(space, NULL, &result), VG_INTEGRITY, "stay where they were");
	space_mover_set_between(NULL);
	CHECK_INT(result.blocks_moved, 0);
	struct vg_memory_space_info after = info_of(space);
	CHECK_INT(after.held, before.held);
	CHECK_INT(after.blocks, before.blocks);
	check_figures(space);
	check_contents(space);
	OK(vg_memory_space_compact(space, NULL, &result));
	CHECK(result.blocks_moved > 0);
	check_contents(space);
	drop_all();
	vg_memory_space_destroy(space);
}

static uint64_t copied;

static void add_up(const struct move_piece *pieces, size_t count)
{
	for (size_t i = 0; i < count; i++)
		copied += pieces[i].bytes;
}

// If only one of a page's two blocks fits elsewhere, the page cannot become empty, so nothing must move.
TEST(nothing_moves_from_a_page_that_cannot_be_emptied)
{
	struct vg_memory_space *space = open_space(256 * MIB);
	struct vg_movable_block *stays[3];
	struct vg_compact_result result;

	fill(space, 128 * KIB);
	thin(2);
	OK(vg_movable_block_create(space, 200 * KIB, &stays[0]));
	OK(vg_movable_block_create(space, MIB, &stays[1]));
	// this page is fuller, and has room only for the first of the two blocks above
	OK(vg_movable_block_create(space, 3 * MIB / 2, &stays[2]));
	const vg_address before = pin(stays[0]);
	unpin(stays[0]);
	copied = 0;
	space_mover_set_between(add_up);
	OK(vg_memory_space_compact(space, NULL, &result));
	space_mover_set_between(NULL);
	CHECK(result.blocks_moved > 0);
	CHECK_INT(result.complete, 1);
	CHECK_INT(copied, result.bytes_moved);
	CHECK(pin(stays[0]) == before);
	check_contents(space);
	check_figures(space);
	for (int i = 0; i < 3; i++)
		vg_movable_block_destroy(stays[i]);
	drop_all();
	vg_memory_space_destroy(space);
}

static const struct move_piece *list;

static void note_list(const struct move_piece *pieces, size_t count)
{
	(void)count;
	list = pieces;
}

static void *destroy_space(void *space)
{
	CUcontext context;

	CHECK_INT(core_driver->cuCtxGetCurrent(&context), CUDA_SUCCESS);
	CHECK(!context);
	vg_memory_space_destroy(space);
	return NULL;
}

static bool is_known(const struct vg_context *context, const void *host)
{
	CUcontext popped;
	unsigned type;

	CHECK_INT(core_driver->cuCtxPushCurrent_v2(vg_context_handle(context)), CUDA_SUCCESS);
	CUresult r = core_driver->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)host);
	CHECK_INT(core_driver->cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
	return r == CUDA_SUCCESS;
}

// Page-locked memory must be freed when a space is closed, even if the thread that closes it has no current context.
TEST(closing_a_space_frees_page_locked_memory)
{
	struct vg_memory_space *space = open_space(256 * MIB);
	// keep the context until the check, since destroying it would also free the memory
	struct vg_context *context = first_context();
	pthread_t thread;

	fill(space, MIB);
	thin(2);
	space_mover_set_between(note_list);
	OK(vg_memory_space_compact(space, NULL, NULL));
	space_mover_set_between(NULL);
	CHECK(is_known(context, list));
	drop_all();
	CHECK_INT(pthread_create(&thread, NULL, destroy_space, space), 0);
	pthread_join(thread, NULL);
	CHECK(!is_known(context, list));
	vg_context_destroy(context);
}

// ---- limits of a compaction -------------------------------------------------------------------------

struct progress {
	int calls, last;
	uint64_t bytes;
};

static int count_calls(void *user, const struct vg_compact_progress *progress)
{
	struct progress *seen = user;

	seen->calls++;
	if (progress->bytes_moved < seen->bytes || progress->milliseconds < 0)
		seen->calls = -1000;
	seen->bytes = progress->bytes_moved;
	return seen->calls == seen->last;
}

// One call moves at most the given number of bytes. Repeated calls move everything.
TEST(max_bytes_limits_a_compaction)
{
	struct vg_memory_space *space = open_space(256 * MIB);
	struct progress seen = {0};
	struct vg_compact_options options = {
		.size = sizeof options, .max_bytes = 1, .progress = count_calls, .user = &seen};
	struct vg_compact_result result;
	uint64_t moved = 0;

	fill(space, 600 * KIB);
	thin(3);
	OK(vg_memory_space_compact(space, &options, &result));
	CHECK_INT(result.bytes_moved, 0); // nothing moves, because every block is larger than the limit
	CHECK_INT(result.complete, 0);
	CHECK_INT(seen.calls, 0);
	options.max_bytes = 1300 * KIB;
	do {
		seen = (struct progress){0};
		OK(vg_memory_space_compact(space, &options, &result));
		CHECK(result.bytes_moved <= options.max_bytes);
		CHECK_INT(seen.bytes, result.bytes_moved);
		CHECK(result.complete || result.bytes_moved);
		moved += result.bytes_moved;
		check_contents(space);
		check_figures(space);
	} while (!result.complete);
	CHECK(moved > options.max_bytes);
	CHECK_INT(info_of(space).bytes_moved, moved);
	options.max_milliseconds = -1;
	REFUSED(vg_memory_space_compact(space, &options, &result), VG_INVALID, "max_milliseconds");
	drop_all();
	vg_memory_space_destroy(space);
}

// Creates more blocks than are moved in one pass. The callback and the time limit apply between passes.
TEST(callback_and_time_limit_stop_a_compaction)
{
	enum { COUNT = 40000 };
	struct vg_memory_space *space = open_space(256 * MIB);
	struct progress seen = {.last = 1};
	struct vg_compact_options options = {.size = sizeof options, .progress = count_calls, .user = &seen};
	struct vg_movable_block **small = calloc(COUNT, sizeof(struct vg_movable_block *));
	struct vg_compact_result result;

	for (int i = 0; i < COUNT; i++)
		OK(vg_movable_block_create(space, 256, &small[i]));
	for (int i = 0; i < COUNT; i++)
		if (i % 16) {
			vg_movable_block_destroy(small[i]);
			small[i] = NULL;
		}
	const size_t pages = info_of(space).pages;
	OK(vg_memory_space_compact(space, &options, &result));
	CHECK_INT(seen.calls, 1);
	CHECK_INT(result.complete, 0);
	options = (struct vg_compact_options){.size = sizeof options, .max_milliseconds = 1e-6};
	OK(vg_memory_space_compact(space, &options, &result));
	OK(vg_memory_space_compact(space, NULL, &result));
	CHECK_INT(result.complete, 1);
	CHECK(info_of(space).pages < pages);
	check_figures(space);
	for (int i = 0; i < COUNT; i++)
		vg_movable_block_destroy(small[i]);
	free(small);
	vg_memory_space_destroy(space);
}
