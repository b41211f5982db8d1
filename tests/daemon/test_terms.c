// Tests how the daemon admits, stores and lists compute shares.
#include "daemon_fixture.h"
#include "turn/turn.h"

#include <linux/futex.h>
#include <sys/syscall.h>

// Returns the share, limit and class of the vGPU as `inspect` lists them, such as "30 batch" or "30 limit latency".
static const char *terms_of(const char *name)
{
	static char text[64];
	json_t *reply = ask("{'op':'inspect','name':'%s'}", name), *vgpu = json_object_get(reply, "vgpu");
	const char *class = json_string_value(json_object_get(vgpu, "class"));

	CHECK(class && json_is_boolean(json_object_get(vgpu, "share_limit")));
	snprintf(text, sizeof text, "%d%s %s", (int)json_integer_value(json_object_get(vgpu, "share")),
		 json_is_true(json_object_get(vgpu, "share_limit")) ? " limit" : "", class);
	json_decref(reply);
	return text;
}

// Returns whether the vGPU gets its compute share (the key "held" of the daemon's answer), and the reason: "held:
// REASON" or "not held: REASON". Returns "" if the vGPU takes no part in turns.
static const char *turns_of(const char *name)
{
	static char text[256];
	json_t *reply = ask("{'op':'inspect','name':'%s'}", name);
	const json_t *turns = json_object_get(json_object_get(reply, "vgpu"), "turns");

	*text = '\0';
	CHECK(json_is_object(turns) || json_is_null(turns));
	if (json_is_object(turns)) {
		CHECK_STR(json_string_value(json_object_get(turns, "mode")), "time");
		bool held = json_is_true(json_object_get(turns, "held"));
		snprintf(text, sizeof text, "%s: %s", held ? "held" : "not held",
			 json_string_value(json_object_get(turns, "reason")));
	}
	json_decref(reply);
	return text;
}

// Waits until turns_of() begins with the text. Returns false after 5 s.
static bool await_turns(const char *name, const char *wanted)
{
	for (int i = 0; i < 500; i++) {
		if (strncmp(turns_of(name), wanted, *wanted ? strlen(wanted) : 1) == 0)
			return true;
		poll(NULL, 0, 10);
	}
	return false;
}

TEST(terms_are_stored_and_listed)
{
	fresh_node();
	start_daemon();
	CHECK_AGREED(
		ask("{'op':'create','name':'a','memory':%llu,'share':20,'share_limit':true,'class':'latency'}", GIB));
	CHECK_STR(terms_of("a"), "20 limit latency");
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu}", GIB));
	CHECK_STR(terms_of("b"), "0 batch");
	CHECK_STR(turns_of("a"), ""); // no program runs
	json_t *entered = ask("{'op':'enter','vgpu':'a'}");
	CHECK_INT(json_integer_value(json_object_get(entered, "share")), 20);
	CHECK(json_is_true(json_object_get(entered, "share_limit")));
	CHECK_STR(json_string_value(json_object_get(entered, "class")), "latency");
	json_decref(entered);
	CHECK_AGREED(ask("{'op':'set','name':'a','share':40}"));
	CHECK_STR(terms_of("a"), "40 limit latency");
	CHECK_AGREED(ask("{'op':'set','name':'a','share':0}")); // removing the share removes the limit, too
	CHECK_STR(terms_of("a"), "0 latency");
}

