// Tests evictable vGPUs: their options, and the requests (wishes) that the daemon writes into ledgers for suspend and
// resume.
#include "eviction_fixture.h"

// ---- options ---------------------------------------------------------------------------------------------

static void check_options(const char *name, uint64_t swap)
{
	json_t *reply = ask("{'op':'inspect','name':'%s'}", name), *vgpu = json_object_get(reply, "vgpu");
	struct vg_ledger *ledger = ledger_of(name);

	CHECK(json_is_boolean(json_object_get(vgpu, "evictable")));
	CHECK_INT(json_is_true(json_object_get(vgpu, "evictable")), swap > 0);
	CHECK_INT(json_integer_value(json_object_get(vgpu, "swap")), swap);
	CHECK_INT(json_is_object(json_object_get(vgpu, "eviction")), swap > 0);
	CHECK_INT((vg_ledger_flags(ledger) & VG_LEDGER_EVICTABLE) != 0, swap > 0);
	CHECK_INT(vg_ledger_swap(ledger), swap);
	vg_ledger_close(ledger);
	json_decref(reply);
}

TEST(options_are_stored)
{
	char command[700];

	start_evictable_node();
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu,'device':0,'evictable':true,'swap':%llu,"
			 "'idle_suspend':30}",
			 GIB, 64 * MIB));
	CHECK_AGREED(ask("{'op':'create','name':'c','memory':%llu,'device':0}", GIB));
	for (int i = 0; i < 3; i++) {
		check_options("a", 4 * GIB);
		check_options("b", 64 * MIB);
		CHECK_INT(figure("b", "idle_suspend"), 30);
		check_options("c", 0);
		kill_daemon();
		snprintf(command, sizeof command, "rm -rf '%s/ledgers' '%s/vgpus.json'", runtime_dir, runtime_dir);
		if (i == 1)
			CHECK_INT(system(command), 0); // a reboot removes the runtime directory
		start_daemon();
	}
	CHECK_AGREED(ask("{'op':'set','name':'b','memory':%llu}", GIB + MIB));
	check_options("b", 64 * MIB);
}

// Tests two vGPUs whose options are not in the state file. The first is ephemeral, so it is only in the runtime
// directory. Of the second, only the ledger exists.
TEST(options_of_an_ephemeral_vgpu_are_stored)
{
	char path[300];

	fresh_node();
	start_daemon();
	pid_t launcher = fork();
	if (launcher == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		json_t *reply = ask("{'op':'enter','name':'run','device':0,'memory':%llu,'evictable':true,'swap':%llu}",
				    GIB, 64 * MIB);
		if (!agreed(reply))
			_exit(1);
		for (;;)
			pause();
	}
	CHECK(await_figure("run", "memory", GIB, 2000) >= 0);
	pid_t player = start_player(path_of("run"), &(struct player_plan){.bytes = 8 * MIB});
	check_options("run", 64 * MIB);
	kill_daemon();
	start_daemon();
	check_options("run", 64 * MIB);
	kill_daemon();
	snprintf(path, sizeof path, "%s/vgpus.json", runtime_dir);
	CHECK_INT(unlink(path), 0);
	start_daemon();
	check_options("run", 64 * MIB);
	kill_tenant(player);
	kill_tenant(launcher);
}

TEST(invalid_options_are_refused)
{
	static const char *const values[] = {"0", "-1", "1.5", "'1G'", "true", "null"};

	fresh_node();
	start_daemon();
	for (size_t i = 0; i < sizeof values / sizeof *values; i++)
		CHECK_REFUSED(
			ask("{'op':'create','name':'x','memory':%llu,'evictable':true,'swap':%s}", GIB, values[i]),
			"invalid", "\"swap\" must be a number");
	for (size_t i = 0; i < sizeof values / sizeof *values; i++)
		CHECK_REFUSED(ask("{'op':'create','name':'x','memory':%llu,'evictable':true,'idle_suspend':%s}", GIB,
				  values[i]),
			      "invalid", "\"idle_suspend\" must be a number of seconds from 1 to 3600");
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':%llu,'evictable':true,'idle_suspend':3601}", GIB),
		      "invalid", "\"idle_suspend\" must be a number of seconds");
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':%llu,'idle_suspend':30}", GIB), "invalid",
		      "only evictable vGPUs are suspended");
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':%llu,'swap':%llu}", GIB, MIB), "invalid",
		      "a swap is for evictable vGPUs");
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':%llu,'evictable':false,'swap':%llu}", GIB, MIB),
		      "invalid", "a swap is for evictable vGPUs");
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':%llu,'evictable':1}", GIB), "invalid",
		      "\"evictable\" must be");
	CHECK_AGREED(ask("{'op':'create','name':'y','memory':%llu,'evictable':false}", GIB));
	CHECK_INT(figure("x", "memory"), -1);
}

