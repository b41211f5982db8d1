// Tests the request `trace`: it makes processes count launches and copies as long as clients repeat it, and lists these
// counts and the turns.
#include "daemon_fixture.h"
#include "turn/page.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct vg_ledger *open_ledger(const char *name)
{
	struct vg_ledger *ledger;
	char path[400];

	snprintf(path, sizeof path, "%s/ledgers/%s", runtime_dir, name);
	CHECK_INT(vg_ledger_open(path, &ledger), 0);
	return ledger;
}

static bool counts_copies(const struct turn_page *page)
{
	return atomic_load(&page->traced);
}

static bool counts_launches(const struct turn_page *page)
{
	return turn_word_is(atomic_load(&page->word), TURN_COUNT);
}

// Waits at most 30 s until is(page) equals `wanted`. Returns false if that did not happen.
static bool await(bool (*is)(const struct turn_page *page), const struct turn_page *page, bool wanted)
{
	uint64_t end = vg_clock_monotonic_ns() + 30000000000ull;

	while (is(page) != wanted)
		if (vg_clock_monotonic_ns() > end || poll(NULL, 0, 10) < 0)
			return false;
	return true;
}

// Returns one field of the only vGPU, or of its only tenant.
static json_int_t read_field(const char *group, const char *key)
{
	json_t *reply = ask("{'op':'trace'}"), *vgpu = json_array_get(json_object_get(reply, "vgpus"), 0);
	const json_t *place = strcmp(group, "tenant") == 0 ? json_array_get(json_object_get(vgpu, "tenants"), 0)
							   : json_object_get(json_object_get(vgpu, "copies"), group);
	json_int_t value =
		json_is_integer(json_object_get(place, key)) ? json_integer_value(json_object_get(place, key)) : -1;

	json_decref(reply);
	return value;
}

TEST(processes_count_while_a_trace_is_recorded)
{
	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu}", GIB));
	pid_t tenant = start_tenant("a", MIB);
	struct turn_page *page = vg_ledger_turn_page(open_ledger("a"));
	struct turn_slot *slot = (struct turn_slot *)vg_ledger_turn_slots(open_ledger("a"));
	CHECK_INT(figure("a", "tenants"), 1);
	CHECK(!counts_copies(page) && page->word == 0);
	CHECK_AGREED(ask("{'op':'trace'}"));
	CHECK(counts_copies(page) && counts_launches(page));
	CHECK_INT(turn_word_state(page->word), TURN_OPEN);
	for (unsigned int i = 0; i < VG_LEDGER_SLOTS; i++)
		slot[i].launches = 77;
	page->copies[TURN_COPY_OUT].bytes = 5;
	CHECK_INT(read_field("tenant", "launches"), 77);
	CHECK_INT(read_field("out", "bytes"), 5);
	CHECK_INT(read_field("in", "count"), 0);
	json_t *reply = ask("{'op':'trace','counters':false}");
	CHECK(agreed(reply) && json_array_size(json_object_get(reply, "vgpus")) == 0);
	CHECK(json_is_true(json_object_get(reply, "complete")) && json_is_array(json_object_get(reply, "records")));
	json_decref(reply);
	page->copies[TURN_COPY_IN].bytes = UINT64_MAX; // a tenant can write any value, even one too large for JSON
	CHECK_INT(read_field("in", "bytes"), INT64_MAX);
	CHECK(await(counts_copies, page, false)); // no client requests a trace any more, so counting stops
	CHECK(await(counts_launches, page, false));
	CHECK_AGREED(ask("{'op':'trace'}"));
	CHECK(counts_copies(page) && counts_launches(page));
	kill_daemon();
	start_daemon();
	CHECK(!counts_copies(page) && page->word == 0);
	kill_tenant(tenant);
}

// If a vGPU has a share, the arbiter controls its gate. The arbiter must make the gate count launches for a trace, too.
TEST(the_arbiter_counts_for_a_trace)
{
	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'share':50}", GIB));
	pid_t tenant = start_tenant("a", MIB);
	struct turn_page *page = vg_ledger_turn_page(open_ledger("a"));
	CHECK_INT(figure("a", "tenants"), 1);
	CHECK_AGREED(ask("{'op':'trace'}"));
	CHECK(await(counts_launches, page, true)); // only one vGPU runs, so the arbiter delays no launch
	CHECK(counts_copies(page));
	CHECK(await(counts_copies, page, false));
	CHECK(await(counts_launches, page, false));
	kill_tenant(tenant);
}