TEST(invalid_terms_are_refused)
{
	static const char *const shares[] = {"-1", "101", "30.5", "'30'", "true", "99999999999"};

	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'share':30}", GIB));
	for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
		CHECK_REFUSED(ask("{'op':'create','name':'x','memory':%llu,'share':%s}", GIB, shares[i]), "invalid",
			      "percentage from 1 to 100");
		CHECK_REFUSED(ask("{'op':'enter','memory':%llu,'share':%s}", GIB, shares[i]), "invalid", "percentage");
		CHECK_REFUSED(ask("{'op':'set','name':'a','share':%s}", shares[i]), "invalid", "percentage");
	}
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':%llu,'share_limit':true}", GIB), "invalid",
		      "a limit needs a share");
	CHECK_REFUSED(ask("{'op':'create','name':'x','share':0}"), "invalid", "\"memory\" must be");
	CHECK_REFUSED(ask("{'op':'create','name':'x','share':30,'memory':0}"), "invalid", "\"memory\" must be");
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':%llu,'class':'fast'}", GIB), "invalid",
		      "\"class\" must be \"batch\" or \"latency\"");
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':%llu,'class':1}", GIB), "invalid", "\"class\" must be");
	CHECK_INT(figure("x", "memory"), -1);
	CHECK_STR(terms_of("a"), "30 batch");
}

TEST(share_without_memory_gets_the_same_part_of_the_memory)
{
	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','share':25,'device':0}"));
	// Integer division makes 25 % of 8 GiB a little less than 2 GiB. The daemon rounds down to blocks of 2 MiB.
	CHECK_INT(figure("a", "memory"), 2 * GIB - 2 * MIB);
	CHECK_AGREED(ask("{'op':'create','name':'b','share':75,'device':0}"));
	CHECK_INT(figure("b", "memory") % (2 * MIB), 0);
	CHECK(figure("a", "memory") + figure("b", "memory") <= (json_int_t)(8 * GIB));
	CHECK_AGREED(ask("{'op':'create','name':'c','memory':%llu,'device':1}", 7 * GIB));
	CHECK_REFUSED(ask("{'op':'create','name':'d','share':50,'device':1}"), "limit",
		      "asked for 4.0 GiB, but 1.0 GiB is left");
}

TEST(shares_beyond_100_percent_are_refused)
{
	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'share':30,'device':0}", GIB));
	CHECK_REFUSED(
		ask("{'op':'create','name':'b','memory':%llu,'share':80,'device':0}", GIB), "limit",
		"GPU 0: asked for a share of 80 %, but 70 % is left: other vGPUs have 30 %; ask for less, or lower "
		"a share with `virgate set NAME --share PERCENT`");
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu,'share':70,'device':0}", GIB));
	CHECK_REFUSED(ask("{'op':'create','name':'c','memory':%llu,'share':1,'device':0}", GIB), "limit",
		      "asked for a share of 1 %, but nothing is left: other vGPUs have all of it");
	CHECK_REFUSED(ask("{'op':'enter','memory':%llu,'share':1,'device':0}", GIB), "limit", "nothing is left");
	CHECK_REFUSED(ask("{'op':'set','name':'a','share':31}"), "limit",
		      "asked for a share of 31 %, but 30 % is left: other vGPUs have 70 %");
	CHECK_REFUSED(ask("{'op':'set','name':'a','share':31,'memory':%llu}", 2 * GIB), "limit", "30 % is left");
	CHECK_INT(figure("a", "memory"), GIB); // nothing has changed
	CHECK_STR(terms_of("a"), "30 batch");
	// all of the compute share of GPU 0 is in use, so vGPU c gets none
	CHECK_AGREED(ask("{'op':'create','name':'c','memory':%llu,'device':0}", GIB));
	CHECK_AGREED(ask("{'op':'create','name':'d','memory':%llu,'share':100,'device':1}", GIB));
	CHECK_AGREED(ask("{'op':'set','name':'b','share':60}"));
	CHECK_AGREED(ask("{'op':'set','name':'a','share':40}"));
	CHECK_AGREED(ask("{'op':'rm','name':'b'}"));
	CHECK_AGREED(ask("{'op':'set','name':'c','share':60}"));
}

