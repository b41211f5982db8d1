// The thread of an arbiter: reads what the processes report, lets src/turn decide, and writes the orders.
#include "base/clock.h"
#include "base/descriptor.h"
#include "daemon/arbiter_state.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	LOOKS = 4, // how often the words of the processes are read for one decision, at most
	// After this many decisions in one period (period_ns), the thread pauses after each further one. Otherwise
	// tenants, which can wake the thread at will, could keep it busy.
	DECISIONS = 100,
};
static const uint64_t period_ns = 10000000, pause_ns = 500000;

static pthread_once_t clock_once = PTHREAD_ONCE_INIT;
static int64_t clock_ahead; // how far the clock of this process's time namespace is ahead of the kernel's

static void read_clock(void)
{
	clock_ahead = vg_clock_offset(0, "monotonic");
}

uint64_t arbiter_now(void)
{
	pthread_once(&clock_once, read_clock);
	return vg_clock_monotonic_ns() - (uint64_t)clock_ahead;
}

void arbiter_thread_wake_gates(struct turn_page *page)
{
	syscall(SYS_futex, &page->word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

// Clears the stop bit of each process that has looked at its gate after the daemon saw the process stopped. Such a
// process runs again.
static void drop_continued(struct part *part)
{
	const struct turn_slot *slots = vg_ledger_turn_slots(part->ledger);

	part->has_stops = false;
	for (unsigned int i = 0; i < VG_LEDGER_SLOTS / 64; i++) {
		for (uint64_t left = part->stops.slots[i]; left; left &= left - 1) {
			unsigned int bit = (unsigned int)__builtin_ctzll(left);
			if (atomic_load(&slots[i * 64 + bit].alive_ns) > part->stops.seen_ns)
				part->stops.slots[i] &= ~(1ull << bit);
		}
		part->has_stops |= part->stops.slots[i] != 0;
	}
}

static void read_part(struct part *part, const struct turn_rules *rules, uint64_t now)
{
	if (part->has_stops)
		drop_continued(part);
	turn_page_read(vg_ledger_turn_page(part->ledger), vg_ledger_turn_slots(part->ledger),
		       vg_ledger_turn_count(part->ledger), part->has_stops ? part->stops.slots : NULL, rules->margin_ns,
		       now, &part->facts);
}

static void read_facts(struct arbiter *arbiter, const struct turn_rules *rules, uint64_t now)
{
	struct turn_facts facts[TURN_PARTS];

	for (unsigned int i = 0; i < arbiter->most; i++) {
		struct seat *seat = &arbiter->seats[i];
		for (unsigned int j = 0; j < seat->part_count; j++) {
			read_part(&seat->parts[j], rules, now);
			facts[j] = seat->parts[j].facts;
		}
		if (seat->part_count == 1)
			arbiter->facts[i] = facts[0];
		else if (seat->part_count)
			turn_gang_read(&seat->gang, facts, seat->part_count, now, &arbiter->facts[i]);
	}
}

// Writes the orders for one vGPU of a seat into the words of its ledger (turn/page.h). Returns whether the slots must
// be read again, because a process may have become idle during this function.
static bool write_order(const struct seat *seat, unsigned int index, const struct turn_gate *of_seat, uint64_t now)
{
	const struct part *part = &seat->parts[index];
	struct turn_page *page = vg_ledger_turn_page(part->ledger);
	struct turn_gate gate = *of_seat;

	if (seat->part_count > 1)
		turn_gang_gate(&seat->gang, of_seat, index, &part->facts, &gate);
	unsigned int written = turn_page_write(page, &gate, now);
	if (written & TURN_WRITTEN_WAKE)
		arbiter_thread_wake_gates(page);
	return written & TURN_WRITTEN_LOOK;
}

static bool write_orders(struct arbiter *arbiter, uint64_t now)
{
	bool look = false;

	for (unsigned int i = 0; i < arbiter->most; i++)
		for (unsigned int j = 0; j < arbiter->seats[i].part_count; j++)
			look |= write_order(&arbiter->seats[i], j, &arbiter->orders.gates[i], now);
	return look;
}

static void read_bells(struct arbiter *arbiter)
{
	for (unsigned int i = 0; i < arbiter->most; i++)
		for (unsigned int j = 0; j < arbiter->seats[i].part_count; j++) {
			struct part *part = &arbiter->seats[i].parts[j];
			part->bell = atomic_load(&vg_ledger_turn_page(part->ledger)->bell);
		}
}

static void note_history(struct arbiter *arbiter, uint64_t now)
{
	uint64_t second = now / 1000000000;
	struct turn_account account;
	struct turn_total total;

	if (second == arbiter->second)
		return;
	turn_read_total(arbiter->turn, &total);
	for (uint64_t at = arbiter->second + 1; at <= second && at <= arbiter->second + ARBITER_HISTORY; at++)
		arbiter->handovers[at % ARBITER_HISTORY] = total.handovers;
	for (unsigned int i = 0; i < arbiter->most; i++) {
		if (!arbiter->seats[i].part_count)
			continue;
		turn_read(arbiter->turn, i, &account);
		for (uint64_t at = arbiter->second + 1; at <= second && at <= arbiter->second + ARBITER_HISTORY; at++)
			arbiter->seats[i].charged[at % ARBITER_HISTORY] = account.charged_ns;
	}
	arbiter->second = second;
}

// Adds the phase that ends now to the log, unless the vGPU did not use the device in it.
static void log_phase(struct arbiter *arbiter, const struct phase_record *present, const struct phase_record *next)
{
	struct phase_record record = *present;

	record.end_ns = next->begin_ns;
	record.charged_ns = next->charged_ns - present->charged_ns;
	// The number of launches is the sum over the vGPU's slots. It falls when the slot of an ended process is freed.
	record.launches = next->launches > present->launches ? next->launches - present->launches : 0;
	if (present->begin_ns && record.end_ns > record.begin_ns &&
	    (record.phase != TURN_PHASE_NONE || record.charged_ns))
		phase_log_add(arbiter->log, &record);
}

// Does the work of arbiter_thread_follow_phase() for one vGPU of a seat. A job is charged as a whole, so all its vGPUs
// have the same charges. Launches are counted on each device.
static void follow_part(struct arbiter *arbiter, unsigned int index, struct part *part, uint64_t now, bool cuts)
{
	struct phase_record next = part->present;
	struct turn_account account;

	next.phase = turn_read_phase(arbiter->turn, index, &next.turn);
	if (!cuts && next.phase == part->present.phase && next.turn == part->present.turn)
		return;
	turn_read(arbiter->turn, index, &account);
	next.begin_ns = now;
	next.charged_ns = account.charged_ns;
	next.launches = part->facts.launches;
	log_phase(arbiter, &part->present, &next);
	part->present = next;
}

void arbiter_thread_follow_phase(struct arbiter *arbiter, unsigned int index, uint64_t now, bool cuts)
{
	struct seat *seat = &arbiter->seats[index];

	for (unsigned int i = 0; i < seat->part_count; i++)
		follow_part(arbiter, index, &seat->parts[i], now, cuts);
}

void arbiter_thread_follow_phases(struct arbiter *arbiter, uint64_t now, bool cuts)
{
	for (unsigned int i = 0; arbiter->log && i < arbiter->most; i++)
		if (arbiter->seats[i].part_count)
			arbiter_thread_follow_phase(arbiter, i, now, cuts);
}

// Waits until one of the futexes `bells` changes, or until the time `until`. The caller must not hold the lock.
static void sleep_until(const struct arbiter *arbiter, const struct futex_waitv *bells, unsigned int count,
			uint64_t until)
{
	uint64_t own = until + (uint64_t)clock_ahead; // the kernel expects the time of this process's namespace
	struct timespec time = {(time_t)(own / 1000000000), (long)(own % 1000000000)};
	const struct timespec moment = {0, 100000};

	if (syscall(SYS_futex_waitv, bells, count, 0, until == UINT64_MAX ? NULL : &time, CLOCK_MONOTONIC) < 0 &&
	    errno == ENOSYS)
		nanosleep(&moment, NULL);
}

static unsigned int list_bells(struct arbiter *arbiter, uint32_t own, struct futex_waitv *ret_bells)
{
	unsigned int count = 0;

	ret_bells[count++] = (struct futex_waitv){own, (uintptr_t)&arbiter->bell, FUTEX_32 | FUTEX_PRIVATE_FLAG, 0};
	for (unsigned int i = 0; i < arbiter->most; i++) {
		const struct seat *seat = &arbiter->seats[i];
		for (unsigned int j = 0; j < seat->part_count; j++)
			ret_bells[count++] = (struct futex_waitv){
				seat->parts[j].bell, (uintptr_t)&vg_ledger_turn_page(seat->parts[j].ledger)->bell,
				FUTEX_32, 0};
	}
	return count;
}

static void decide_turns(struct arbiter *arbiter, const struct turn_rules *rules)
{
	uint64_t now = arbiter_now();

	read_bells(arbiter);
	for (int look = 0; look < LOOKS; look++) {
		read_facts(arbiter, rules, now);
		turn_decide(arbiter->turn, arbiter->facts, now, &arbiter->orders);
		if (!write_orders(arbiter, now))
			break;
		now = arbiter_now();
	}
	note_history(arbiter, now);
	arbiter_thread_follow_phases(arbiter, now, false);
}

static bool is_flooded(struct arbiter *arbiter)
{
	uint64_t period = arbiter_now() / period_ns;

	if (period != arbiter->period) {
		arbiter->period = period;
		arbiter->decisions = 0;
	}
	return ++arbiter->decisions > DECISIONS;
}

void *arbiter_thread_run(void *data)
{
	struct futex_waitv bells[TURN_VGPUS + 1];
	struct arbiter *arbiter = data;
	struct turn_rules rules;

	turn_rules(arbiter->mode, &rules);
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), -10); // fails without the right to raise the priority
	pthread_mutex_lock(&arbiter->lock);
	while (!arbiter->ending) {
		uint32_t own = atomic_load(&arbiter->bell);
		decide_turns(arbiter, &rules);
		unsigned int count = list_bells(arbiter, own, bells);
		uint64_t until = arbiter->orders.next_ns;
		bool poll = arbiter->orders.poll;
		pthread_mutex_unlock(&arbiter->lock);
		if (poll)
			__builtin_ia32_pause();
		else if (is_flooded(arbiter))
			nanosleep(&(struct timespec){0, (long)pause_ns}, NULL);
		else
			sleep_until(arbiter, bells, count, until);
		pthread_mutex_lock(&arbiter->lock);
	}
	pthread_mutex_unlock(&arbiter->lock);
	return NULL;
}
