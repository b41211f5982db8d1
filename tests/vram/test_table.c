// Handles and pins by themselves, with a table whose places are worn out after three uses.
#include "test.h"
#include "vram/vram.h"

#include <pthread.h>

enum { THREADS = 8, ROUNDS = 2000 };

static struct vg_vram_handle make(struct vram_region **ret_region)
{
	CHECK_INT(vram_table_take(ret_region), 0);
	vram_table_describe(*ret_region, &(struct vram_region){.size = 7});
	return vram_table_publish(*ret_region);
}

static void end(struct vg_vram_handle handle)
{
	struct vram_region *region;

	CHECK_INT(vram_table_close(handle, false, &region), VRAM_OK);
	vram_table_retire(region);
}

TEST(a_handle_names_its_region_until_it_is_closed)
{
	struct vram_region *region, *found;
	struct vg_vram_handle handle = make(&region);

	CHECK(handle.value != 0);
	CHECK_INT(vram_table_pin(handle, VRAM_READ, &found), VRAM_OK);
	CHECK(found == region);
	CHECK_INT(found->size, 7);
	vram_unpin(found, VRAM_READ);
	end(handle);
	CHECK_INT(vram_table_pin(handle, VRAM_READ, &found), VRAM_STALE);
	CHECK_INT(vram_table_look(handle, &found), VRAM_STALE);
	CHECK_INT(vram_table_close(handle, true, &found), VRAM_STALE);
}

TEST(no_handle_is_ever_given_out_twice)
{
	enum { MADE = 2000 };
	static uint64_t seen[MADE];
	struct vram_region *region;

	for (int i = 0; i < MADE; i++) {
		struct vg_vram_handle handle = make(&region);
		seen[i] = handle.value;
		for (int j = 0; j < i; j++)
			CHECK(seen[j] != handle.value);
		end(handle);
	}
	for (int i = 0; i < MADE; i++)
		CHECK_INT(vram_table_pin((struct vg_vram_handle){seen[i]}, VRAM_READ, &region), VRAM_STALE);
}

TEST(a_place_is_worn_out_with_its_generations)
{
	struct vram_region *region;
	uint32_t highest = 0;

	for (int i = 0; i < 100; i++) {
		struct vg_vram_handle handle = make(&region);
		CHECK(handle.value >> 32 >= 1 && handle.value >> 32 <= 3);
		highest = region->index > highest ? region->index : highest;
		end(handle);
	}
	CHECK(highest >= 100 / 3);
}

TEST(numbers_that_were_never_given_out_name_nothing)
{
	struct vram_region *region, *other;
	struct vg_vram_handle handle = make(&region);
	const uint64_t wrong[] = {0,
				  1,
				  UINT32_MAX,
				  (uint64_t)1 << 32,
				  UINT64_MAX,
				  handle.value + ((uint64_t)1 << 32),
				  handle.value ^ 0x80000000,
				  handle.value + 100000};

	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		if (wrong[i] != handle.value)
			CHECK_INT(vram_table_pin((struct vg_vram_handle){wrong[i]}, VRAM_WRITE, &other), VRAM_STALE);
	}
	end(handle);
}

TEST(what_is_frozen_or_quarantined_refuses)
{
	struct vram_region *region, *found;
	struct vg_vram_handle handle = make(&region);

	CHECK(vram_table_freeze(region));
	CHECK(!vram_table_freeze(region));
	CHECK_INT(vram_table_pin(handle, VRAM_WRITE, &found), VRAM_FROZEN);
	CHECK_INT(vram_table_pin(handle, VRAM_READ, &found), VRAM_OK);
	vram_unpin(found, VRAM_READ);
	vram_unfreeze(region);
	CHECK_INT(vram_table_pin(handle, VRAM_WRITE, &found), VRAM_OK);
	vram_unpin(found, VRAM_WRITE);
	vram_quarantine(region);
	CHECK_INT(vram_table_pin(handle, VRAM_WRITE, &found), VRAM_QUARANTINED);
	CHECK_INT(vram_table_pin(handle, VRAM_READ, &found), VRAM_QUARANTINED);
	CHECK_INT(vram_table_look(handle, &found), VRAM_OK);
	vram_unpin(found, VRAM_READ);
	end(handle);
	handle = make(&region); // the next use of a place begins afresh
	CHECK_INT(vram_table_pin(handle, VRAM_WRITE, &found), VRAM_OK);
	vram_unpin(found, VRAM_WRITE);
	end(handle);
}

TEST(counts_do_not_run_over)
{
	struct vram_region *region, *found;
	struct vg_vram_handle handle = make(&region);

	for (int i = 0; i < 1023; i++)
		CHECK_INT(vram_table_pin(handle, VRAM_READ, &found), VRAM_OK);
	CHECK_INT(vram_table_pin(handle, VRAM_READ, &found), VRAM_CROWDED);
	CHECK_INT(vram_table_pin(handle, VRAM_WRITE, &found), VRAM_OK);
	for (int i = 0; i < 255; i++)
		CHECK_INT(vram_table_lend(region), VRAM_OK);
	CHECK_INT(vram_table_lend(region), VRAM_CROWDED);
	CHECK_INT(vram_table_loans(region), 255);
	vram_unpin(region, VRAM_WRITE);
	for (int i = 0; i < 1023; i++)
		vram_unpin(region, VRAM_READ);
	CHECK_INT(vram_table_close(handle, false, &found), VRAM_LENT);
	for (int i = 0; i < 255; i++)
		vram_table_take_back(region);
	end(handle);
}

