// Tests several threads that use the same regions; meant for the thread sanitizer, too.
#include "region_test.h"

#include <pthread.h>
#include <time.h>

enum { THREADS = 4 };

static void run_threads(void *(*body)(void *), void *data)
{
	pthread_t threads[THREADS];
	const char *problem, *first = NULL;

	for (int i = 0; i < THREADS; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, body, data), 0);
	for (int i = 0; i < THREADS; i++) {
		CHECK_INT(pthread_join(threads[i], (void **)&problem), 0);
		first = first ? first : problem;
	}
	if (first)
		FAIL("a thread: %s", first);
}

// Makes a call in a thread. If it fails, the thread returns the failure to the thread that joins it.
#define DO(call)                      \
	do {                          \
		if (call)             \
			return #call; \
	} while (0)

// ---- the same handle ----------------------------------------------------------------------------------

enum { BYTES = 256 << 10, ROUNDS = 30 };

struct race {
	struct vg_vram_handle handle;
	pthread_barrier_t start;
	atomic_int freed, stale, read;
};

static void *free_it(void *data)
{
	struct race *race = data;

	pthread_barrier_wait(&race->start);
	enum vg_status status = vg_vram_free(race->handle);
	atomic_fetch_add(status == VG_OK ? &race->freed : &race->stale, 1);
	return status == VG_OK || status == VG_STALE ? NULL : "neither OK nor STALE";
}

TEST(exactly_one_of_several_frees_succeeds)
{
	struct vg_vram *vram = open_vram();

	for (int i = 0; i < ROUNDS; i++) {
		struct race race = {.handle = allocate(vram, 4096)};
		pthread_barrier_init(&race.start, NULL, THREADS);
		run_threads(free_it, &race);
		pthread_barrier_destroy(&race.start);
		CHECK_INT(race.freed, 1);
		CHECK_INT(race.stale, THREADS - 1);
	}
	close_vram(vram);
}

// Reads the region again and again; one of the threads frees it. A reader must get the old contents or VG_STALE, but
// never zeros.
static void *read_or_free(void *data)
{
	struct race *race = data;
	bool frees = pthread_barrier_wait(&race->start) == PTHREAD_BARRIER_SERIAL_THREAD;
	unsigned char *copy = malloc(BYTES);
	const char *problem = NULL;

	if (frees) {
		usleep(300);
		problem = vg_vram_free(race->handle) ? "vg_vram_free" : NULL;
	}
	while (!frees && !problem) {
		memset(copy, 0, BYTES);
		enum vg_status status = vg_vram_read_at(race->handle, 0, copy, BYTES);
		if (status) {
			problem = status == VG_STALE ? NULL : "a read is neither OK nor STALE";
			break;
		}
		if (copy[0] != 7 || memcmp(copy, copy + 1, BYTES - 1) != 0)
			problem = "a read found what was not written";
		atomic_fetch_add(&race->read, 1);
	}
	free(copy);
	return (void *)problem;
}

TEST(reads_complete_before_the_region_is_freed)
{
	struct vg_vram *vram = open_vram();
	int read = 0;

	for (int i = 0; i < ROUNDS; i++) {
		struct race race = {.handle = allocate(vram, BYTES)};
		OK(vg_vram_fill(race.handle, 0, 7, BYTES));
		pthread_barrier_init(&race.start, NULL, THREADS);
		run_threads(read_or_free, &race);
		pthread_barrier_destroy(&race.start);
		read += race.read;
	}
	CHECK(read > 0); // otherwise no thread read in time, and the test proves nothing
	close_vram(vram);
}

// ---- all operations at once ---------------------------------------------------------------------------

enum { SHARED = 4, STEPS = 150 };

struct crowd {
	struct vg_vram *vram;
	_Atomic uint64_t handles[SHARED]; // handles of regions that threads allocate and free
	atomic_uint seeds;
};

// Returns whether a call may return this status for a handle that other threads use and free.
static bool expected(enum vg_status status)
{
	return status == VG_OK || status == VG_STALE || status == VG_BUSY || status == VG_INVALID;
}

static const char *step(struct crowd *crowd, unsigned *seed)
{
	_Atomic uint64_t *place = &crowd->handles[rand_r(seed) % SHARED];
	struct vg_vram_handle handle = {*place}, other = {crowd->handles[rand_r(seed) % SHARED]}, made;
	struct vg_vram_capacity capacity;
	struct vg_vram_loan loan;
	char data[512] = {0};

	switch (rand_r(seed) % 7) {
	case 0:
		DO(vg_vram_allocate(crowd->vram, 1024, rand_r(seed) % 8 ? NULL : GUARDED, &made));
		handle.value = atomic_exchange(place, made.value);
		if (handle.value && !expected(vg_vram_free(handle)))
			return "vg_vram_free of a replaced region";
		return NULL;
	case 1:
		return expected(vg_vram_free(handle)) ? NULL : "vg_vram_free";
	case 2:
		return expected(vg_vram_write_at(handle, 512, data, sizeof data)) ? NULL : "vg_vram_write_at";
	case 3:
		return expected(vg_vram_copy(handle, 0, other, 512, 512)) ? NULL : "vg_vram_copy";
	case 4:
		if (vg_vram_borrow(handle, VG_VRAM_READ_WRITE, &loan) == VG_OK)
			DO(vg_vram_give_back(&loan));
		return NULL;
	case 5:
		DO(vg_vram_capacity(crowd->vram, &capacity));
		return expected(vg_vram_fill(handle, 0, 3, 1024)) ? NULL : "vg_vram_fill";
	default:
		return expected(vg_vram_read_at(handle, 0, data, sizeof data)) ? NULL : "vg_vram_read_at";
	}
}

