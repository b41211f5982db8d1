// Tests the end of tenants, restarts of the daemon, and the state file.
#include "daemon_fixture.h"
#include "ledger/layout.h"

#include <sys/mman.h>
#include <sys/prctl.h>

static uint64_t now_ms(void)
{
	return vg_clock_monotonic_ns() / 1000000;
}

TEST(ended_tenant_is_refunded_after_its_memory_is_released)
{
	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'device':0}", 4 * GIB));
	pid_t tenant = start_tenant("a", GIB);
	set_world("gpu %llu\ngpu %llu\nprocess 0 %d %llu\n", 8 * GIB, 8 * GIB, (int)tenant, GIB);
	kill_tenant(tenant);
	for (uint64_t end = now_ms() + 600; now_ms() < end; poll(NULL, 0, 10))
		CHECK_INT(figure("a", "charged"), GIB); // no refund while the device still has the memory
	set_world("gpu %llu\ngpu %llu\n", 8 * GIB, 8 * GIB);
	int waited = await_figure("a", "charged", 0, 1000);
	CHECK(waited >= 0);
	CHECK_INT(figure("a", "tenants"), 0);
}

TEST(ended_tenant_without_memory_is_refunded_at_once)
{
	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu}", 4 * GIB));
	for (int i = 0; i < 10; i++) {
		pid_t tenant = start_tenant("a", GIB);
		CHECK_INT(figure("a", "charged"), GIB);
		kill_tenant(tenant);
		CHECK(await_figure("a", "charged", 0, 1000) >= 0);
	}
}

TEST(ended_tenant_is_refunded_if_nvml_fails)
{
	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu}", 4 * GIB));
	pid_t tenant = start_tenant("a", GIB);
	set_world("gpu %llu\ngpu %llu\nsilent\n", 8 * GIB, 8 * GIB);
	kill_tenant(tenant);
	int waited = await_figure("a", "charged", 0, 3000);
	CHECK(waited >= 900);
	json_t *listed = ask("{'op':'inspect','name':'a'}");
	json_decref(listed);
}

TEST(physical_memory_is_listed_or_null)
{
	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'device':0}", 4 * GIB));
	pid_t tenant = start_tenant("a", GIB);
	set_world("gpu %llu\ngpu %llu\nprocess 0 %d %llu\n", 8 * GIB, 8 * GIB, (int)tenant, GIB + 5);
	CHECK(await_figure("a", "physical", (json_int_t)GIB + 5, 1000) >= 0);
	set_world("gpu %llu\ngpu %llu\nsilent\n", 8 * GIB, 8 * GIB);
	poll(NULL, 0, 250);
	json_t *reply = ask("{'op':'inspect','name':'a'}");
	CHECK(json_is_null(json_object_get(json_object_get(reply, "vgpu"), "physical")));
	json_decref(reply);
	kill_tenant(tenant);
}

TEST(next_daemon_takes_over_running_tenants)
{
	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'share':20}", 4 * GIB));
	pid_t stays = start_tenant("a", GIB), goes = start_tenant("a", 2 * GIB);
	CHECK_INT(figure("a", "charged"), 3 * GIB);
	kill_daemon();
	kill_tenant(goes); // this tenant ends while no daemon runs
	pid_t comes = start_tenant("a", MIB);
	start_daemon();
	CHECK(await_figure("a", "charged", (json_int_t)(GIB + MIB), 1000) >= 0);
	CHECK_INT(figure("a", "tenants"), 2);
	CHECK_INT(figure("a", "share"), 20);
	kill_tenant(stays);
	CHECK(await_figure("a", "charged", (json_int_t)MIB, 1000) >= 0);
	kill_tenant(comes);
	CHECK(await_figure("a", "charged", 0, 1000) >= 0);
}