TEST(choice_of_gpu_considers_the_share)
{
	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'share':60,'device':0}", GIB));
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu,'device':1}", 4 * GIB));
	// GPU 0 has more memory left, but only GPU 1 has enough compute share left.
	CHECK_AGREED(ask("{'op':'create','name':'c','memory':%llu,'share':60}", GIB));
	CHECK_INT(figure("c", "device"), 1);
	CHECK_AGREED(ask("{'op':'create','name':'d','memory':%llu,'share':40}", GIB));
	CHECK_INT(figure("d", "device"), 0);
	CHECK_REFUSED(ask("{'op':'create','name':'e','memory':%llu,'share':41}", GIB), "limit",
		      "asked for a share of 41 %");
}

TEST(choice_of_gpu_considers_the_memory_of_the_share)
{
	fresh_node();
	set_world("gpu %llu\ngpu %llu\n", 8 * GIB, 4 * GIB);
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'device':0}", 5 * GIB));
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu,'device':1}", 2 * GIB));
	CHECK_AGREED(ask("{'op':'create','name':'c','share':50}")); // needs 4 GiB, but GPU 0 has only 3 GiB left
	CHECK_INT(figure("c", "device"), 1);
	CHECK_AGREED(ask("{'op':'create','name':'d','share':25}"));
	CHECK_INT(figure("d", "device"), 0);
}

TEST(terms_survive_a_restart)
{
	char name[64], text[64];

	fresh_node();
	start_daemon();
	CHECK_AGREED(
		ask("{'op':'create','name':'a','memory':%llu,'share':20,'share_limit':true,'class':'latency'}", GIB));
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu,'share':10,'device':0}", GIB));
	CHECK_AGREED(ask("{'op':'set','name':'b','share':15}"));
	pid_t launcher = start_launcher(
		socket_path, "'memory':1073741824,'share':25,'share_limit':true,'class':'latency','device':0", name);
	snprintf(text, sizeof text, "%s", terms_of(name));
	CHECK_STR(text, "25 limit latency");
	kill_daemon();
	start_daemon();
	CHECK_STR(terms_of("a"), "20 limit latency");
	CHECK_STR(terms_of("b"), "15 batch");
	CHECK_STR(terms_of(name), "25 limit latency");
	CHECK_REFUSED(ask("{'op':'set','name':'b','share':100}"), "limit", "is left");
	kill_tenant(launcher);
	CHECK(await_figure(name, "memory", -1, 5000) >= 0); // the share of the removed vGPU is free again
}

// Turns are listed while programs run on a GPU where a vGPU has a share.
TEST(turns_are_listed_while_programs_run)
{
	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'device':0}", GIB));
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu,'device':0}", GIB));
	pid_t first = start_tenant("a", MIB);
	CHECK_INT(figure("a", "tenants"), 1);
	CHECK_STR(turns_of("a"), ""); // no vGPU has a share
	CHECK_AGREED(ask("{'op':'set','name':'b','share':30}"));
	CHECK(await_turns("a", "held: "));
	CHECK_STR(turns_of("b"), ""); // no program runs in vGPU b
	pid_t second = start_tenant("b", MIB);
	CHECK(await_turns("b", "held: "));
	kill_tenant(second);
	CHECK(await_turns("b", ""));
	kill_tenant(first);
	CHECK(await_turns("a", ""));
}

TEST(stopped_processes_are_listed)
{
	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'share':30,'device':0}", GIB));
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu,'device':0}", GIB));
	pid_t tenant = start_tenant("a", MIB), other = start_tenant("b", MIB);
	CHECK(await_turns("a", "held: no other vGPU is active"));
	kill(tenant, SIGSTOP);
	CHECK(await_turns("a", "not held: a process is stopped"));
	kill(tenant, SIGCONT);
	CHECK(await_turns("a", "held: "));
	kill(tenant, SIGSTOP);
	CHECK(await_turns("a", "not held: a process is stopped"));
	CHECK(await_turns("b", "held: "));
	kill_tenant(tenant);
	CHECK(await_turns("a", ""));
	kill_tenant(other);
}

