// Writes false values as processes of evictable vGPUs could: the daemon limits these values, and none lowers a charge.
#include "eviction_fixture.h"

// ---- hostile values ----------------------------------------------------------------------------------------

static void check_bounded(const char *name, pid_t pid)
{
	static const char *const sizes[] = {"bytes", "host", "missing", "unchanged"};
	static const char *const figures[] = {"state_ns", "moved_ns", "waited_ns", "waiting",
					      "moves",	  "error",    "hash_error"};

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		CHECK(number_of(name, pid, sizes[i]) >= 0 && number_of(name, pid, sizes[i]) <= (json_int_t)(4 * GIB));
	for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
		CHECK(number_of(name, pid, figures[i]) >= 0);
	CHECK(number_of(name, pid, "host") <= number_of(name, pid, "bytes"));
	CHECK(number_of(name, pid, "unchanged") <= number_of(name, pid, "bytes"));
	CHECK(number_of(name, 0, "on_gpu") >= 0 && number_of(name, 0, "in_host") >= 0);
	CHECK(number_of(name, 0, "on_gpu") + number_of(name, 0, "in_host") <= (json_int_t)(4 * GIB));
}

TEST(hostile_words_are_limited)
{
	static const uint64_t words[] = {0,	     1,		PAGER_STATE_COUNT, PAGER_REASON_COUNT, 1 << 30,
					 UINT32_MAX, INT64_MAX, 1ull << 63,	   UINT64_MAX};
	enum { WORDS = sizeof(struct pager_slot) / 8 };

	start_evictable_node();
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu,'device':0,'evictable':true}", GIB));
	pid_t liar = start_player(path_of("a"), &(struct player_plan){.bytes = GIB, .is_silent = true});
	pid_t neighbour = start_player(path_of("b"), &(struct player_plan){.bytes = MIB});
	struct vg_ledger *ledger = ledger_of("a");
	struct pager_slot *slot = player_slot(ledger, liar);
	for (size_t value = 0; value < sizeof words / sizeof *words; value++) {
		for (size_t word = 0; word <= WORDS; word++) {
			uint64_t all[WORDS] = {0};
			for (size_t i = 0; i < WORDS; i++)
				all[i] = i == word || word == WORDS ? words[value] : 0;
			memcpy(slot, all, sizeof all);
			check_bounded("a", liar);
		}
	}
	CHECK_STR(text_of("a", liar, "state"), "unknown");
	CHECK_STR(text_of("a", liar, "reason"), "unknown");
	slot->state = PAGER_RUNNING;
	slot->reason = PAGER_THREAD;
	slot->row = UINT32_MAX; // no row of entries.def has this number
	CHECK_STR(text_of("a", liar, "call"), "null");
	vg_ledger_pager_page(ledger)->out = UINT32_MAX;
	CHECK_STR(text_of("b", 0, "state"), "running");
	CHECK_INT(number_of("b", neighbour, "bytes"), MIB);
	json_decref(ask("{'op':'suspend','name':'a'}"));
	CHECK_INT(count_asked(ask("{'op':'resume','name':'a'}")), 1);
	CHECK_INT(vg_ledger_pager_page(ledger)->out, 0);
	vg_ledger_close(ledger);
	kill_tenant(liar);
	kill_tenant(neighbour);
}

// ---- measurements ----------------------------------------------------------------------------------------

static struct vg_ledger_tenant tenant_of(const struct vg_ledger *ledger, pid_t pid)
{
	struct vg_ledger_tenant tenant;
	unsigned int cursor = 0;

	while (vg_ledger_next_tenant(ledger, &cursor, &tenant))
		if (tenant.owner.pid == (uint32_t)pid)
			return tenant;
	FAIL("process %d has no slot", (int)pid);
}

// Waits for the undeclared memory of a process. The daemon measures it every 250 ms.
static uint64_t await_undeclared(const struct vg_ledger *ledger, pid_t pid, uint64_t wanted)
{
	uint64_t undeclared = 0;

	for (int i = 0; i < 400; i++) {
		undeclared = tenant_of(ledger, pid).undeclared;
		if (undeclared == wanted)
			break;
		poll(NULL, 0, 10);
	}
	return undeclared;
}

static void show_physical(pid_t pid, uint64_t bytes)
{
	set_world("gpu %llu\ngpu %llu\nprocess 0 %d %llu\n", 8 * GIB, 8 * GIB, (int)pid, (unsigned long long)bytes);
}

// Tests memory in the host, which stays charged but is not on the device. The daemon subtracts it from the charge of
// the process. If NVML reports more than that difference, the excess must count as undeclared memory.
TEST(memory_in_the_host_hides_no_memory_on_the_device)
{
	start_evictable_node();
	pid_t player = start_player(path_of("a"), &obedient);
	struct vg_ledger *ledger = ledger_of("a");
	show_physical(player, GIB + 100 * MIB);
	CHECK_INT(await_undeclared(ledger, player, 100 * MIB), 100 * MIB);
	CHECK_INT(count_asked(ask("{'op':'suspend','name':'a'}")), 1);
	await_state("a", player, "suspended");
	show_physical(player, 100 * MIB);
	poll(NULL, 0, 600);
	CHECK_INT(await_undeclared(ledger, player, 100 * MIB), 100 * MIB);
	show_physical(player, 300 * MIB);
	CHECK_INT(await_undeclared(ledger, player, 300 * MIB), 300 * MIB);
	CHECK_INT(count_asked(ask("{'op':'resume','name':'a'}")), 1);
	await_state("a", player, "running");
	show_physical(player, GIB + 50 * MIB);
	CHECK_INT(await_undeclared(ledger, player, 50 * MIB), 50 * MIB);
	vg_ledger_close(ledger);
	kill_tenant(player);
}

