// Tests many threads that use one space while it is compacted and defragmented, and other threads that use another
// space. Also tests a space that is closed while threads use it. Meant for the thread sanitizer.
#include "space_test.h"

#include <pthread.h>
#include <stdatomic.h>

enum { WORKERS = 4, ROUNDS = 60, HELD = 12 };

static atomic_int failures, running;
static struct vg_memory_space *spaces[2];

// Checks a condition in a thread. CHECK() would call longjmp() if it failed, which is allowed only in the thread of the
// test.
#define EXPECT(condition)                                                                                          \
	do {                                                                                                       \
		if (!(condition)) {                                                                                \
			atomic_fetch_add(&failures, 1);                                                            \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, vg_last_error()->text); \
		}                                                                                                  \
	} while (0)

static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static size_t random_size(uint64_t *state)
{
	static const size_t most[] = {4 * KIB, 128 * KIB, MIB, 3 * MIB};

	return 1 + next(state) % most[next(state) % 4];
}

static bool holds_pattern(struct vg_memory_space *space, vg_address address, size_t size, uint64_t seed)
{
	unsigned char *want = malloc(size), *have = malloc(size);

	fill_pattern(want, size, seed);
	bool same = vg_memory_space_read(space, have, address, size) == VG_OK && memcmp(want, have, size) == 0;
	free(want);
	free(have);
	return same;
}

static bool put_pattern(struct vg_memory_space *space, vg_address address, size_t size, uint64_t seed)
{
	unsigned char *data = malloc(size);

	fill_pattern(data, size, seed);
	bool written = vg_memory_space_write(space, address, data, size) == VG_OK;
	free(data);
	return written;
}

static void *use_plain(void *argument)
{
	uint64_t state = (uintptr_t)argument * 0x9e3779b97f4a7c15u | 1;
	struct vg_memory_space *space = spaces[(uintptr_t)argument % 3 == 0];
	vg_address address;

	for (int i = 0; i < ROUNDS; i++) {
		size_t size = random_size(&state);
		uint64_t seed = next(&state);
		enum vg_status status = vg_memory_space_allocate(space, size, 0, &address);
		EXPECT(status == VG_OK || status == VG_INSUFFICIENT);
		if (status)
			continue;
		EXPECT(put_pattern(space, address, size, seed));
		EXPECT(holds_pattern(space, address, size, seed));
		EXPECT(vg_memory_space_free(space, address) == VG_OK);
	}
	atomic_fetch_sub(&running, 1);
	return NULL;
}

static void *use_movable(void *argument)
{
	uint64_t state = (uintptr_t)argument * 0x2545f4914f6cdd1du | 1, seed[HELD] = {0};
	struct vg_movable_block *block[HELD] = {NULL};
	vg_address address;

	for (int i = 0; i < ROUNDS; i++) {
		size_t at = next(&state) % HELD;
		if (block[at]) {
			EXPECT(vg_movable_block_pin(block[at], &address) == VG_OK);
			EXPECT(holds_pattern(spaces[0], address, vg_movable_block_size(block[at]), seed[at]));
			EXPECT(vg_movable_block_unpin(block[at]) == VG_OK);
			if (next(&state) % 2)
				continue;
			vg_movable_block_destroy(block[at]);
			block[at] = NULL;
		}
		seed[at] = next(&state);
		size_t size = random_size(&state) / 2 + 1;
		enum vg_status status = vg_movable_block_create(spaces[0], size, &block[at]);
		EXPECT(status == VG_OK || status == VG_INSUFFICIENT);
		if (status)
			continue;
		EXPECT(vg_movable_block_pin(block[at], &address) == VG_OK);
		EXPECT(put_pattern(spaces[0], address, size, seed[at]));
		EXPECT(vg_movable_block_unpin(block[at]) == VG_OK);
	}
	for (int i = 0; i < HELD; i++)
		vg_movable_block_destroy(block[i]);
	atomic_fetch_sub(&running, 1);
	return NULL;
}

static void *tidy(void *argument)
{
	while (atomic_load(&running)) {
		enum vg_status status = vg_memory_space_compact(spaces[0], NULL, NULL);
		EXPECT(status == VG_OK || status == VG_BUSY);
		EXPECT(vg_memory_space_defragment(spaces[0], NULL) == VG_OK);
	}
	return NULL;
}

