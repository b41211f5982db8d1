// 16 processes compete for the last MiB while the limit changes, and some of them are killed. The charges never exceed
// the limit, and their sum is exact at the end. Runs for RACE_SECONDS, or 2 s.
#include "base/clock.h"
#include "ledger_file.h"
#include "test.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { COMPETITORS = 16, MOST_ALLOCATIONS = 32 };
static const uint64_t MIB = 1 << 20, KIB = 1 << 10, BASE = 7 << 20;

struct shared {
	uint64_t stop;
	struct {
		uint64_t charged, granted, refused;
	} competitor[COMPETITORS];
};
static struct shared *shared;

static void compete(struct vg_ledger *ledger, int number)
{
	uint64_t state = 88172645463325252ull + (uint64_t)number * 7919 + (uint64_t)getpid();
	uint64_t sizes[MOST_ALLOCATIONS] = {0};

	while (!__atomic_load_n(&shared->stop, __ATOMIC_RELAXED)) {
		uint64_t random = next_random(&state), *size = &sizes[random % MOST_ALLOCATIONS];
		if (*size) {
			vg_ledger_refund(ledger, VG_LEDGER_DEVICE, *size);
			*size = 0;
			continue;
		}
		uint64_t wanted = (random >> 32) % (256 * KIB) + 1;
		int r = vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, wanted);
		if (r == 0)
			*size = wanted, shared->competitor[number].granted++;
		else if (r == VG_LEDGER_REFUSED)
			shared->competitor[number].refused++;
		else
			_exit(2);
	}
	uint64_t charged = 0;
	for (int i = 0; i < MOST_ALLOCATIONS; i++)
		charged += sizes[i];
	shared->competitor[number].charged = charged;
	for (;;)
		pause();
}

static pid_t start_competitor(struct vg_ledger *ledger, int number)
{
	pid_t child = fork();

	if (child == 0)
		compete(ledger, number);
	CHECK(child > 0);
	return child;
}

static void check_within(struct vg_ledger *ledger, uint64_t *most)
{
	for (int i = 0; i < 1000; i++) {
		uint64_t limit, charged;
		vg_ledger_read(ledger, &limit, &charged);
		if (charged > limit)
			FAIL("%llu charged of %llu", (unsigned long long)charged, (unsigned long long)limit);
		if (charged > *most)
			*most = charged;
	}
}

static void stop_all(struct vg_ledger *ledger, pid_t *children)
{
	uint64_t sum = 0;

	__atomic_store_n(&shared->stop, 1, __ATOMIC_RELAXED);
	// Wait until all processes have stored their sums and pause.
	for (int waited = 0; waited < 10000; waited += 10) {
		uint64_t before = vg_ledger_charged(ledger);
		poll(NULL, 0, 100);
		if (vg_ledger_charged(ledger) == before)
			break;
	}
	for (int i = 0; i < COMPETITORS; i++)
		sum += shared->competitor[i].charged;
	CHECK_INT(vg_ledger_charged(ledger), BASE + sum);
	for (int i = 0; i < COMPETITORS; i++) {
		kill(children[i], SIGKILL);
		CHECK_INT(waitpid(children[i], NULL, 0), children[i]);
	}
	CHECK_INT(reap_all_dead(ledger), sum);
	CHECK_INT(vg_ledger_charged(ledger), BASE);
}

TEST(limit_holds_while_16_processes_compete)
{
	struct vg_ledger *ledger = create_ledger(BASE + MIB);
	const char *seconds = getenv("RACE_SECONDS");
	uint64_t end = vg_clock_monotonic_ns() + (uint64_t)(seconds ? atoi(seconds) : 2) * 1000000000, most = 0;
	uint64_t granted = 0, refused = 0, charged, state = 42;
	pid_t children[COMPETITORS];
	int kills = 0;

	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, BASE), 0);
	for (int i = 0; i < COMPETITORS; i++)
		children[i] = start_competitor(ledger, i);
	while (vg_clock_monotonic_ns() < end) {
		uint64_t random = next_random(&state);
		check_within(ledger, &most);
		// The ledger may refuse this limit.
		vg_ledger_set_limit(ledger, BASE + random % (MIB + 1), &charged);
		int victim = (int)(random >> 40) % COMPETITORS;
		// At random times, kill one of the processes at whatever point it is, and replace it.
		if (random >> 60 == 0) {
			kill(children[victim], SIGKILL);
			CHECK_INT(waitpid(children[victim], NULL, 0), children[victim]);
			reap_all_dead(ledger);
			children[victim] = start_competitor(ledger, victim);
			kills++;
		}
	}
	for (int i = 0; i < COMPETITORS; i++) {
		granted += shared->competitor[i].granted;
		refused += shared->competitor[i].refused;
	}
	stop_all(ledger, children);
	printf("%llu granted, %llu refused, %d killed, at most %llu of %llu charged\n", (unsigned long long)granted,
	       (unsigned long long)refused, kills, (unsigned long long)most, (unsigned long long)(BASE + MIB));
	CHECK(granted > 1000 && refused > 1000);
	vg_ledger_close(ledger);
}