TEST(swap_beyond_host_memory_is_refused_with_figures)
{
	FILE *file = fopen("/proc/meminfo", "re");
	unsigned long long kib;

	CHECK(file && fscanf(file, "MemTotal: %llu kB", &kib) == 1);
	fclose(file);
	fresh_node();
	start_daemon();
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':%llu,'evictable':true,'swap':%llu}", GIB, 1ull << 50),
		      "limit", "vGPU x: asked for a swap of 1.0 PiB for each process, but this machine has ");
	CHECK_REFUSED(
		ask("{'op':'create','name':'x','memory':%llu,'evictable':true,'swap':%llu}", GIB, (kib << 10) + 1),
		"limit", "of memory: ask for less");
	// The swap is as large as the limit by default.
	set_world("gpu %llu\ngpu %llu\n", 1ull << 51, 8 * GIB);
	kill_daemon();
	start_daemon();
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':%llu,'device':0,'evictable':true}", 1ull << 50), "limit",
		      "1.0 PiB, its memory limit, to the host");
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':%llu,'device':0,'evictable':true}", 1ull << 50), "limit",
		      "--swap SIZE");
	CHECK_AGREED(ask("{'op':'create','name':'x','memory':%llu,'device':0,'evictable':true,'swap':%llu}", 1ull << 50,
			 kib << 10));
}

// ---- requests to move memory ----------------------------------------------------------------------------

TEST(suspend_and_resume_vgpu)
{
	start_evictable_node();
	pid_t first = start_player(path_of("a"), &obedient), second = start_player(path_of("a"), &obedient);
	pid_t idle = start_player(path_of("a"), &(struct player_plan){0});
	struct vg_ledger *ledger = ledger_of("a");
	CHECK_STR(text_of("a", 0, "state"), "running");
	CHECK_INT(number_of("a", 0, "on_gpu"), 2 * GIB);
	CHECK_STR(text_of("a", idle, "state"), "none");
	CHECK_INT(count_asked(ask("{'op':'suspend','name':'a','drain_ms':2500}")), 3);
	CHECK_INT(vg_ledger_pager_page(ledger)->out, 1);
	CHECK_INT(player_slot(ledger, first)->out, 1);
	CHECK_INT(player_slot(ledger, first)->drain_ms, 2500);
	CHECK_INT(player_slot(ledger, first)->bell, 1);
	await_state("a", first, "suspended");
	await_state("a", second, "suspended");
	CHECK_STR(text_of("a", 0, "state"), "suspended");
	CHECK_INT(number_of("a", 0, "suspended"), 1);
	CHECK_INT(number_of("a", 0, "on_gpu"), 0);
	CHECK_INT(number_of("a", 0, "in_host"), 2 * GIB);
	CHECK_INT(number_of("a", first, "host"), GIB);
	CHECK_INT(number_of("a", first, "moves"), 1);
	CHECK(number_of("a", first, "state_ns") > 0);
	CHECK_STR(text_of("a", first, "reason"), "");
	CHECK_INT(figure("a", "charged"), 2 * GIB); // suspended memory stays charged to its processes
	CHECK_REFUSED(ask("{'op':'suspend','name':'a'}"), "busy",
		      "vGPU a is suspended already: `virgate resume a` resumes it");
	CHECK_INT(count_asked(ask("{'op':'resume','name':'a'}")), 3);
	CHECK_INT(vg_ledger_pager_page(ledger)->out, 0);
	CHECK_INT(player_slot(ledger, first)->out, 0);
	await_state("a", first, "running");
	await_state("a", second, "running");
	CHECK_STR(text_of("a", 0, "state"), "running");
	CHECK_INT(number_of("a", 0, "in_host"), 0);
	CHECK_REFUSED(ask("{'op':'resume','name':'a'}"), "busy", "vGPU a is not suspended");
	vg_ledger_close(ledger);
	kill_tenant(first);
	kill_tenant(second);
	kill_tenant(idle);
}