// Waits until the page shows the reason if `has`, else until it shows another one. Returns false after 5 s.
static bool await_reason(const struct turn_page *page, enum turn_reason reason, bool has)
{
	uint64_t end = vg_clock_monotonic_ns() + 5000000000;

	while ((atomic_load(&page->reason) == reason) != has)
		if (vg_clock_monotonic_ns() > end)
			return false;
	return true;
}

// Acts like a thread that waits for its vGPU's turn and reads the arbiter's word. Returns how long it took until the
// daemon counted the process as running again.
static uint64_t show_life(struct turn_page *page, struct turn_slot *slot)
{
	uint64_t begin = vg_clock_monotonic_ns();

	atomic_store(&slot->alive_ns, begin);
	atomic_store(&slot->waiting, 1);
	atomic_fetch_add(&page->bell, 1);
	syscall(SYS_futex, &page->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
	CHECK(await_reason(page, TURN_REASON_STOPPED, false));
	return vg_clock_monotonic_ns() - begin;
}

// Tests a stopped process that continues, and shows that by reading the arbiter's word. The daemon must notice that
// before its next scan, which is 250 ms after the scan that saw the process stopped. Some rounds may fail because the
// machine is busy.
TEST(continued_process_counts_at_once)
{
	uint64_t least = UINT64_MAX;
	struct vg_ledger *ledger;
	char path[400];

	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'share':30,'device':0}", GIB));
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu,'share':30,'device':0}", GIB));
	pid_t tenant = start_tenant("a", MIB), other = start_tenant("b", MIB);
	snprintf(path, sizeof path, "%s/ledgers/a", runtime_dir);
	CHECK_INT(vg_ledger_open(path, &ledger), 0);
	struct turn_slot *slot = (struct turn_slot *)vg_ledger_turn_slots(ledger);
	struct turn_page *page = vg_ledger_turn_page(ledger);
	kill(tenant, SIGSTOP);
	for (int i = 0; i < 10 && least > 100000000; i++) {
		atomic_store(&slot->waiting, 0);
		CHECK(await_reason(page, TURN_REASON_STOPPED, true));
		uint64_t took = show_life(page, slot);
		least = took < least ? took : least;
	}
	CHECK(least <= 100000000);
	vg_ledger_close(ledger);
	kill_tenant(tenant);
	kill_tenant(other);
}

TEST(gate_is_open_during_a_checkpoint)
{
	struct vg_ledger *ledger;
	char path[400];

	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'share':30,'device':0}", GIB));
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu,'share':30,'device':0}", GIB));
	// The request arrives before a program runs.
	CHECK_AGREED(ask("{'op':'exempt','name':'b','milliseconds':1000}"));
	pid_t tenant = start_tenant("a", MIB), other = start_tenant("b", MIB);
	snprintf(path, sizeof path, "%s/ledgers/a", runtime_dir);
	CHECK_INT(vg_ledger_open(path, &ledger), 0);
	struct turn_page *page = vg_ledger_turn_page(ledger);
	CHECK(await_reason(page, TURN_REASON_ALONE, true));
	CHECK_AGREED(ask("{'op':'exempt','name':'a','milliseconds':60000}"));
	CHECK(await_reason(page, TURN_REASON_EXEMPT, true));
	CHECK_INT(atomic_load(&page->word), 0);
	CHECK_AGREED(ask("{'op':'set','name':'a','share':40}")); // a change of the share does not end the exemption
	CHECK_INT(atomic_load(&page->reason), TURN_REASON_EXEMPT);
	CHECK(await_turns("a", "not held: a checkpoint is being taken"));
	CHECK_AGREED(ask("{'op':'exempt','name':'a','milliseconds':0}"));
	CHECK(await_reason(page, TURN_REASON_EXEMPT, false));
	// An exemption ends by itself, since the program that requested it may be killed.
	CHECK_AGREED(ask("{'op':'exempt','name':'a','milliseconds':300}"));
	CHECK(await_reason(page, TURN_REASON_EXEMPT, true));
	CHECK(await_reason(page, TURN_REASON_EXEMPT, false));
	CHECK_REFUSED(ask("{'op':'exempt','name':'a','milliseconds':60001}"), "invalid", "from 0 to 60000");
	CHECK_REFUSED(ask("{'op':'exempt','name':'a','milliseconds':-1}"), "invalid", "from 0 to 60000");
	CHECK_REFUSED(ask("{'op':'exempt','name':'a','milliseconds':'1'}"), "invalid", "from 0 to 60000");
	CHECK_REFUSED(ask("{'op':'exempt','name':'a'}"), "invalid", "\"milliseconds\"");
	CHECK_REFUSED(ask("{'op':'exempt','name':'x','milliseconds':1}"), "not_found", "no vGPU x");
	vg_ledger_close(ledger);
	kill_tenant(tenant);
	kill_tenant(other);
}

