// Tests allocations that exceed the device's free memory: errors, leaks, and concurrent attempts.
#include "region_test.h"

#include <pthread.h>

static struct vg_vram_capacity capacity_of(struct vg_vram *vram)
{
	struct vg_vram_capacity capacity;

	OK(vg_vram_capacity(vram, &capacity));
	return capacity;
}

TEST(refusal_states_needed_and_free_bytes)
{
	const struct vg_vram_allocate_options *kinds[] = {NULL, GUARDED, SHAREABLE};
	const size_t granule = 2 << 20;
	struct vg_vram *vram = open_vram();
	struct vg_vram_handle handle = {0};
	const struct vg_vram_capacity before = capacity_of(vram);
	const size_t asked = before.total + 1, rounded = (asked + granule - 1) / granule * granule;

	for (int i = 0; i < 3; i++) {
		REFUSED(vg_vram_allocate(vram, asked, kinds[i], &handle), VG_INSUFFICIENT, "are free");
		CHECK(vg_status_is_retriable(vg_last_error()->status));
		CHECK_INT(vg_last_error()->need, i ? rounded : asked);
		CHECK(vg_last_error()->have > 0 && vg_last_error()->have <= before.total);
		CHECK_INT(handle.value, 0);
		CHECK_INT(capacity_of(vram).used, 0);
		CHECK_INT(capacity_of(vram).regions, 0);
	}
	handle = allocate(vram, 1); // a smaller allocation succeeds
	REFUSED(vg_vram_free((struct vg_vram_handle){0}), VG_INVALID, "none");
	CHECK_INT(vg_last_error()->need, 0);
	OK(vg_vram_free(handle));
	close_vram(vram);
}

TEST(refusal_leaks_nothing)
{
	struct vg_vram *vram = open_vram();
	struct vg_vram_handle handle;
	const size_t asked = capacity_of(vram).total + 1;

	MEMORY_STEADY(
		vg_vram_device(vram), for (int i = 0; i < 20; i++) {
			CHECK_INT(vg_vram_allocate(vram, asked, NULL, &handle), VG_INSUFFICIENT);
			CHECK_INT(vg_vram_allocate(vram, asked, GUARDED, &handle), VG_INSUFFICIENT);
			CHECK_INT(vg_vram_allocate(vram, asked, SHAREABLE, &handle), VG_INSUFFICIENT);
		});
	close_vram(vram);
}

TEST(retry_succeeds_when_memory_is_free)
{
	struct vg_vram *vram = open_vram();
	struct vg_vram_handle first, second = {0};
	const size_t most = capacity_of(vram).free / 5 * 3;

	first = allocate(vram, most);
	REFUSED(vg_vram_allocate(vram, most, NULL, &second), VG_INSUFFICIENT, "try again later");
	CHECK(vg_last_error()->have < most);
	OK(vg_vram_free(first));
	OK(vg_vram_allocate(vram, most, NULL, &second));
	OK(vg_vram_free(second));
	close_vram(vram);
}

// ---- threads that need more memory than is free --------------------------------------------------------

enum { THREADS = 4, ROUNDS = 20 };

struct rivals {
	struct vg_vram *vram;
	size_t bytes;
	atomic_int inside, most, got, refused;
};

// Allocates in many threads, without querying the free memory before. If an allocation is refused, the status must be
// VG_INSUFFICIENT.
static void *want(void *data)
{
	struct rivals *it = data;
	struct vg_vram_handle handle;

	for (int i = 0; i < ROUNDS; i++) {
		enum vg_status status = vg_vram_allocate(it->vram, it->bytes, i % 2 ? SHAREABLE : NULL, &handle);
		if (status == VG_INSUFFICIENT) {
			atomic_fetch_add(&it->refused, 1);
			continue;
		}
		if (status)
			return strdup(vg_last_error()->text);
		int inside = atomic_fetch_add(&it->inside, 1) + 1, most = atomic_load(&it->most);
		while (inside > most && !atomic_compare_exchange_weak(&it->most, &most, inside))
			;
		atomic_fetch_add(&it->got, 1);
		atomic_fetch_sub(&it->inside, 1);
		if (vg_vram_free(handle))
			return strdup(vg_last_error()->text);
	}
	return NULL;
}

TEST(concurrent_allocations_succeed_or_are_refused)
{
	struct rivals rivals = {.vram = open_vram()};
	pthread_t threads[THREADS];
	char *problem, *first = NULL;

	rivals.bytes = capacity_of(rivals.vram).free / 5 * 2;
	for (int i = 0; i < THREADS; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, want, &rivals), 0);
	for (int i = 0; i < THREADS; i++) {
		CHECK_INT(pthread_join(threads[i], (void **)&problem), 0);
		first = first ? first : problem;
	}
	if (first)
		FAIL("a thread: %s", first);
	CHECK(rivals.got > 0);
	CHECK_INT(rivals.got + rivals.refused, THREADS * ROUNDS);
	CHECK(rivals.most <= 2);
	CHECK_INT(capacity_of(rivals.vram).used, 0);
	close_vram(rivals.vram);
}