static void *look(void *argument)
{
	struct vg_memory_space_info info;
	struct vg_page pages[256];
	size_t count;

	while (atomic_load(&running)) {
		EXPECT(vg_memory_space_info(spaces[0], &info) == VG_OK);
		EXPECT(info.fragmentation >= 0 && info.fragmentation <= 1);
		EXPECT(info.padding_waste >= 0 && info.padding_waste <= 1);
		EXPECT(info.held <= info.limit);
		EXPECT(info.allocated + info.padding + info.free <= info.held);
		enum vg_status status = vg_memory_space_pages(spaces[0], pages, 256, &count);
		EXPECT(status == VG_OK && count <= 256);
	}
	return NULL;
}

TEST(mixed_calls)
{
	pthread_t workers[2 * WORKERS], others[3];
	struct vg_memory_space_options options = {.limit = 64 * MIB, .defragmentation_threshold = 0.05};

	spaces[0] = open_space_with(&options);
	spaces[1] = open_space_with(&options);
	atomic_store(&running, 2 * WORKERS);
	for (uintptr_t i = 0; i < 2 * WORKERS; i++)
		CHECK_INT(pthread_create(&workers[i], NULL, i < WORKERS ? use_plain : use_movable, (void *)(i + 1)), 0);
	for (int i = 0; i < 3; i++)
		CHECK_INT(pthread_create(&others[i], NULL, i < 2 ? tidy : look, NULL), 0);
	for (int i = 0; i < 2 * WORKERS; i++)
		pthread_join(workers[i], NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(others[i], NULL);
	CHECK_INT(atomic_load(&failures), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_INT(info_of(spaces[i]).allocated, 0);
		check_figures(spaces[i]);
		OK(vg_memory_space_defragment(spaces[i], NULL));
		CHECK_INT(info_of(spaces[i]).held, 0);
		vg_memory_space_destroy(spaces[i]);
	}
}

// ---- close ------------------------------------------------------------------------------------------

static void *use_until_closed(void *argument)
{
	uint64_t state = (uintptr_t)argument * 0x9e3779b97f4a7c15u | 1;
	enum vg_status status = VG_OK;
	struct vg_movable_block *block;
	vg_address address;
	char byte = 1;

	while (status != VG_CLOSED) {
		status = vg_memory_space_allocate(spaces[0], random_size(&state), 0, &address);
		EXPECT(status == VG_OK || status == VG_INSUFFICIENT || status == VG_CLOSED);
		if (status == VG_OK) {
			status = vg_memory_space_write(spaces[0], address, &byte, 1);
			EXPECT(status == VG_OK || status == VG_CLOSED);
			status = vg_memory_space_free(spaces[0], address);
			EXPECT(status == VG_OK || status == VG_CLOSED);
		}
		if (vg_movable_block_create(spaces[0], 1000, &block) == VG_OK) {
			enum vg_status pinned = vg_movable_block_pin(block, &address);
			EXPECT(pinned == VG_OK || pinned == VG_CLOSED);
			if (pinned == VG_OK)
				(void)vg_movable_block_unpin(block);
			vg_movable_block_destroy(block);
		}
	}
	return NULL;
}

static void *compact_until_closed(void *argument)
{
	enum vg_status status = VG_OK;

	while (status != VG_CLOSED) {
		status = vg_memory_space_compact(spaces[0], NULL, NULL);
		EXPECT(status == VG_OK || status == VG_CLOSED);
	}
	return NULL;
}

TEST(a_space_can_be_closed_while_threads_use_it)
{
	pthread_t threads[WORKERS + 1];

	for (int round = 0; round < 5; round++) {
		spaces[0] = open_space(64 * MIB);
		for (uintptr_t i = 0; i <= WORKERS; i++)
			CHECK_INT(pthread_create(&threads[i], NULL,
						 i < WORKERS ? use_until_closed : compact_until_closed,
						 (void *)(i + 1)),
				  0);
		usleep(20000);
		OK(vg_memory_space_close(spaces[0]));
		for (int i = 0; i <= WORKERS; i++)
			pthread_join(threads[i], NULL);
		vg_memory_space_destroy(spaces[0]);
	}
	CHECK_INT(atomic_load(&failures), 0);
}