// Kills the daemon (kill -9) repeatedly, while tenants enter, charge, and are killed.
TEST(daemon_killed_under_load_loses_no_charge)
{
	enum { TENANTS = 8 };
	pid_t tenants[TENANTS];

	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu}", 4 * GIB));
	for (int round = 0; round < 8; round++) {
		for (int i = 0; i < TENANTS; i++)
			tenants[i] = start_tenant("a", 10 * MIB);
		for (int i = 0; i < TENANTS; i += 2)
			kill(tenants[i], SIGKILL);
		poll(NULL, 0, round); // kill the daemon at another point of its work in each round
		kill_daemon();
		for (int i = 1; i < TENANTS; i += 2)
			kill(tenants[i], SIGKILL);
		for (int i = 0; i < TENANTS; i++)
			waitpid(tenants[i], NULL, 0);
		start_daemon();
		CHECK(await_figure("a", "charged", 0, 2000) >= 0);
		CHECK_INT(figure("a", "tenants"), 0);
	}
}

// Starts a launcher that enters a new ephemeral vGPU, with more fields of the request. The vGPU exists until the
// launcher is killed.
static pid_t launch(const char *fields, uint64_t memory, char name[64])
{
	char all[128];

	snprintf(all, sizeof all, "'device':0,'memory':%llu%s", (unsigned long long)memory, fields);
	return start_launcher(socket_path, all, name);
}

static bool await_gone(const char *name)
{
	for (uint64_t end = now_ms() + 2000; now_ms() < end; poll(NULL, 0, 10))
		if (figure(name, "memory") < 0)
			return true;
	return false;
}

// Runs programs that each need the whole GPU, one after the other. Each waits until the daemon has removed the vGPU of
// the one before.
TEST(next_program_gets_the_room_of_the_last)
{
	char name[64];

	fresh_node();
	start_daemon();
	for (int i = 0; i < 30; i++) {
		pid_t launcher = launch("", 8 * GIB, name), tenant = i % 2 ? start_tenant(name, MIB) : 0;
		if (tenant)
			kill_tenant(tenant);
		kill_tenant(launcher);
	}
	pid_t launcher = launch("", 8 * GIB, name);
	CHECK_REFUSED(ask("{'op':'enter','device':0,'memory':%llu}", GIB), "limit", "nothing is left");
	kill_tenant(launcher);
}

TEST(next_program_gets_the_name_of_the_last)
{
	char name[64];

	fresh_node();
	start_daemon();
	for (int i = 0; i < 30; i++) {
		pid_t launcher = launch(",'name':'again'", GIB, name), tenant = i % 2 ? start_tenant(name, MIB) : 0;
		CHECK_STR(name, "again");
		if (tenant)
			kill_tenant(tenant);
		if (i == 0)
			CHECK_REFUSED(ask("{'op':'enter','device':0,'memory':%llu,'name':'again'}", GIB), "exists",
				      "there is a vGPU again already");
		kill_tenant(launcher);
	}
}

// Ends the daemon and the first program together. The next daemon finds the vGPU `again` without a process, and the
// next program must get that name.
TEST(next_program_gets_the_name_at_the_next_daemon)
{
	char name[64];

	fresh_node();
	start_daemon();
	for (int i = 0; i < 10; i++) {
		pid_t launcher = launch(",'name':'again'", GIB, name);
		kill_daemon();
		kill_tenant(launcher);
		start_daemon();
	}
}

TEST(ephemeral_vgpu_is_removed_after_its_last_process)
{
	char name[64], path[400], words[64];

	fresh_node();
	start_daemon();
	pid_t launcher = launch("", GIB, name);
	CHECK_INT(figure(name, "memory"), GIB);
	pid_t tenant = start_tenant(name, MIB);
	kill_tenant(launcher);
	poll(NULL, 0, 400);
	CHECK_INT(figure(name, "memory"), GIB); // the program continues without its launcher, so its vGPU stays
	kill_daemon();
	start_daemon();
	CHECK_INT(figure(name, "charged"), MIB);
	kill_tenant(tenant);
	CHECK(await_gone(name));
	snprintf(path, sizeof path, "%s/ledgers/%s", runtime_dir, name);
	CHECK_INT(access(path, F_OK), -1);
	// The daemon also removes the vGPU of a launcher without a program, even if the daemon was restarted meanwhile.
	launcher = launch("", GIB, name);
	kill_daemon();
	start_daemon();
	poll(NULL, 0, 300);
	CHECK_INT(figure(name, "memory"), GIB);
	snprintf(words, sizeof words, "1 by virgate run (process %d)", (int)launcher);
	CHECK_REFUSED(ask("{'op':'rm','name':'%s'}", name), "busy", words);
	kill_tenant(launcher);
	CHECK(await_gone(name));
	json_t *devices = ask("{'op':'devices'}");
	CHECK_INT(
		json_integer_value(json_object_get(json_array_get(json_object_get(devices, "devices"), 0), "reserved")),
		0);
	json_decref(devices);
}