// Imitates `virgate suspend --deep`, for which the driver removes the process from the device. The process must stay
// charged for its undeclared memory.
TEST(deep_suspension_keeps_the_undeclared_charge)
{
	start_evictable_node();
	pid_t player = start_player(path_of("a"), &obedient);
	struct vg_ledger *ledger = ledger_of("a");
	struct pager_slot *slot = player_slot(ledger, player);
	show_physical(player, GIB + 100 * MIB);
	CHECK_INT(await_undeclared(ledger, player, 100 * MIB), 100 * MIB);
	CHECK_STR(text_of("a", player, "deep"), "null");
	slot->park = 7; // imitates a dump, which parks the process
	CHECK_STR(text_of("a", player, "deep"), "null");
	slot->park = 7 | (uint32_t)PAGER_PARK_DEEP;
	CHECK_STR(text_of("a", player, "deep"), "begun");
	slot->park = 7 | (uint32_t)PAGER_PARK_DEEP | PAGER_PARK_DEEP_DONE;
	CHECK_STR(text_of("a", player, "deep"), "done");
	show_physical(player, MIB);
	poll(NULL, 0, 600);
	CHECK_INT(tenant_of(ledger, player).undeclared, 100 * MIB);
	// The slot still says that the driver has removed the process from the device, but NVML reports memory. The
	// daemon must count that memory.
	show_physical(player, GIB + 300 * MIB);
	CHECK_INT(await_undeclared(ledger, player, 300 * MIB), 300 * MIB);
	slot->park = 0;
	show_physical(player, GIB);
	CHECK_INT(await_undeclared(ledger, player, 0), 0);
	vg_ledger_close(ledger);
	kill_tenant(player);
}

// Reports various false amounts of memory in the host. The charge and the undeclared memory together must be at least
// what NVML reports.
TEST(no_word_in_a_slot_lowers_a_charge)
{
	static const uint64_t lies[] = {0, 1, 512 * MIB, GIB, 4 * GIB, INT64_MAX, UINT64_MAX};

	start_evictable_node();
	pid_t liar = start_player(path_of("a"), &(struct player_plan){.bytes = GIB, .is_silent = true});
	struct vg_ledger *ledger = ledger_of("a");
	struct pager_slot *slot = player_slot(ledger, liar);
	show_physical(liar, GIB + 200 * MIB);
	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
		// The daemon accepts a report of memory in the host only if the process also reports that its memory
		// has left the device. Then at most the declared memory, 1 GiB, counts as in the host.
		uint64_t host = i % 2 == 0 ? 0 : lies[i] < GIB ? lies[i] : GIB;
		slot->bytes = lies[i];
		slot->host = lies[i];
		slot->state = i % 2 ? PAGER_OUT : PAGER_RUNNING;
		CHECK_INT(await_undeclared(ledger, liar, 200 * MIB + host), 200 * MIB + host);
		struct vg_ledger_tenant tenant = tenant_of(ledger, liar);
		CHECK(tenant.used + tenant.undeclared >= GIB + 200 * MIB);
	}
	vg_ledger_close(ledger);
	kill_tenant(liar);
}

// Suspends a process, so that all of its charged memory is in the host. NVML still reports memory of the process on the
// device, and the daemon must log that.
TEST(undeclared_memory_is_logged)
{
	static char text[65536];
	char path[300];

	start_evictable_node();
	pid_t player = start_player(path_of("a"), &obedient);
	CHECK_INT(count_asked(ask("{'op':'suspend','name':'a'}")), 1);
	await_state("a", player, "suspended");
	show_physical(player, 300 * MIB);
	snprintf(path, sizeof path, "%s/log", directory);
	for (int i = 0; i < 800 && !strstr(text, "on the device"); i++) {
		poll(NULL, 0, 10);
		CHECK(vg_file_read(path, text, sizeof text) > 0);
	}
	CHECK_CONTAINS(text, "holds 300.0 MiB on the device, but 0 B is charged");
	kill_tenant(player);
}

TEST(memory_in_the_host_counts_for_evictable_vgpus_only)
{
	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu,'device':0}", 4 * GIB));
	pid_t player = start_player(path_of("b"), &(struct player_plan){.bytes = GIB, .is_silent = true});
	struct vg_ledger *ledger = ledger_of("b");
	struct pager_slot *slot = player_slot(ledger, player);
	slot->host = GIB;
	vg_ledger_pager_page(ledger)->out = 1;
	show_physical(player, GIB + 100 * MIB);
	CHECK_INT(await_undeclared(ledger, player, 100 * MIB), 100 * MIB);
	json_t *reply = ask("{'op':'inspect','name':'b'}"), *vgpu = json_object_get(reply, "vgpu");
	CHECK(json_is_null(json_object_get(vgpu, "eviction")));
	CHECK(json_is_null(json_object_get(json_array_get(json_object_get(vgpu, "tenants"), 0), "eviction")));
	json_decref(reply);
	vg_ledger_close(ledger);
	kill_tenant(player);
}
