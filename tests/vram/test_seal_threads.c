// Tests several threads that seal, verify, unseal, write and free the same regions.
#include "sealed_test.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 6, BYTES = 70000 };

struct shared {
	struct vg_vram *vram;
	struct vg_vram_handle handle;
	struct vg_seal seal;
	atomic_int rounds, failures, verified;
	atomic_bool stop;
};

static void in_threads(struct shared *shared, void *(*work)(void *), int count)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < count; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, work, shared), 0);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	CHECK_INT(shared->failures, 0);
}

static void *verify_often(void *shared_)
{
	struct shared *shared = shared_;

	for (int i = 0; i < 5; i++) {
		char byte;
		shared->failures += vg_vram_verify(shared->handle, &shared->seal) != VG_OK;
		shared->failures += vg_vram_read_at(shared->handle, (size_t)i, &byte, 1) != VG_OK;
	}
	return NULL;
}

TEST(threads_verify_one_region)
{
	struct shared shared = {.vram = open_sealing()};

	shared.handle = allocate_sealed(shared.vram, BYTES, PLAIN, &shared.seal);
	in_threads(&shared, verify_often, THREADS);
	OK(vg_vram_free(shared.handle));
	close_vram(shared.vram);
}

// Seals the region. This succeeds in exactly one thread; in the others, it must fail with VG_POLICY.
static void *seal_once(void *shared_)
{
	struct shared *shared = shared_;
	struct vg_seal seal;

	enum vg_status status = vg_vram_seal(shared->handle, &layer, &seal);
	shared->failures += status != VG_OK && status != VG_POLICY;
	shared->verified += status == VG_OK;
	return NULL;
}

TEST(exactly_one_thread_seals)
{
	struct shared shared = {.vram = open_sealing()};

	for (int i = 0; i < 5; i++) {
		shared.handle = allocate(shared.vram, BYTES);
		shared.verified = 0;
		in_threads(&shared, seal_once, THREADS);
		CHECK_INT(shared.verified, 1);
		OK(vg_vram_free(shared.handle));
	}
	close_vram(shared.vram);
}

// Writes to the region again and again. A write must either happen before the seal or be refused. So every returned
// seal must verify.
static void *write_always(void *shared_)
{
	struct shared *shared = shared_;
	unsigned char byte = 0;

	while (!shared->stop) {
		enum vg_status status = vg_vram_write_at(shared->handle, BYTES / 2 + byte, &byte, 1);
		shared->failures += status != VG_OK && status != VG_POLICY;
		byte++;
	}
	return NULL;
}

static void *seal_and_verify(void *shared_)
{
	struct shared *shared = shared_;

	for (int i = 0; i < 10; i++) {
		struct vg_seal seal;
		shared->failures += vg_vram_seal(shared->handle, &layer, &seal) != VG_OK;
		shared->failures += vg_vram_verify(shared->handle, &seal) != VG_OK;
		shared->failures += vg_vram_unseal(shared->handle) != VG_OK;
	}
	shared->stop = true;
	return NULL;
}

static void *write_or_seal(void *shared_)
{
	struct shared *shared = shared_;

	return atomic_fetch_add(&shared->rounds, 1) == 0 ? seal_and_verify(shared) : write_always(shared);
}

TEST(writes_are_sealed_or_refused)
{
	struct shared shared = {.vram = open_sealing()};

	shared.handle = allocate(shared.vram, BYTES);
	in_threads(&shared, write_or_seal, 3);
	OK(vg_vram_free(shared.handle));
	close_vram(shared.vram);
}

// Verifies the region while other threads unseal it and write to it. If the region is not sealed, verifying must fail
// with VG_STATE, and must not quarantine the region.
static void *verify_until_stopped(struct shared *shared)
{
	while (!shared->stop) {
		enum vg_status status = vg_vram_verify(shared->handle, &shared->seal);
		shared->failures += status != VG_OK && status != VG_STATE;
		shared->verified += status == VG_OK;
	}
	return NULL;
}

static void *unseal_or_verify(void *shared_)
{
	struct shared *shared = shared_;

	if (atomic_fetch_add(&shared->rounds, 1))
		return verify_until_stopped(shared);
	for (int i = 0; i < 10000 && !shared->verified && !shared->failures; i++)
		usleep(100);
	shared->failures += vg_vram_unseal(shared->handle) != VG_OK;
	shared->failures += vg_vram_fill(shared->handle, 0, 0xa5, BYTES) != VG_OK;
	shared->stop = true;
	return NULL;
}

TEST(unsealing_during_verify_quarantines_nothing)
{
	for (int i = 0; i < 5; i++) {
		struct shared shared = {.vram = open_sealing()};
		shared.handle = allocate_sealed(shared.vram, BYTES, PLAIN, &shared.seal);
		in_threads(&shared, unseal_or_verify, 4);
		OK(vg_vram_free(shared.handle));
		close_vram(shared.vram);
	}
}

static void *free_or_verify(void *shared_)
{
	struct shared *shared = shared_;

	if (atomic_fetch_add(&shared->rounds, 1) == 0) {
		usleep(2000);
		shared->failures += vg_vram_free(shared->handle) != VG_OK;
		return NULL;
	}
	enum vg_status status;
	while ((status = vg_vram_verify(shared->handle, &shared->seal)) == VG_OK)
		;
	shared->failures += status != VG_STALE;
	return NULL;
}

TEST(region_is_freed_during_verify)
{
	for (int i = 0; i < 5; i++) {
		struct shared shared = {.vram = open_sealing()};
		shared.handle = allocate_sealed(shared.vram, BYTES, PLAIN, &shared.seal);
		in_threads(&shared, free_or_verify, 4);
		close_vram(shared.vram);
	}
}

// Verifies a region that was changed. A thread must either quarantine the region itself, or find that another thread
// has done so.
static void *find_damage(void *shared_)
{
	struct shared *shared = shared_;

	shared->failures += vg_vram_verify(shared->handle, &shared->seal) != VG_INTEGRITY;
	return NULL;
}

TEST(threads_find_the_same_change)
{
	struct shared shared = {.vram = open_sealing()};

	shared.handle = allocate_sealed(shared.vram, BYTES, PLAIN, &shared.seal);
	write_unseen(shared.handle, BYTES - 1, 99);
	in_threads(&shared, find_damage, THREADS);
	check_quarantined(shared.vram, shared.handle, &shared.seal);
	close_vram(shared.vram);
}