TEST(created_vgpus_survive_a_reboot)
{
	char command[700];

	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'share':20,'device':1}", 4 * GIB));
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu,'device':1}", 1 * GIB));
	CHECK_AGREED(ask("{'op':'set','name':'b','memory':%llu}", 2 * GIB));
	CHECK_AGREED(ask("{'op':'rm','name':'a'}"));
	kill_daemon();
	snprintf(command, sizeof command, "rm -rf '%s/ledgers' '%s/vgpus.json'", runtime_dir, runtime_dir);
	CHECK_INT(system(command), 0);
	start_daemon();
	CHECK_INT(figure("a", "memory"), -1);
	CHECK_INT(figure("b", "memory"), 2 * GIB);
	CHECK_INT(figure("b", "device"), 1);
	pid_t tenant = start_tenant("b", 2 * GIB);
	CHECK_INT(figure("b", "charged"), 2 * GIB);
	kill_tenant(tenant);
}

TEST(damaged_files_do_not_affect_other_vgpus)
{
	char path[400], aside[420];

	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu}", GIB));
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu}", GIB));
	snprintf(path, sizeof path, "%s/ledgers/a", runtime_dir);
	CHECK_INT(truncate(path, 100), 0); // the daemon has mapped the file at this time
	json_t *reply = ask("{'op':'inspect','name':'a'}"), *damaged = json_object_get(reply, "vgpu");
	CHECK(json_is_true(json_object_get(damaged, "damaged")));
	CHECK(json_is_null(json_object_get(damaged, "physical")));
	json_decref(reply);
	CHECK_AGREED(ask("{'op':'list'}"));
	CHECK_REFUSED(ask("{'op':'enter','vgpu':'a'}"), "system", "its file was truncated");
	CHECK_INT(figure("b", "memory"), GIB);
	kill_daemon();
	start_daemon(); // the new daemon creates the ledger again
	CHECK_AGREED(ask("{'op':'enter','vgpu':'a'}"));
	kill_daemon();
	snprintf(path, sizeof path, "%s/state/state.json", runtime_dir);
	CHECK_INT(vg_file_write_atomic(path, "{ half a fi", 11, 0600), 0);
	start_daemon();
	CHECK_AGREED(ask("{'op':'ping'}"));
	snprintf(aside, sizeof aside, "%s.damaged", path);
	CHECK_INT(access(aside, F_OK), 0);
}

TEST(measured_overhead_is_stored)
{
	char path[400];
	struct vg_ledger *ledger;

	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu}", GIB));
	snprintf(path, sizeof path, "%s/ledgers/a", runtime_dir);
	CHECK_INT(vg_ledger_open(path, &ledger), 0);
	CHECK_INT(vg_ledger_context_overhead(ledger), 544 * MIB);
	CHECK(!(vg_ledger_flags(ledger) & VG_LEDGER_OVERHEAD_MEASURED));
	// from now on, this process itself is the tenant
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_CONTEXT, 544 * MIB), 0);
	vg_ledger_set_pristine(ledger, true);
	// The daemon must not use a context that is being created or destroyed to estimate the overhead.
	for (int mib = 100; mib < 523; mib += 40) {
		set_world("gpu %llu\ngpu %llu\nprocess 0 %d %llu\n", 8 * GIB, 8 * GIB, (int)getpid(), mib * MIB);
		poll(NULL, 0, 100);
	}
	CHECK_INT(vg_ledger_context_overhead(ledger), 544 * MIB);
	set_world("gpu %llu\ngpu %llu\nprocess 0 %d %llu\n", 8 * GIB, 8 * GIB, (int)getpid(), 523 * MIB);
	poll(NULL, 0, 900);
	CHECK_INT(vg_ledger_context_overhead(ledger), 523 * MIB);
	set_world("gpu %llu\ngpu %llu\nprocess 0 %d %llu\n", 8 * GIB, 8 * GIB, (int)getpid(), 200 * MIB);
	poll(NULL, 0, 900);
	CHECK_INT(vg_ledger_context_overhead(ledger), 523 * MIB);
	vg_ledger_leave(ledger);
	vg_ledger_close(ledger);
	kill_daemon();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu}", GIB));
	snprintf(path, sizeof path, "%s/ledgers/b", runtime_dir);
	CHECK_INT(vg_ledger_open(path, &ledger), 0);
	CHECK_INT(vg_ledger_context_overhead(ledger), 523 * MIB);
	CHECK(vg_ledger_flags(ledger) & VG_LEDGER_OVERHEAD_MEASURED);
	vg_ledger_close(ledger);
}