static void *mingle(void *data)
{
	struct crowd *crowd = data;
	unsigned seed = atomic_fetch_add(&crowd->seeds, 1);
	const char *problem = NULL;

	for (int i = 0; i < STEPS && !problem; i++)
		problem = step(crowd, &seed);
	return (void *)problem;
}

TEST(threads_use_all_calls_at_once)
{
	struct crowd crowd = {.vram = open_vram()};
	struct vg_vram_report report;
	struct vg_vram_capacity capacity;

	run_threads(mingle, &crowd);
	OK(vg_vram_capacity(crowd.vram, &capacity));
	OK(vg_vram_close(crowd.vram, &report));
	CHECK_INT(report.regions, capacity.regions);
	CHECK_INT(report.failures, 0);
	CHECK_INT(report.loans, 0);
	vg_vram_destroy(crowd.vram);
}

// ---- short reads during long ones ---------------------------------------------------------------------

// A long read is done in eight parts or more. At least AT_LEAST short reads must succeed meanwhile, between these
// parts.
enum { LONG = 256 << 20, SHORT = 4096, ATTEMPTS = 10, AT_LEAST = 4 };

struct pair {
	struct vg_vram_handle handle;
	char *to;
	atomic_bool begun, ended;
	double seconds; // duration of the long read
};

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void *read_long(void *data)
{
	struct pair *pair = data;
	double begin = now();

	atomic_store(&pair->begun, true);
	enum vg_status status = vg_vram_read_at(pair->handle, 0, pair->to, LONG);
	pair->seconds = now() - begin;
	atomic_store(&pair->ended, true);
	return status ? "the long read" : NULL;
}

// Makes short reads of the region during a long one. Returns their number, and stores the time of the slowest in
// *ret_longest. If short reads waited for the long one, one would take as long as the rest of the long read.
static int read_beside(struct pair *pair, double *ret_longest)
{
	char data[SHORT];
	pthread_t thread;
	const char *problem;
	double longest = 0;
	int count = 0;

	pair->begun = pair->ended = false;
	CHECK_INT(pthread_create(&thread, NULL, read_long, pair), 0);
	while (!atomic_load(&pair->begun))
		;
	for (; !atomic_load(&pair->ended); count++) {
		double begin = now();
		OK(vg_vram_read_at(pair->handle, LONG - SHORT, data, SHORT));
		double took = now() - begin;
		longest = took > longest ? took : longest;
	}
	CHECK_INT(pthread_join(thread, (void **)&problem), 0);
	CHECK(problem == NULL);
	*ret_longest = longest;
	return count;
}

static void check_beside(struct vg_vram *vram, char *to, const char *what)
{
	struct pair pair = {.handle = allocate(vram, LONG), .to = to};
	double longest = 0;
	int count = 0, attempts = 0;

	memset(pair.to, 1, LONG);
	// Repeats the attempt if a short read was slow, because a thread may have to wait for a processor on a busy
	// machine.
	do
		count = read_beside(&pair, &longest);
	while ((count < AT_LEAST || longest > pair.seconds / 2) && ++attempts < ATTEMPTS);
	printf("a read of %d MiB into %s memory took %.1f ms; of %d reads of 4 KiB beside it the longest took %.1f "
	       "ms\n",
	       LONG >> 20, what, pair.seconds * 1e3, count, longest * 1e3);
	CHECK(count >= AT_LEAST);
	CHECK(longest <= pair.seconds / 2);
	CHECK(pair.to[0] == 0 && memcmp(pair.to, pair.to + 1, LONG - 1) == 0);
	OK(vg_vram_free(pair.handle));
}

TEST(short_read_does_not_wait_for_a_long_read)
{
	struct vg_vram *vram = open_vram();
	char *to = malloc(LONG);

	check_beside(vram, to, "pageable");
	free(to);
	close_vram(vram);
}

TEST(short_read_does_not_wait_for_a_page_locked_one)
{
	struct vg_vram *vram = open_vram();
	struct vg_context *context = first_context();
	struct vg_memory_resource *pinned;
	struct vg_buffer *to;

	OK(vg_legacy_pinned_resource_create(context, &pinned));
	OK(vg_buffer_create(pinned, LONG, NULL, &to));
	check_beside(vram, (char *)(uintptr_t)vg_buffer_address(to), "page-locked");
	vg_buffer_destroy(to);
	vg_memory_resource_destroy(pinned);
	vg_context_destroy(context);
	close_vram(vram);
}