TEST(a_region_that_was_closed_can_be_opened_again)
{
	struct vram_region *region, *found;
	struct vg_vram_handle handle = make(&region);

	CHECK_INT(vram_table_close(handle, false, &region), VRAM_OK);
	CHECK_INT(vram_table_pin(handle, VRAM_READ, &found), VRAM_STALE);
	CHECK_INT(vram_table_lend(region), VRAM_STALE);
	vram_table_reopen(region);
	CHECK_INT(vram_table_pin(handle, VRAM_READ, &found), VRAM_OK);
	vram_unpin(found, VRAM_READ);
	end(handle);
}

TEST(a_walk_finds_what_is_open)
{
	struct vram_region *region;
	struct vg_vram_handle handles[3] = {make(&region), make(&region), make(&region)}, found;
	int seen = 0;

	end(handles[1]);
	for (uint32_t cursor = 0; vram_table_next(&cursor, &found); seen++)
		CHECK(found.value == handles[0].value || found.value == handles[2].value);
	CHECK_INT(seen, 2);
	end(handles[0]);
	end(handles[2]);
}

// ---- threads ----------------------------------------------------------------------------------------

struct race {
	struct vg_vram_handle handle;
	pthread_barrier_t start;
	atomic_int closed, inside, wrong;
	atomic_bool ended;
};

static void run_threads(void *(*body)(void *), struct race *race)
{
	pthread_t threads[THREADS];

	pthread_barrier_init(&race->start, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, body, race), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&race->start);
}

static void *close_it(void *data)
{
	struct race *race = data;
	struct vram_region *region;

	pthread_barrier_wait(&race->start);
	int outcome = vram_table_close(race->handle, false, &region);
	if (outcome == VRAM_OK) {
		atomic_fetch_add(&race->closed, 1);
		vram_table_retire(region);
	} else if (outcome != VRAM_STALE) {
		atomic_fetch_add(&race->wrong, 1);
	}
	return NULL;
}

TEST(of_several_that_close_exactly_one_does)
{
	struct vram_region *region;

	for (int i = 0; i < ROUNDS / 10; i++) {
		struct race race = {.handle = make(&region)};
		run_threads(close_it, &race);
		CHECK_INT(race.closed, 1);
		CHECK_INT(race.wrong, 0);
	}
}

// Whoever has it pinned finds it open; whoever closed it finds nobody in it.
static void *use_or_close(void *data)
{
	struct race *race = data;
	struct vram_region *region;
	bool closes = pthread_barrier_wait(&race->start) == PTHREAD_BARRIER_SERIAL_THREAD;

	for (int i = 0; !closes || i < 50; i++) {
		enum vram_use use = i % 3 ? VRAM_READ : VRAM_WRITE;
		if (vram_table_pin(race->handle, use, &region))
			return NULL;
		atomic_fetch_add(&race->inside, 1);
		if (atomic_load(&race->ended))
			atomic_fetch_add(&race->wrong, 1);
		atomic_fetch_sub(&race->inside, 1);
		vram_unpin(region, use);
	}
	if (vram_table_close(race->handle, false, &region))
		return NULL;
	atomic_store(&race->ended, true);
	if (atomic_load(&race->inside))
		atomic_fetch_add(&race->wrong, 1);
	vram_table_retire(region);
	return NULL;
}

TEST(closing_waits_for_those_inside)
{
	struct vram_region *region;

	for (int i = 0; i < ROUNDS / 10; i++) {
		struct race race = {.handle = make(&region)};
		run_threads(use_or_close, &race);
		CHECK(race.ended);
		CHECK_INT(race.wrong, 0);
	}
}

// Writers that were let in are out when the region is frozen; readers come and go.
static void *write_or_freeze(void *data)
{
	struct race *race = data;
	struct vram_region *region;
	bool freezes = pthread_barrier_wait(&race->start) == PTHREAD_BARRIER_SERIAL_THREAD;

	for (int i = 0; i < 200; i++) {
		if (vram_table_pin(race->handle, freezes ? VRAM_READ : VRAM_WRITE, &region))
			continue;
		if (freezes) {
			vram_table_freeze(region);
			atomic_store(&race->ended, true);
			if (atomic_load(&race->inside))
				atomic_fetch_add(&race->wrong, 1);
			atomic_store(&race->ended, false);
			vram_unfreeze(region);
		} else {
			atomic_fetch_add(&race->inside, 1);
			if (atomic_load(&race->ended))
				atomic_fetch_add(&race->wrong, 1);
			atomic_fetch_sub(&race->inside, 1);
		}
		vram_unpin(region, freezes ? VRAM_READ : VRAM_WRITE);
	}
	return NULL;
}

TEST(freezing_waits_for_the_writers)
{
	struct vram_region *region;
	struct race race = {.handle = make(&region)};

	for (int i = 0; i < ROUNDS / 100; i++)
		run_threads(write_or_freeze, &race);
	CHECK_INT(race.wrong, 0);
	end(race.handle);
}