// Tests a tenant that reserves and refunds all the time, while NVML shows 1 GiB for it. The daemon must find at least
// the part of that 1 GiB that exceeds the most that the tenant ever declared.
TEST(busy_tenant_is_measured)
{
	struct vg_ledger_tenant seen;
	struct vg_ledger *ledger;
	unsigned int cursor = 0;
	char path[400];

	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu}", 4 * GIB));
	snprintf(path, sizeof path, "%s/ledgers/a", runtime_dir);
	CHECK_INT(vg_ledger_open(path, &ledger), 0);
	pid_t child = fork();
	if (child == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (child == 0) {
		vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 64 * MIB);
		vg_ledger_refund(ledger, VG_LEDGER_DEVICE, 64 * MIB);
	}
	set_world("gpu %llu\ngpu %llu\nprocess 0 %d %llu\n", 8 * GIB, 8 * GIB, (int)child, GIB);
	for (int i = 0; i < 3000; i++) {
		cursor = 0;
		if (vg_ledger_next_tenant(ledger, &cursor, &seen) && seen.undeclared >= GIB - 64 * MIB)
			break;
		poll(NULL, 0, 10);
	}
	CHECK_INT(seen.owner.pid, child);
	CHECK(seen.undeclared >= GIB - 64 * MIB);
	CHECK(seen.undeclared <= GIB);
	kill_tenant(child);
	vg_ledger_close(ledger);
}

// Checks that a tenant does not wait for the daemon when it starts: entering takes 10 ms at most, also with sanitizers.
TEST(entering_takes_10_ms_at_most)
{
	enum { TIMES = 50 };
	uint64_t best = UINT64_MAX;

	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu}", GIB));
	for (int i = 0; i < TIMES; i++) {
		uint64_t start = vg_clock_monotonic_ns();
		CHECK_AGREED(ask("{'op':'enter','vgpu':'a'}"));
		uint64_t took = vg_clock_monotonic_ns() - start;
		best = took < best ? took : best;
	}
	printf("entering takes %.2f ms at best\n", (double)best / 1e6);
	CHECK(best < 10000000);
}

// 64 processes enter, charge and register at the same time.
TEST(many_processes_start_at_once)
{
	enum { MANY = 64 };
	pid_t children[MANY];
	int gate[2], done[2];
	char byte;

	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu}", 4 * GIB));
	CHECK_INT(pipe(gate), 0);
	CHECK_INT(pipe(done), 0);
	for (int i = 0; i < MANY; i++) {
		children[i] = fork();
		if (children[i] == 0) {
			struct vg_ledger *ledger;
			struct vg_wire_registration registration = {
				.pid = (uint32_t)getpid(), .pid_namespace = 1, .ledger = "a"};
			close(gate[1]);
			if (read(gate[0], &byte, 1) < 0)
				_exit(1);
			json_t *entered = ask("{'op':'enter','vgpu':'a'}");
			byte = vg_ledger_open(json_string_value(json_object_get(entered, "ledger")), &ledger) == 0 &&
			       vg_ledger_reserve(ledger, VG_LEDGER_CONTEXT, MIB) == 0;
			vg_wire_register(socket_path, &registration, -1);
			if (write(done[1], &byte, 1) != 1)
				_exit(1);
			for (;;)
				pause();
		}
	}
	close(gate[0]);
	uint64_t start = now_ms();
	close(gate[1]);
	for (int i = 0; i < MANY; i++)
		CHECK(read(done[0], &byte, 1) == 1 && byte == 1);
	printf("%d processes entered and charged within %d ms\n", MANY, (int)(now_ms() - start));
	CHECK(now_ms() - start < 5000);
	CHECK_INT(figure("a", "charged"), MANY * MIB);
	CHECK_INT(figure("a", "tenants"), MANY);
	for (int i = 0; i < MANY; i++)
		kill_tenant(children[i]);
	close(done[0]);
	close(done[1]);
	CHECK(await_figure("a", "charged", 0, 2000) >= 0);
}

