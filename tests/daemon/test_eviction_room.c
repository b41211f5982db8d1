// Tests evictable vGPUs that do not fit on the device together, and processes that do not follow the daemon's requests.
#include "eviction_fixture.h"

// Starts two vGPUs of 6 GiB on a device of 8 GiB. Each has a process for which the test writes the pager's answers.
static struct pager_slot *first, *second;
static struct pager_page *first_page, *second_page;
static struct vg_ledger *ledgers[2];
static pid_t players[2];

static void begin_crowded(void)
{
	static const struct player_plan silent = {.bytes = GIB, .is_silent = true};

	fresh_node();
	start_daemon();
	for (int i = 0; i < 2; i++) {
		const char *name = i == 0 ? "a" : "b";
		CHECK_AGREED(
			ask("{'op':'create','name':'%s','memory':%llu,'device':0,'evictable':true}", name, 6 * GIB));
		players[i] = start_player(path_of(name), &silent);
		ledgers[i] = ledger_of(name);
	}
	first = player_slot(ledgers[0], players[0]);
	second = player_slot(ledgers[1], players[1]);
	first_page = vg_ledger_pager_page(ledgers[0]);
	second_page = vg_ledger_pager_page(ledgers[1]);
}

static void end_crowded(void)
{
	for (int i = 0; i < 2; i++) {
		vg_ledger_close(ledgers[i]);
		kill_tenant(players[i]);
	}
}

static void await_word(const _Atomic uint32_t *word, uint32_t value, unsigned int seconds)
{
	for (unsigned int i = 0; i < seconds * 200 && atomic_load(word) != value; i++)
		poll(NULL, 0, 5);
	CHECK_INT(*word, value);
}

static void write_answer(struct pager_slot *slot, enum pager_state state)
{
	slot->host = state == PAGER_OUT ? slot->bytes : 0;
	slot->state = state;
	slot->answered = slot->bell;
}

// Makes the second vGPU wait for room on the device. The first vGPU occupies the room without using it, so the daemon
// asks the first one to move its memory to the host.
static void order_first_out(void)
{
	await_word(&first_page->ask_ms, 100, 10);
	write_answer(first, PAGER_RUNNING);
	write_answer(second, PAGER_OUT);
	second->waiting = 1;
	await_word(&first_page->out, 1, 10);
}

// Returns how often the daemon's loop has waited for an event.
static long long count_waits(void)
{
	char path[64], line[128];
	long long count = -1;

	snprintf(path, sizeof path, "/proc/%d/status", (int)daemon_pid);
	FILE *file = fopen(path, "re");
	while (file && fgets(line, sizeof line, file) && sscanf(line, "voluntary_ctxt_switches: %lld", &count) != 1)
		;
	if (file)
		fclose(file);
	CHECK(count >= 0);
	return count;
}

static long long count_waits_in_2_s(void)
{
	long long before = count_waits();

	poll(NULL, 0, 2000);
	return count_waits() - before;
}

// Tests a process that does not answer, for example because it is stopped. It moves no memory, and the daemon must not
// poll it all the time.
TEST(silent_process_does_not_keep_the_daemon_busy)
{
	begin_crowded();
	order_first_out();
	CHECK(first->answered != first->bell);
	CHECK(count_waits_in_2_s() < 250);
	end_crowded();
}

// Tests a vGPU whose memory is in the host because others need the room. Its user has not suspended it, and can do so.
TEST(processes_that_were_ordered_out_can_be_suspended)
{
	begin_crowded();
	order_first_out();
	write_answer(first, PAGER_OUT);
	await_word(&second_page->out, 0, 20);
	CHECK_STR(text_of("a", players[0], "state"), "out");
	CHECK_AGREED(ask("{'op':'suspend','pid':%d}", (int)players[0]));
	CHECK_INT(first->out, 1);
	CHECK_STR(text_of("a", players[0], "state"), "suspended");
	CHECK_REFUSED(ask("{'op':'suspend','pid':%d}", (int)players[0]), "busy", "is suspended already");
	end_crowded();
}

// Tests the name in the messages of waiting programs, while the vGPU that has the device is ordered out but stays.
TEST(waiting_programs_learn_who_was_ordered_out_but_stays)
{
	begin_crowded();
	order_first_out();
	for (int i = 0; i < 1000 && strcmp(second_page->holder, "a") != 0; i++)
		poll(NULL, 0, 5);
	CHECK_STR(second_page->holder, "a");
	CHECK_INT(second_page->out, 1);
	end_crowded();
}