TEST(suspend_and_resume_one_process)
{
	start_evictable_node();
	pid_t first = start_player(path_of("a"), &obedient), second = start_player(path_of("a"), &obedient);
	CHECK_INT(count_asked(ask("{'op':'suspend','pid':%d}", (int)first)), 1);
	await_state("a", first, "suspended");
	CHECK_STR(text_of("a", second, "state"), "running");
	CHECK_INT(number_of("a", second, "suspended"), 0);
	CHECK_STR(text_of("a", 0, "state"), "partly suspended");
	CHECK_INT(number_of("a", 0, "suspended"), 0);
	CHECK_REFUSED(ask("{'op':'suspend','pid':%d}", (int)first), "busy", "is suspended already");
	CHECK_REFUSED(ask("{'op':'resume','pid':%d}", (int)second), "busy", "is not suspended");
	CHECK_INT(count_asked(ask("{'op':'resume','pid':%d}", (int)first)), 1);
	await_state("a", first, "running");
	// The first process is suspended alone. Resuming the vGPU must also resume that process, whether or not the
	// whole vGPU was suspended after it.
	for (int whole = 0; whole < 2; whole++) {
		CHECK_INT(count_asked(ask("{'op':'suspend','pid':%d}", (int)first)), 1);
		await_state("a", first, "suspended");
		if (whole) {
			CHECK_INT(count_asked(ask("{'op':'suspend','name':'a'}")), 2);
			await_state("a", second, "suspended");
			CHECK_REFUSED(ask("{'op':'resume','pid':%d}", (int)first), "busy",
				      "cannot be resumed alone, because its vGPU a is suspended: `virgate resume a`");
		}
		CHECK_INT(count_asked(ask("{'op':'resume','name':'a'}")), 2);
		await_state("a", first, "running");
		await_state("a", second, "running");
	}
	kill_tenant(first);
	kill_tenant(second);
}

TEST(invalid_wishes_are_refused)
{
	static const char *const pids[] = {"0", "-1", "'1'", "1.5", "99999999999"};

	start_evictable_node();
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu,'device':0}", GIB));
	pid_t other = start_tenant("b", MIB);
	for (int i = 0; i < 2; i++) {
		const char *op = i ? "resume" : "suspend";
		CHECK_REFUSED(
			ask("{'op':'%s','name':'b'}", op), "unsupported",
			"vGPU b is not evictable, so memory of its programs cannot move to the host: create it with "
			"--evictable");
		CHECK_REFUSED(ask("{'op':'%s','pid':%d}", op, (int)other), "unsupported", "vGPU b is not evictable");
		CHECK_REFUSED(ask("{'op':'%s','name':'nobody'}", op), "not_found", "no vGPU nobody");
		CHECK_REFUSED(ask("{'op':'%s','pid':1}", op), "not_found", "process 1 does not run in a vGPU of yours");
		CHECK_REFUSED(ask("{'op':'%s'}", op), "invalid", "\"name\"");
		CHECK_REFUSED(ask("{'op':'%s','name':'a','pid':%d}", op, (int)other), "invalid", "name one of them");
		for (size_t k = 0; k < sizeof pids / sizeof *pids; k++)
			CHECK_REFUSED(ask("{'op':'%s','pid':%s}", op, pids[k]), "invalid", "\"pid\" must be");
		CHECK_REFUSED(ask("{'op':'%s','name':'a','drain_ms':-1}", op), "invalid", "\"drain_ms\" must be");
		CHECK_REFUSED(ask("{'op':'%s','name':'a','drain_ms':3600001}", op), "invalid", "from 0 to 3600000");
		CHECK_REFUSED(ask("{'op':'%s','name':'a','drain_ms':'1'}", op), "invalid", "\"drain_ms\" must be");
	}
	CHECK_STR(text_of("a", 0, "state"), "running");
	kill_tenant(other);
	CHECK(await_figure("b", "tenants", 0, 2000) >= 0);
	CHECK_REFUSED(ask("{'op':'suspend','pid':%d}", (int)other), "not_found", "does not run in a vGPU");
}

TEST(suspend_vgpu_without_processes)
{
	start_evictable_node();
	CHECK_INT(count_asked(ask("{'op':'suspend','name':'a'}")), 0);
	CHECK_STR(text_of("a", 0, "state"), "suspended");
	CHECK_REFUSED(ask("{'op':'suspend','name':'a'}"), "busy", "is suspended already");
	pid_t later = start_player(path_of("a"), &obedient); // the process reads the request when it starts
	await_state("a", later, "suspended");
	CHECK_INT(number_of("a", later, "suspended"), 1);
	CHECK_INT(count_asked(ask("{'op':'resume','name':'a'}")), 1);
	await_state("a", later, "running");
	kill_tenant(later);
}