// Lets a tenant execute a program that does not use CUDA (exec). The process must then be charged for nothing any more.
TEST(exec_is_refunded)
{
	char path[400];

	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu}", 4 * GIB));
	snprintf(path, sizeof path, "%s/ledgers/a", runtime_dir);
	pid_t child = fork();
	if (child == 0) {
		struct vg_ledger *ledger;
		if (vg_ledger_open(path, &ledger) != 0 || vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, GIB) != 0)
			_exit(1);
		poll(NULL, 0, 300);
		execl("/bin/sleep", "sleep", "100", NULL);
		_exit(9);
	}
	CHECK(await_figure("a", "charged", (json_int_t)GIB, 1000) >= 0);
	CHECK(await_figure("a", "charged", 0, 2000) >= 0);
	CHECK_INT(figure("a", "tenants"), 0);
	CHECK_INT(kill(child, 0), 0);
	kill_tenant(child);
}

// If NVML reports more memory than is charged, the daemon logs that once.
TEST(drift_is_logged_once)
{
	char path[300], text[8192], *at;

	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'device':0}", 4 * GIB));
	pid_t tenant = start_tenant("a", GIB);
	set_world("gpu %llu\ngpu %llu\nprocess 0 %d %llu\n", 8 * GIB, 8 * GIB, (int)tenant, 2 * GIB);
	snprintf(path, sizeof path, "%s/log", directory);
	for (uint64_t end = now_ms() + 8000; now_ms() < end; poll(NULL, 0, 100))
		if (vg_file_read(path, text, sizeof text) > 0 && strstr(text, "but 1.0 GiB is charged"))
			break;
	poll(NULL, 0, 600);
	CHECK(vg_file_read(path, text, sizeof text) > 0);
	CHECK((at = strstr(text, "holds 2.0 GiB on the device, but 1.0 GiB is charged")));
	CHECK(!strstr(at + 1, "holds 2.0 GiB on the device"));
	kill_tenant(tenant);
}

static struct vg_ledger *open_ledger(const char *name)
{
	char path[400];
	struct vg_ledger *ledger;

	snprintf(path, sizeof path, "%s/ledgers/%s", runtime_dir, name);
	CHECK_INT(vg_ledger_open(path, &ledger), 0);
	return ledger;
}

// Imitates a restore: this process first owns the reserved slot, and the daemon sees that. Then the restored tenant
// gets the slot.
TEST(measurement_uses_the_new_owner_of_a_slot)
{
	struct vg_ledger_tenant tenant;
	unsigned int cursor = 0;

	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'device':0}", 4 * GIB));
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu,'device':0}", 4 * GIB));
	pid_t child = start_tenant("a", 64 * MIB);
	struct vg_ledger *ledger = open_ledger("a"), *stand_in = open_ledger("a");
	CHECK(vg_ledger_next_tenant(ledger, &cursor, &tenant));
	CHECK_INT(tenant.owner.pid, child);
	CHECK_INT(vg_ledger_lift(ledger, &tenant, child), 0);
	CHECK_INT(vg_ledger_stand_in(stand_in, &tenant), 0);
	CHECK_INT(figure("a", "charged"), 128 * MIB);
	CHECK_INT(vg_ledger_hand_over(stand_in, &tenant, child), 0);
	// A tenant of vGPU b registers on the same GPU. That makes the daemon measure all tenants of the GPU, but scan
	// only vGPU b.
	pid_t other = start_tenant("b", MIB);
	CHECK_INT(figure("a", "charged"), 128 * MIB);
	vg_ledger_close(stand_in);
	vg_ledger_close(ledger);
	kill_tenant(other);
	kill_tenant(child);
	CHECK(await_figure("a", "charged", 0, 5000) >= 0);
}