TEST(damaged_vgpu_has_no_share)
{
	char path[400];

	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'share':30}", GIB));
	pid_t tenant = start_tenant("a", MIB);
	CHECK(await_turns("a", "held: "));
	snprintf(path, sizeof path, "%s/ledgers/a", runtime_dir);
	CHECK_INT(truncate(path, 100), 0);
	CHECK(await_turns("a", "not held: its ledger is damaged"));
	kill_tenant(tenant);
}

// Starts two daemons that share one GPU. Only one of them can control compute shares there.
TEST(only_one_daemon_controls_the_shares_of_a_gpu)
{
	char other_socket[330], name[64];

	fresh_node();
	start_daemon();
	pid_t other = start_other_daemon(other_socket);
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'share':30,'device':0}", GIB));
	CHECK_AGREED(ask_at(other_socket, "{'op':'create','name':'b','memory':%llu,'share':90,'device':0}", GIB));
	CHECK_AGREED(ask_at(other_socket, "{'op':'create','name':'c','memory':%llu,'device':0}", GIB));
	pid_t launcher = start_launcher(socket_path, "'vgpu':'a'", name);
	CHECK_REFUSED(ask_at(other_socket, "{'op':'enter','vgpu':'b'}"), "limit", "GPU 0: another daemon, of user ");
	CHECK_REFUSED(ask_at(other_socket, "{'op':'create','name':'d','memory':%llu,'share':1,'device':0}", GIB),
		      "limit", "holds compute shares there, and two daemons cannot");
	CHECK_REFUSED(
		ask_at(other_socket, "{'op':'create','name':'d','memory':%llu,'class':'latency','device':0}", GIB),
		"limit", "virgated --system");
	CHECK_REFUSED(ask_at(other_socket, "{'op':'set','name':'c','share':10}"), "limit", "two daemons cannot");
	CHECK_AGREED(ask_at(other_socket, "{'op':'enter','vgpu':'c'}")); // vGPU c has no share
	CHECK_AGREED(ask_at(other_socket, "{'op':'create','name':'d','memory':%llu,'share':1,'device':1}", GIB));
	// Leaves GPU 1 with less free memory than GPU 0, so that the second daemon would choose GPU 0 for its memory.
	CHECK_AGREED(ask("{'op':'create','name':'e','memory':%llu,'device':1}", 5 * GIB));
	// The second daemon may not use a share on GPU 0, so it must choose GPU 1.
	CHECK_AGREED(ask_at(other_socket, "{'op':'create','name':'e','memory':%llu,'share':1}", GIB));
	// The vGPUs of the first daemon can still be entered.
	pid_t second = start_launcher(socket_path, "'vgpu':'a'", name);
	CHECK_AGREED(ask("{'op':'set','name':'a','share':60}"));
	kill_tenant(launcher);
	CHECK_REFUSED(ask_at(other_socket, "{'op':'set','name':'c','share':10}"), "limit", "two daemons cannot");
	kill_tenant(second);
	CHECK_AGREED(ask_at(other_socket, "{'op':'set','name':'c','share':10}"));
	kill(other, SIGTERM);
	waitpid(other, NULL, 0);
}