TEST(wish_survives_the_daemon)
{
	start_evictable_node();
	pid_t player = start_player(path_of("a"), &obedient);
	CHECK_INT(count_asked(ask("{'op':'suspend','name':'a'}")), 1);
	await_state("a", player, "suspended");
	kill_daemon();
	pid_t later = start_player(path_of("a"), &obedient);
	start_daemon();
	CHECK_STR(text_of("a", 0, "state"), "suspended");
	CHECK_INT(number_of("a", 0, "suspended"), 1);
	CHECK_STR(text_of("a", player, "state"), "suspended");
	await_state("a", later, "suspended");
	CHECK_INT(count_asked(ask("{'op':'resume','name':'a'}")), 2);
	await_state("a", player, "running");
	await_state("a", later, "running");
	kill_tenant(player);
	kill_tenant(later);
}

TEST(process_that_gave_up_is_asked_again)
{
	const struct player_plan stuck = {.bytes = GIB, .reason = PAGER_THREAD, .row = 3};

	start_evictable_node();
	pid_t good = start_player(path_of("a"), &obedient), bad = start_player(path_of("a"), &stuck);
	struct vg_ledger *ledger = ledger_of("a");
	for (uint32_t i = 1; i < 4; i++) {
		CHECK_INT(count_asked(ask("{'op':'suspend','name':'a'}")), 2);
		await_state("a", good, "suspended");
		for (int k = 0; k < 1000 && number_of("a", bad, "pending"); k++)
			poll(NULL, 0, 5);
		CHECK_STR(text_of("a", bad, "state"), "running");
		CHECK_STR(text_of("a", bad, "reason"), "thread");
		// The slot of the bad process contains the number of a row in entries.def. The daemon must list the
		// driver function of that row.
		CHECK_STR(text_of("a", bad, "call"), "cuArray3DGetDescriptor_v2");
		CHECK_STR(text_of("a", 0, "state"), "partly suspended");
		CHECK_INT(player_slot(ledger, bad)->bell, i);
		// the good process followed the first request, so the daemon did not wake it again
		CHECK_INT(player_slot(ledger, good)->bell, 1);
	}
	CHECK_INT(count_asked(ask("{'op':'resume','name':'a'}")), 2);
	await_state("a", good, "running");
	await_state("a", bad, "running");
	CHECK_STR(text_of("a", 0, "state"), "running");
	vg_ledger_close(ledger);
	kill_tenant(good);
	kill_tenant(bad);
}

// Checks the listing of every state between suspended and resumed, and of invalid states.
TEST(all_states_are_listed)
{
	start_evictable_node();
	pid_t slow = start_player(path_of("a"), &(struct player_plan){.bytes = GIB, .slow_ms = 60000});
	CHECK_INT(count_asked(ask("{'op':'suspend','pid':%d}", (int)slow)), 1);
	for (int i = 0; i < 1000 && strcmp(text_of("a", slow, "state"), "leaving") != 0; i++)
		poll(NULL, 0, 5);
	CHECK_STR(text_of("a", slow, "state"), "leaving");
	CHECK_STR(text_of("a", 0, "state"), "moving");
	CHECK_INT(number_of("a", slow, "pending"), 1);
	kill_tenant(slow);
	pid_t silent = start_player(path_of("a"), &(struct player_plan){.bytes = GIB, .is_silent = true});
	CHECK_INT(count_asked(ask("{'op':'suspend','pid':%d}", (int)silent)), 1);
	CHECK_STR(text_of("a", silent, "state"), "asked");
	CHECK_INT(count_asked(ask("{'op':'resume','pid':%d}", (int)silent)), 1); // withdraws the request to suspend
	CHECK_STR(text_of("a", silent, "state"), "running");
	kill_tenant(silent);
	pid_t homeless =
		start_player(path_of("a"), &(struct player_plan){.bytes = GIB, .reason = PAGER_DEVICE, .missing = MIB});
	CHECK_INT(count_asked(ask("{'op':'suspend','pid':%d}", (int)homeless)), 1);
	await_state("a", homeless, "suspended");
	CHECK_INT(count_asked(ask("{'op':'resume','pid':%d}", (int)homeless)), 1);
	await_state("a", homeless, "waiting");
	CHECK_STR(text_of("a", 0, "state"), "waiting");
	CHECK_STR(text_of("a", homeless, "reason"), "device");
	CHECK_INT(number_of("a", homeless, "missing"), MIB);
	kill_tenant(homeless);
	pid_t broken = start_player(path_of("a"), &(struct player_plan){.bytes = GIB, .breaks = true});
	CHECK_INT(count_asked(ask("{'op':'suspend','pid':%d}", (int)broken)), 1);
	await_state("a", broken, "broken");
	CHECK_REFUSED(ask("{'op':'suspend','pid':%d}", (int)broken), "busy", "is suspended already");
	kill_tenant(broken);
	pid_t ill = start_player(path_of("a"), &(struct player_plan){.bytes = GIB, .reason = PAGER_DRIVER, .row = 700});
	CHECK_INT(count_asked(ask("{'op':'suspend','pid':%d}", (int)ill)), 1);
	await_state("a", ill, "running");
	CHECK_STR(text_of("a", ill, "reason"), "driver");
	CHECK_INT(number_of("a", ill, "error"), 700);
	CHECK_STR(text_of("a", ill, "call"), "null");
	kill_tenant(ill);
}

