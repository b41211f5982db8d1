// Processes own, open and release a few shared allocations in random order, and some processes are killed. Memory with
// a holder is always charged, and at the end nothing is charged. Runs for RACE_SECONDS, or 2 s.
#include "base/clock.h"
#include "ledger/shared.h"
#include "ledger_file.h"
#include "test.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { PLAYERS = 8, PIECES = 4 };
static const uint64_t MIB = 1 << 20, LIMIT = 64 << 20;

struct shared {
	uint64_t owned[PIECES], joined, passed, killed, uncovered;
};
static struct shared *shared;

struct holding {
	uint32_t share; // 0: no shared allocation
	bool own;
};

static uint64_t size_of(unsigned int piece)
{
	return (piece + 1) * MIB;
}

static void make_owner(struct vg_ledger *ledger, unsigned int piece, struct holding *holding)
{
	uint64_t passed;

	if (vg_ledger_reserve(ledger, VG_LEDGER_VMM, size_of(piece)) != 0)
		return;
	if (vg_ledger_shared_create(ledger, size_of(piece), &holding->share) == 0 &&
	    vg_ledger_shared_add_name(ledger, holding->share, piece + 1, true) == 0) {
		holding->own = true;
		__atomic_fetch_add(&shared->owned[piece], 1, __ATOMIC_RELAXED);
		return;
	}
	if (holding->share)
		vg_ledger_shared_leave(ledger, holding->share, VG_LEDGER_VMM, size_of(piece), &passed);
	vg_ledger_refund(ledger, VG_LEDGER_VMM, size_of(piece));
	holding->share = 0;
}

// Opens a shared allocation, and checks that its memory is charged, either to the owner's slot or to the allocation.
static void join_allocation(struct vg_ledger *ledger, unsigned int piece, struct holding *holding)
{
	uint64_t bytes;

	if (vg_ledger_shared_join(ledger, piece + 1, &holding->share, &bytes) != 0)
		return;
	holding->own = false;
	__atomic_fetch_add(&shared->joined, 1, __ATOMIC_RELAXED);
	if (bytes != size_of(piece) || vg_ledger_charged(ledger) < bytes)
		__atomic_fetch_add(&shared->uncovered, 1, __ATOMIC_RELAXED);
}

static void leave_allocation(struct vg_ledger *ledger, unsigned int piece, struct holding *holding)
{
	uint64_t passed;

	if (vg_ledger_charged(ledger) < size_of(piece))
		__atomic_fetch_add(&shared->uncovered, 1, __ATOMIC_RELAXED);
	vg_ledger_shared_leave(ledger, holding->share, VG_LEDGER_VMM, size_of(piece), &passed);
	if (holding->own)
		vg_ledger_refund(ledger, VG_LEDGER_VMM, size_of(piece) - passed);
	if (passed)
		__atomic_fetch_add(&shared->passed, 1, __ATOMIC_RELAXED);
	holding->share = 0;
}

static void play(struct vg_ledger *ledger, int number)
{
	uint64_t state = 88172645463325252ull + (uint64_t)number * 7919 + (uint64_t)getpid();
	struct holding holdings[PIECES] = {0};

	vg_ledger_enter(ledger);
	for (;;) {
		uint64_t random = next_random(&state);
		unsigned int piece = random % PIECES;
		if (holdings[piece].share)
			leave_allocation(ledger, piece, &holdings[piece]);
		else if (random >> 32 & 3)
			join_allocation(ledger, piece, &holdings[piece]);
		else
			make_owner(ledger, piece, &holdings[piece]);
	}
}

static pid_t start_player(struct vg_ledger *ledger, int number)
{
	pid_t child = fork();

	if (child == 0)
		play(ledger, number);
	CHECK(child > 0);
	return child;
}

TEST(memory_with_a_holder_is_always_charged)
{
	const char *seconds = getenv("RACE_SECONDS");
	uint64_t end = vg_clock_monotonic_ns() + (uint64_t)(seconds ? atoi(seconds) : 2) * 1000000000;
	struct vg_ledger *ledger = create_ledger(LIMIT);
	uint64_t state = 2463534242u, limit, charged;
	pid_t players[PLAYERS];

	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	for (int i = 0; i < PLAYERS; i++)
		players[i] = start_player(ledger, i);
	while (vg_clock_monotonic_ns() < end) {
		int victim = (int)(next_random(&state) % PLAYERS);
		usleep(3000);
		kill(players[victim], SIGKILL);
		CHECK_INT(waitpid(players[victim], NULL, 0), players[victim]);
		shared->killed++;
		reap_all_dead(ledger);
		vg_ledger_read(ledger, &limit, &charged);
		CHECK(charged <= limit);
		players[victim] = start_player(ledger, victim);
	}
	for (int i = 0; i < PLAYERS; i++) {
		kill(players[i], SIGKILL);
		CHECK_INT(waitpid(players[i], NULL, 0), players[i]);
	}
	printf("%llu joined, %llu passed, %llu killed\n", (unsigned long long)shared->joined,
	       (unsigned long long)shared->passed, (unsigned long long)shared->killed);
	CHECK(shared->joined && shared->passed && shared->killed);
	for (int i = 0; i < PIECES; i++)
		CHECK(shared->owned[i]);
	CHECK_INT(shared->uncovered, 0);
	reap_all_dead(ledger);
	CHECK_INT(vg_ledger_shared_charge(ledger), 0);
	CHECK_INT(vg_ledger_charged(ledger), 0);
	vg_ledger_close(ledger);
}
