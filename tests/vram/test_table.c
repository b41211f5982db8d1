// Tests the table of regions without a driver. Here an entry of the table can be used for three regions only, one after
// the other (VRAM_GENERATIONS). So the tests reach this limit soon.
#include "test.h"
#include "vram/vram.h"

#include <pthread.h>

enum { THREADS = 8, ROUNDS = 2000 };

static struct vg_vram_handle make(struct vram_region **ret_region)
{
	CHECK_INT(vram_table_allocate(ret_region), 0);
	vram_table_describe(*ret_region, &(struct vram_region){.size = 7});
	return vram_table_publish(*ret_region);
}

static void end(struct vg_vram_handle handle)
{
	struct vram_region *region;

	CHECK_INT(vram_table_close(handle, VRAM_CLOSE_UNLENT, &region), VRAM_OK);
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
	CHECK_INT(vram_table_pin_any_state(handle, &found), VRAM_STALE);
	CHECK_INT(vram_table_close(handle, VRAM_CLOSE_ALWAYS, &found), VRAM_STALE);
}

TEST(no_handle_is_used_twice)
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

TEST(entry_is_retired_when_its_generations_are_used_up)
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

TEST(unknown_handles_are_stale)
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

TEST(frozen_and_quarantined_regions_refuse_pins)
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
	CHECK_INT(vram_table_pin_any_state(handle, &found), VRAM_OK);
	vram_unpin(found, VRAM_READ);
	end(handle);
	handle = make(&region); // nothing of the old region may remain in the entry of the table
	CHECK_INT(vram_table_pin(handle, VRAM_WRITE, &found), VRAM_OK);
	vram_unpin(found, VRAM_WRITE);
	end(handle);
}

TEST(counts_do_not_overflow)
{
	struct vram_region *region, *found;
	struct vg_vram_handle handle = make(&region);

	for (int i = 0; i < 1023; i++)
		CHECK_INT(vram_table_pin(handle, VRAM_READ, &found), VRAM_OK);
	CHECK_INT(vram_table_pin(handle, VRAM_READ, &found), VRAM_CROWDED);
	CHECK_INT(vram_table_pin(handle, VRAM_WRITE, &found), VRAM_OK);
	for (int i = 0; i < 255; i++)
		CHECK_INT(vram_table_add_loan(region), VRAM_OK);
	CHECK_INT(vram_table_add_loan(region), VRAM_CROWDED);
	CHECK_INT(vram_table_count_loans(region), 255);
	vram_unpin(region, VRAM_WRITE);
	for (int i = 0; i < 1023; i++)
		vram_unpin(region, VRAM_READ);
	CHECK_INT(vram_table_close(handle, VRAM_CLOSE_UNLENT, &found), VRAM_LENT);
	for (int i = 0; i < 255; i++)
		vram_table_end_loan(region);
	end(handle);
}

TEST(closed_region_can_be_reopened)
{
	struct vram_region *region, *found;
	struct vg_vram_handle handle = make(&region);

	CHECK_INT(vram_table_close(handle, VRAM_CLOSE_UNLENT, &region), VRAM_OK);
	CHECK_INT(vram_table_pin(handle, VRAM_READ, &found), VRAM_STALE);
	CHECK_INT(vram_table_add_loan(region), VRAM_STALE);
	vram_table_reopen(region);
	CHECK_INT(vram_table_pin(handle, VRAM_READ, &found), VRAM_OK);
	vram_unpin(found, VRAM_READ);
	end(handle);
}

TEST(next_returns_all_valid_handles)
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
	int outcome = vram_table_close(race->handle, VRAM_CLOSE_UNLENT, &region);
	if (outcome == VRAM_OK) {
		atomic_fetch_add(&race->closed, 1);
		vram_table_retire(region);
	} else if (outcome != VRAM_STALE) {
		atomic_fetch_add(&race->wrong, 1);
	}
	return NULL;
}

TEST(exactly_one_of_several_closes_succeeds)
{
	struct vram_region *region;

	for (int i = 0; i < ROUNDS / 10; i++) {
		struct race race = {.handle = make(&region)};
		run_threads(close_it, &race);
		CHECK_INT(race.closed, 1);
		CHECK_INT(race.wrong, 0);
	}
}

// Pins the region again and again; one of the threads closes it. A pinned region must not be closed, and a closed
// region must not be pinned.
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
	if (vram_table_close(race->handle, VRAM_CLOSE_UNLENT, &region))
		return NULL;
	atomic_store(&race->ended, true);
	if (atomic_load(&race->inside))
		atomic_fetch_add(&race->wrong, 1);
	vram_table_retire(region);
	return NULL;
}

TEST(close_waits_for_pins)
{
	struct vram_region *region;

	for (int i = 0; i < ROUNDS / 10; i++) {
		struct race race = {.handle = make(&region)};
		run_threads(use_or_close, &race);
		CHECK(race.ended);
		CHECK_INT(race.wrong, 0);
	}
}

// Writes to the region; one of the threads freezes it. No writer may have the region pinned while it is frozen; readers
// may.
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

TEST(freeze_waits_for_writers)
{
	struct vram_region *region;
	struct race race = {.handle = make(&region)};

	for (int i = 0; i < ROUNDS / 100; i++)
		run_threads(write_or_freeze, &race);
	CHECK_INT(race.wrong, 0);
	end(race.handle);
}
