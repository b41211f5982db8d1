// Makes random calls of a space, and compares it with a model after every call. Blocks must not overlap, must keep
// their contents, and may move only if that is allowed. All figures must be exact.
// VIRGATE_TEST_SEED repeats a run, and VIRGATE_TEST_STEPS makes it longer.
#include "space/space.h"
#include "space_test.h"

#include <time.h>

enum { MOST = 96, LIMIT_MIB = 96 };

struct block {
	struct vg_movable_block *movable; // the block, if it is movable; NULL: it is a plain block
	vg_address address;		  // the address of a movable block is valid only while the block is pinned
	size_t size;
	unsigned pins;
	uint64_t contents;
	bool used;
};

static struct vg_memory_space *space;
static struct block blocks[MOST];
static uint64_t state, step, charged;
static vg_address stale[16];

static uint64_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static size_t below(size_t count)
{
	return (size_t)(next() % count);
}

// ---- the budget -------------------------------------------------------------------------------------

static enum vg_status charge(void *user, uint64_t bytes)
{
	charged += bytes;
	return VG_OK;
}

static void refund(void *user, uint64_t bytes)
{
	CHECK(bytes <= charged);
	charged -= bytes;
}

static const struct space_budget budget = {.charge = charge, .refund = refund};

// ---- the model --------------------------------------------------------------------------------------

static size_t random_size(void)
{
	switch (below(8)) {
	case 0:
		return 1 + below(255);
	case 1:
	case 2:
		return 1 + below(128 * KIB);
	case 3:
	case 4:
		return 1 + below(PAGE);
	case 5:
		return KIB << below(12);
	case 6:
		return PAGE + below(2 * PAGE);
	default:
		return 1 + below(64 * KIB);
	}
}

static struct block *find(bool used)
{
	size_t start = below(MOST);

	for (size_t i = 0; i < MOST; i++)
		if (blocks[(start + i) % MOST].used == used)
			return &blocks[(start + i) % MOST];
	return NULL;
}

static void check_apart(const struct block *block)
{
	for (const struct block *other = blocks; other < blocks + MOST; other++)
		if (other != block && other->used && (other->pins || !other->movable) &&
		    block->address < other->address + other->size && other->address < block->address + block->size)
			FAIL("step %llu: two blocks overlap", (unsigned long long)step);
}

static void pin(struct block *block)
{
	vg_address address;

	if (!block->movable)
		return;
	OK(vg_movable_block_pin(block->movable, &address));
	CHECK(!block->pins || address == block->address);
	block->address = address;
	block->pins++;
	check_apart(block);
}

static void unpin(struct block *block)
{
	if (!block->movable)
		return;
	OK(vg_movable_block_unpin(block->movable));
	block->pins--;
}

static void write_block(struct block *block)
{
	block->contents = next();
	pin(block);
	write_pattern(space, block->address, block->size, block->contents);
	unpin(block);
}

static void check_block(struct block *block)
{
	pin(block);
	check_pattern(space, block->address, block->size, block->contents);
	unpin(block);
}

static void create(void)
{
	struct block *block = find(false);
	enum vg_status status;

	if (!block)
		return;
	*block = (struct block){.size = random_size()};
	const size_t alignment = (size_t)1 << below(below(4) ? 9 : 22);
	if (next() & 1) {
		status = vg_movable_block_create(space, block->size, &block->movable);
	} else {
		status = vg_memory_space_allocate(space, block->size, alignment, &block->address);
		CHECK(status || block->address % alignment == 0);
	}
	if (status) {
		CHECK_INT(status, VG_INSUFFICIENT);
		CHECK(vg_last_error()->need > vg_last_error()->have);
		return;
	}
	block->used = true;
	if (!block->movable)
		check_apart(block);
	write_block(block);
}

static void end(struct block *block)
{
	check_block(block);
	if (block->movable) {
		while (block->pins)
			unpin(block);
		vg_movable_block_destroy(block->movable);
	} else {
		OK(vg_memory_space_free(space, block->address));
		stale[below(16)] = block->address;
	}
	block->used = false;
}

static void compact(void)
{
	struct vg_compact_options options = {.size = sizeof options, .max_bytes = next() & 1 ? 0 : below(8 * MIB) + 1};
	struct vg_compact_result result;

	OK(vg_memory_space_compact(space, &options, &result));
	CHECK(!options.max_bytes || result.bytes_moved <= options.max_bytes);
}

// Frees the addresses of freed blocks a second time. That must fail, unless a new block begins at the address.
static void free_stale(void)
{
	const vg_address address = stale[below(16)];

	for (const struct block *block = blocks; block < blocks + MOST; block++)
		if (block->used && (!block->movable || block->pins) && block->address == address)
			return;
	if (address)
		CHECK(vg_memory_space_free(space, address) != VG_OK);
}

static void do_something(void)
{
	struct block *block = find(true);
	const size_t what = below(100);

	if (what < 45)
		create();
	else if (what < 75 && block)
		end(block);
	else if (what < 80 && block)
		write_block(block);
	else if (what < 85 && block)
		check_block(block);
	else if (what < 89 && block && block->pins < 3)
		pin(block);
	else if (what < 93 && block && block->pins)
		unpin(block);
	else if (what < 95)
		free_stale();
	else if (what < 97)
		compact();
	else if (what < 98)
		OK(vg_memory_space_defragment(space, NULL));
	else if (what < 99)
		OK(vg_memory_space_set_pool_size(space, (unsigned)below(10), below(16 * MIB)));
}

static void check_model(void)
{
	struct vg_memory_space_info info = info_of(space);
	size_t count = 0, movable = 0, bytes = 0;

	for (const struct block *block = blocks; block < blocks + MOST; block++) {
		count += block->used;
		movable += block->used && block->movable;
		bytes += block->used ? block->size : 0;
	}
	check_figures(space);
	CHECK_INT(info.held, charged);
	CHECK_INT(info.blocks, count);
	CHECK_INT(info.movable_blocks, movable);
	CHECK_INT(info.allocated, bytes);
}

TEST(random_calls)
{
	const char *seed = getenv("VIRGATE_TEST_SEED"), *steps = getenv("VIRGATE_TEST_STEPS");
	struct vg_memory_space_options options = {.size = sizeof options, .limit = LIMIT_MIB * MIB};
	struct vg_context *context = first_context();
	const uint64_t last = steps ? strtoull(steps, NULL, 0) : 3000;

	state = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) << 16 | (uint64_t)getpid() | 1;
	printf("VIRGATE_TEST_SEED=%llu\n", (unsigned long long)state);
	OK(space_create(context, &options, &budget, &space));
	for (step = 0; step < last; step++) {
		do_something();
		check_model();
	}
	for (struct block *block = blocks; block < blocks + MOST; block++)
		if (block->used)
			end(block);
	check_model();
	OK(vg_memory_space_defragment(space, NULL));
	CHECK_INT(charged, 0);
	vg_memory_space_destroy(space);
	vg_context_destroy(context);
}
