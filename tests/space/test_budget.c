// Tests what a space requests from its owner, the virtual GPU: to charge pages, and to wait for work that uses them.
#include "base/status.h"
#include "core/core.h"
#include "core/stream.h"
#include "space/memory.h"
#include "space_test.h"

static struct vg_memory_space *space;
static struct vg_context *context;
static struct vg_stream *work; // stands in for the virtual GPU's stream, in which its work runs
static uint64_t charged, most, refused;
static int fences;

static enum vg_status charge(void *user, uint64_t bytes)
{
	CHECK(user == &charged);
	if (charged + bytes > most) {
		refused++;
		vg_fail(VG_INSUFFICIENT, 0, "the budget says no");
		vg_fail_amounts(bytes, most - charged);
		return VG_INSUFFICIENT;
	}
	charged += bytes;
	return VG_OK;
}

static void refund(void *user, uint64_t bytes)
{
	CHECK(bytes <= charged);
	charged -= bytes;
}

static enum vg_status fence(void *user, struct vg_stream *stream)
{
	fences++;
	return vg_stream_wait_stream(stream, work);
}

static void open_with(const struct space_budget *budget, uint64_t limit)
{
	struct vg_memory_space_options options = {.size = sizeof options, .limit = limit, .manual_defragmentation = 1};

	charged = refused = 0;
	fences = 0;
	most = UINT64_MAX;
	context = first_context();
	OK(vg_stream_create(context, NULL, &work));
	OK(space_create(context, &options, budget, &space));
}

static void close_it(void)
{
	vg_memory_space_destroy(space);
	vg_stream_destroy(work);
	vg_context_destroy(context);
	CHECK_INT(charged, 0);
}

TEST(a_refusing_budget_fails_allocations)
{
	static const struct space_budget budget = {.user = &charged, .charge = charge, .refund = refund};
	vg_address address, more;

	open_with(&budget, 64 * MIB);
	most = 8 * MIB;
	address = allocate(space, 4 * MIB);
	REFUSED(vg_memory_space_allocate(space, 6 * MIB, 0, &more), VG_INSUFFICIENT, "the budget says no");
	CHECK_INT(vg_last_error()->need, 6 * MIB);
	CHECK_INT(vg_last_error()->have, 4 * MIB);
	CHECK_INT(info_of(space).held, charged);
	CHECK_INT(charged, 4 * MIB);
	// The space must free its cached pages before it refuses an allocation.
	OK(vg_memory_space_free(space, address));
	CHECK_INT(charged, 4 * MIB);
	refused = 0;
	OK(vg_memory_space_allocate(space, 6 * MIB, 0, &more));
	CHECK_INT(refused, 1);
	CHECK_INT(charged, 6 * MIB);
	close_it();
}

// ---- running work -----------------------------------------------------------------------------------

enum { TURNS = 24 };

// Queues many writes to the memory, which take some time. The last one writes 0x11.
static void queue_work(vg_address address, size_t size)
{
	struct CUctx_st *before;

	OK(vg_context_set_current(context, &before));
	for (int i = TURNS; i > 0; i--)
		CHECK_INT(core_driver->cuMemsetD8Async(address, (unsigned char)(0x10 + i), size, work->handle),
			  CUDA_SUCCESS);
	OK(vg_context_restore(before));
}

// Frees memory while queued work uses it. If the space did not wait for that work, the driver would unmap the pages
// under it, and the context would be lost.
static void free_under_work(const struct space_budget *budget)
{
	open_with(budget, 128 * MIB);
	for (int i = 0; i < 3; i++) {
		vg_address address = allocate(space, 32 * MIB), small = allocate(space, MIB);
		queue_work(address, 32 * MIB);
		queue_work(small, MIB);
		OK(vg_memory_space_free(space, address));
		OK(vg_memory_space_free(space, small));
		OK(vg_memory_space_defragment(space, NULL));
		CHECK_INT(info_of(space).held, 0);
		OK(vg_stream_sync(work));
	}
	vg_address address = allocate(space, 32 * MIB);
	queue_work(address, 32 * MIB);
	OK(vg_memory_space_close(space));
	OK(vg_stream_sync(work));
}

TEST(pages_stay_mapped_until_work_ends)
{
	static const struct space_budget budget = {
		.user = &charged, .charge = charge, .refund = refund, .fence = fence};

	// Without a budget (the functions of the space's owner), the space waits for all work in the context.
	free_under_work(NULL);
	close_it();
	free_under_work(&budget);
	CHECK(fences >= 4);
	close_it();
}

TEST(blocks_move_after_work_ends)
{
	static const struct space_budget budget = {.fence = fence};
	struct vg_compact_result result;
	struct vg_movable_block *block[8];
	vg_address address[8];

	open_with(&budget, 64 * MIB);
	for (int i = 0; i < 8; i++)
		OK(vg_movable_block_create(space, MIB, &block[i]));
	for (int i = 1; i < 8; i += 2) {
		vg_movable_block_destroy(block[i]);
		block[i] = NULL;
	}
	for (int i = 0; i < 8; i += 2) {
		OK(vg_movable_block_pin(block[i], &address[i]));
		queue_work(address[i], MIB);
		OK(vg_movable_block_unpin(block[i]));
	}
	OK(vg_memory_space_compact(space, NULL, &result));
	CHECK_INT(result.blocks_moved, 2);
	CHECK(fences >= 1);
	for (int i = 0; i < 8; i += 2) {
		OK(vg_movable_block_pin(block[i], &address[i]));
		check_bytes(space, address[i], MIB, 0x11);
		vg_movable_block_destroy(block[i]);
	}
	close_it();
}

// Frees a block while a call copies from it. The copy must keep the block's pages mapped.
TEST(pages_stay_mapped_while_a_call_copies)
{
	struct space_position place;

	open_with(NULL, 64 * MIB);
	vg_address address = allocate(space, 3 * PAGE), other;
	pthread_mutex_lock(&space->lock);
	enum vg_status found = space_find(space, address, "address", &place);
	place.chunk->holds++; // a call that copies does the same before it calls the driver (access.c)
	pthread_mutex_unlock(&space->lock);
	OK(found);
	OK(vg_memory_space_free(space, address));
	OK(vg_memory_space_defragment(space, NULL));
	CHECK_INT(info_of(space).held, 3 * PAGE);
	REFUSED(vg_memory_space_allocate(space, 60 * MIB, 0, &other), VG_INSUFFICIENT, "limit");
	pthread_mutex_lock(&space->lock);
	place.chunk->holds--;
	pthread_mutex_unlock(&space->lock);
	OK(vg_memory_space_allocate(space, 60 * MIB, 0, &other));
	close_it();
}