// Marks a thread as waiting at the gate, and wakes the arbiter.
static void ask_for_turn(struct turn_page *page, struct turn_slot *slot)
{
	slot->alive_ns = vg_clock_monotonic_ns();
	slot->waiting = 1;
	atomic_fetch_add(&page->bell, 1);
	syscall(SYS_futex, &page->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

TEST(an_answer_continues_the_one_before)
{
	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'share':50,'share_limit':true}", GIB));
	pid_t tenant = start_tenant("a", MIB);
	CHECK_INT(figure("a", "tenants"), 1);
	json_t *reply = ask("{'op':'trace'}");
	CHECK(agreed(reply) && json_array_size(json_object_get(reply, "records")) == 0);
	CHECK(json_is_false(json_object_get(reply, "lost")) && json_is_false(json_object_get(reply, "more")));
	json_int_t next = json_integer_value(json_object_get(reply, "next"));
	json_decref(reply);
	CHECK_REFUSED(ask("{'op':'trace','after':-1}"), "invalid", "\"after\" must be");
	CHECK_REFUSED(ask("{'op':'trace','after':'x'}"), "invalid", "\"after\" must be");
	struct turn_page *page = vg_ledger_turn_page(open_ledger("a"));
	struct turn_slot *slot = (struct turn_slot *)vg_ledger_turn_slots(open_ledger("a"));
	size_t found = 0;
	// A thread waits at the gate, so the vGPU gets the turn.
	for (int i = 0; i < 1000 && !found; i++) {
		ask_for_turn(page, slot);
		poll(NULL, 0, 10);
		reply = ask("{'op':'trace','after':%lld}", (long long)next);
		const json_t *records = json_object_get(reply, "records"), *one = json_array_get(records, 0);
		found = json_array_size(records);
		if (found) {
			CHECK_STR(json_string_value(json_object_get(one, "vgpu")), "a");
			CHECK(json_integer_value(json_object_get(one, "end_ns")) >
			      json_integer_value(json_object_get(one, "begin_ns")));
			CHECK(json_is_integer(json_object_get(one, "launches")));
		}
		CHECK(json_integer_value(json_object_get(reply, "next")) >= next);
		next = json_integer_value(json_object_get(reply, "next"));
		json_decref(reply);
	}
	CHECK(found);
	CHECK(await(counts_copies, page, false));
	reply = ask("{'op':'trace','after':%lld}", (long long)next - 1);
	CHECK(json_is_true(json_object_get(reply, "lost"))); // the recording had ended in between
	json_decref(reply);
	kill_tenant(tenant);
}

// Counts the records of an answer that continue the phase of the preceding record. *phase and *turn are those of the
// last record seen, also of an earlier answer.
static unsigned int count_cuts(const json_t *reply, char phase[32], json_int_t *turn)
{
	unsigned int cuts = 0;
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(reply, "records"), i, one) {
		const char *text = json_string_value(json_object_get(one, "phase"));
		json_int_t number = json_integer_value(json_object_get(one, "turn"));
		cuts += strcmp(text, phase) == 0 && number == *turn;
		snprintf(phase, 32, "%s", text);
		*turn = number;
	}
	return cuts;
}

// All clients share the log, so a client that asks all the time must not fill it with parts of phases.
TEST(requests_at_short_intervals_do_not_cut_phases)
{
	enum { LEAST_REQUESTS = 300, CUT_MS = 10 };
	char phase[32] = "";
	json_int_t turn = 0, next = 0;

	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'share':50,'share_limit':true}", GIB));
	pid_t tenant = start_tenant("a", MIB);
	CHECK_INT(figure("a", "tenants"), 1);
	CHECK_AGREED(ask("{'op':'trace'}"));
	struct turn_page *page = vg_ledger_turn_page(open_ledger("a"));
	struct turn_slot *slot = (struct turn_slot *)vg_ledger_turn_slots(open_ledger("a"));
	uint64_t begin = vg_clock_monotonic_ns(), cuts = 0;
	for (int i = 0; i < LEAST_REQUESTS || !cuts; i++) {
		ask_for_turn(page, slot);
		json_t *reply = ask("{'op':'trace','after':%lld}", (long long)next);
		cuts += count_cuts(reply, phase, &turn);
		next = json_integer_value(json_object_get(reply, "next"));
		json_decref(reply);
		CHECK(vg_clock_monotonic_ns() - begin < 60000000000ull);
	}
	uint64_t ms = (vg_clock_monotonic_ns() - begin) / 1000000;
	printf("%llu cuts in %llu ms\n", (unsigned long long)cuts, (unsigned long long)ms);
	CHECK(cuts <= ms / CUT_MS + 1);
	kill_tenant(tenant);
}