// ---- false reports -------------------------------------------------------------------------------------------

static void show_physical(uint64_t bytes)
{
	set_world("gpu %llu\ngpu %llu\nprocess 0 %d %llu\n", 8 * GIB, 8 * GIB, (int)players[0],
		  (unsigned long long)bytes);
}

// Lets the first process report `state`: that its memory is in the host, or that it has no memory. NVML still shows the
// memory on the device, so the daemon must not believe the report.
static void check_false_report(enum pager_state state)
{
	static char text[65536];
	char path[300];

	begin_crowded();
	show_physical(5 * GIB);
	order_first_out();
	write_answer(first, state);
	await_word(&first_page->out, 0, 20); // the daemon withdraws its request to the first vGPU
	await_word(&second_page->out, 1, 20);
	CHECK_STR(text_of("a", 0, "state"), state == PAGER_OUT ? "contradicted" : "running");
	CHECK_INT(number_of("a", 0, "in_host"), 0);
	snprintf(path, sizeof path, "%s/log", directory);
	CHECK(vg_file_read(path, text, sizeof text) > 0);
	CHECK_CONTAINS(text, "vGPU a counts as on the GPU: its programs report that their memory is in the host, but "
			     "5.0 GiB of it is on the GPU");
	// The second process still waits. It must get no room, not even after the user has suspended the first vGPU.
	json_decref(ask("{'op':'suspend','name':'a'}"));
	write_answer(first, state);
	for (int i = 0; i < 100; i++) {
		CHECK_INT(second_page->out, 1);
		poll(NULL, 0, 10);
	}
	CHECK_STR(text_of("a", 0, "state"), "contradicted");
	show_physical(100 * MIB); // the memory is not on the device any more
	await_word(&second_page->out, 0, 20);
	CHECK_STR(text_of("a", 0, "state"), "suspended");
	end_crowded();
}

TEST(false_report_gives_others_no_room)
{
	check_false_report(PAGER_OUT);
	check_false_report(PAGER_NONE);
}

TEST(true_report_gives_others_room)
{
	begin_crowded();
	show_physical(5 * GIB);
	order_first_out();
	show_physical(100 * MIB);
	write_answer(first, PAGER_OUT);
	await_word(&second_page->out, 0, 20);
	write_answer(second, PAGER_RUNNING);
	for (int i = 0; i < 150; i++) { // several measurements
		CHECK_INT(first_page->out, 1);
		poll(NULL, 0, 10);
	}
	CHECK_STR(text_of("a", 0, "state"), "out");
	end_crowded();
}

TEST(late_process_does_not_announce_room)
{
	begin_crowded();
	order_first_out();
	CHECK_INT(second_page->out, 1);
	write_answer(first, PAGER_LEAVING);
	await_word(&second_page->out, 0, 5);
	CHECK(second_page->room_comes != 0);
	write_answer(second, PAGER_COMING);
	await_word(&second_page->out, 1, 30);
	CHECK_INT(first_page->out, 1);
	write_answer(second, PAGER_OUT);
	poll(NULL, 0, 500);
	CHECK_INT(second_page->out, 1);
	write_answer(first, PAGER_OUT); // the memory of the first process leaves at last
	await_word(&second_page->out, 0, 5);
	end_crowded();
}

// Programs of a vGPU that may use the device can allocate memory before all room is there. So the daemon announces room
// until the other memory has left, also when all memory of the vGPU has returned.
TEST(room_is_reported_until_the_other_memory_has_left)
{
	begin_crowded();
	order_first_out();
	CHECK_INT(second_page->room_comes, 0);
	write_answer(first, PAGER_LEAVING);
	await_word(&second_page->out, 0, 5);
	second->waiting = 0;
	write_answer(second, PAGER_RUNNING);
	for (int i = 0; i < 50; i++) {
		CHECK(second_page->room_comes != 0);
		poll(NULL, 0, 10);
	}
	CHECK_INT(first_page->room_comes, 0);
	write_answer(first, PAGER_OUT);
	await_word(&second_page->room_comes, 0, 5);
	CHECK_INT(second_page->out, 0);
	end_crowded();
}