// Tests a host: a program to which the vGPU belongs (vg_ledger_set_host). The daemon must not ask it to suspend.
TEST(host_is_not_suspended)
{
	start_evictable_node();
	pid_t host = start_player(path_of("a"), &(struct player_plan){.bytes = GIB, .is_host = true});
	struct vg_ledger *ledger = ledger_of("a");
	CHECK_INT(count_asked(ask("{'op':'suspend','name':'a'}")), 0);
	CHECK_INT(player_slot(ledger, host)->bell, 0);
	CHECK_REFUSED(ask("{'op':'suspend','pid':%d}", (int)host), "not_found", "does not run in a vGPU");
	vg_ledger_close(ledger);
	kill_tenant(host);
}

// ---- the end of processes and vGPUs -----------------------------------------------------------------------

TEST(killed_suspended_process_is_refunded)
{
	start_evictable_node();
	pid_t player = start_player(path_of("a"), &obedient);
	struct vg_ledger *ledger = ledger_of("a");
	struct pager_slot *slot = player_slot(ledger, player);
	CHECK_INT(count_asked(ask("{'op':'suspend','pid':%d}", (int)player)), 1);
	await_state("a", player, "suspended");
	kill_tenant(player);
	CHECK(await_figure("a", "charged", 0, 2000) >= 0);
	CHECK_INT(slot->out, 0);
	CHECK_INT(slot->host, 0);
	CHECK_STR(text_of("a", 0, "state"), "running");
	pid_t next = start_player(path_of("a"), &obedient);
	CHECK(player_slot(ledger, next) == slot);
	poll(NULL, 0, 300);
	CHECK_STR(text_of("a", next, "state"), "running"); // the request was for the killed process, not for this one
	vg_ledger_close(ledger);
	kill_tenant(next);
}

TEST(suspended_vgpu_is_changed_and_removed)
{
	start_evictable_node();
	pid_t player = start_player(path_of("a"), &obedient);
	CHECK_INT(count_asked(ask("{'op':'suspend','name':'a'}")), 1);
	await_state("a", player, "suspended");
	CHECK_AGREED(ask("{'op':'set','name':'a','memory':%llu}", 3 * GIB));
	CHECK_REFUSED(ask("{'op':'set','name':'a','memory':%llu}", GIB - 1), "limit",
		      "is in use"); // the ended process's memory is still charged
	CHECK_STR(text_of("a", 0, "state"), "suspended");
	CHECK_REFUSED(ask("{'op':'rm','name':'a'}"), "busy", "is in use");
	json_decref(ask("{'op':'rm','name':'a','force':true}"));
	CHECK_INT(waitpid(player, NULL, 0), player);
	for (int i = 0; i < 400 && figure("a", "memory") >= 0; i++)
		poll(NULL, 0, 10);
	CHECK_INT(figure("a", "memory"), -1);
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'device':0,'evictable':true}", GIB));
	CHECK_STR(text_of("a", 0, "state"), "running");
	CHECK_INT(count_asked(ask("{'op':'suspend','name':'a'}")), 0);
	CHECK_AGREED(ask("{'op':'rm','name':'a'}"));
}

// Removes the ledger. New programs cannot use the vGPU then, but its suspended programs must be able to continue.
TEST(vgpu_with_removed_ledger_is_resumed)
{
	start_evictable_node();
	pid_t player = start_player(path_of("a"), &obedient);
	struct vg_ledger *ledger = ledger_of("a");
	CHECK_INT(count_asked(ask("{'op':'suspend','name':'a'}")), 1);
	await_state("a", player, "suspended");
	CHECK_INT(unlink(path_of("a")), 0);
	CHECK_REFUSED(ask("{'op':'suspend','name':'a'}"), "system", "its file was removed");
	CHECK_INT(count_asked(ask("{'op':'resume','name':'a'}")), 1);
	await_state("a", player, "running");
	vg_ledger_close(ledger);
	kill_tenant(player);
}
