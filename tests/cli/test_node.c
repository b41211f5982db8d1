// Tests the verbs with the real daemon and the simulated GPU.
#include <sys/prctl.h>

#include "base/clock.h"
#include "live_node.h"

static pid_t daemon_pid(void)
{
	char text[64];

	read_file("run/lock", text, sizeof text);
	CHECK(atoi(text) > 0);
	return atoi(text);
}

TEST(devices_lists_simulated_gpus)
{
	node_start();
	json_t *json = read_listing(WORDS("devices", "--json")), *devices = json_object_get(json, "devices");
	CHECK_INT(json_array_size(devices), 2);
	json_t *device = json_array_get(devices, 1);
	CHECK_INT(json_integer_value(json_object_get(device, "index")), 1);
	CHECK_INT(json_integer_value(json_object_get(device, "memory")), 4 * GIB);
	CHECK(json_is_true(json_object_get(device, "simulated")));
	CHECK(strncmp(json_string_value(json_object_get(device, "uuid")), "GPU-", 4) == 0);
	json_decref(json);
}

TEST(vgpu_is_created_changed_and_removed)
{
	node_start();
	CHECK_VIRGATE("create", "train", "--memory", "2G", "--share", "30", "--device", "1");
	CHECK_REFUSAL(1, "train", "create", "train", "--memory", "1G");
	json_t *json = read_listing(WORDS("ps", "--json")), *vgpu = json_array_get(json_object_get(json, "vgpus"), 0);
	CHECK_STR(json_string_value(json_object_get(vgpu, "name")), "train");
	CHECK_INT(json_integer_value(json_object_get(vgpu, "memory")), 2 * GIB);
	CHECK_INT(json_integer_value(json_object_get(vgpu, "share")), 30);
	CHECK_INT(json_integer_value(json_object_get(vgpu, "device")), 1);
	CHECK(json_is_false(json_object_get(vgpu, "share_limit")));
	CHECK_STR(json_string_value(json_object_get(vgpu, "class")), "batch");
	CHECK(json_is_null(json_object_get(vgpu, "turns"))); // no program runs in the vGPU
	json_decref(json);
	CHECK_VIRGATE("set", "train", "--memory", "3G", "--share", "50");
	CHECK_VIRGATE("inspect", "train");
	CHECK_CONTAINS(result.out, "3.0 GiB");
	CHECK_CONTAINS(result.out, "share      50 %\n");
	CHECK_VIRGATE("set", "train", "--share", "none");
	CHECK_CONTAINS(result.out, "train: share none");
	CHECK_VIRGATE("inspect", "train");
	CHECK_CONTAINS(result.out, "share      none");
	CHECK_INT(VIRGATE_RUN("set", "train", "--share", "101"), 2);
	CHECK_VIRGATE("logs", "train");
	CHECK_CONTAINS(result.out, "nothing was refused");
	CHECK_INT(VIRGATE_RUN("rm", "train", "nobody"), 1);
	CHECK_CONTAINS(result.out, "train: removed");
	CHECK_CONTAINS(result.err, "nobody");
	json = read_listing(WORDS("ps", "--json"));
	CHECK_INT(json_array_size(json_object_get(json, "vgpus")), 0);
	json_decref(json);
}

TEST(oversized_limit_is_refused_with_figures)
{
	node_start();
	CHECK_VIRGATE("create", "a", "--memory", "3G", "--device", "0");
	CHECK_REFUSAL(1, "2.0 GiB", "create", "b", "--memory", "2G", "--device", "0");
	CHECK_CONTAINS(result.err, "4.0 GiB");
	CHECK_REFUSAL(1, "5.0 GiB", "set", "a", "--memory", "5G");
	CHECK_INT(VIRGATE_RUN("run", "--memory", "2G", "--device", "0", "true"), 125);
	CHECK_INT(VIRGATE_RUN("create", "c", "--memory", "1G", "--device", "7"), 1);
	CHECK_REFUSAL(1, "nobody", "inspect", "nobody");
	CHECK_REFUSAL(125, "nobody", "run", "--vgpu", "nobody", "true");
}

TEST(run_returns_exit_code_and_removes_vgpu)
{
	node_start();
	CHECK_INT(VIRGATE_RUN("run", "--name", "once", "--memory", "1G", "--", "sh", "-c", "exit 3"), 3);
	CHECK_STR(result.err, "");
	for (int i = 0; i < 200; i++) {
		json_t *json = read_listing(WORDS("ps", "--json"));
		size_t count = json_array_size(json_object_get(json, "vgpus"));
		json_decref(json);
		if (count == 0)
			return;
		usleep(10000);
	}
	FAIL("the run's vGPU is still there");
}

TEST(tenant_is_listed_and_limited)
{
	node_start();
	CHECK_VIRGATE("create", "train", "--memory", "256M");
	pid_t child =
		start_program(WORDS("run", "--vgpu", "train", "--", GROW, "--exact", "--chunk", "16M", "--hold", "30"));
	char text[4096] = "";
	for (int i = 0; i < 1000 && !strchr(text, '\n'); i++) {
		usleep(10000);
		read_file("out", text, sizeof text);
	}
	CHECK_CONTAINS(text, "then out of memory");
	read_file("err", text, sizeof text);
	CHECK_CONTAINS(text, "vGPU train: asked");
	// read_listing() runs a program that overwrites the files `out` and `err`. So call it only after reading them.
	json_t *json = read_listing(WORDS("inspect", "train", "--json")), *vgpu = json_object_get(json, "vgpu");
	json_t *tenants = json_object_get(vgpu, "tenants");
	long long charged = json_integer_value(json_object_get(vgpu, "charged"));
	CHECK(charged <= 256 << 20 && charged > 254 << 20);
	CHECK(json_integer_value(json_object_get(vgpu, "overhead")) > 0);
	CHECK_INT(json_array_size(tenants), 1);
	CHECK_STR(json_string_value(json_object_get(json_array_get(tenants, 0), "command")), "grow");
	CHECK(json_integer_value(json_object_get(vgpu, "refusals")) > 0);
	json_decref(json);
	json = read_listing(WORDS("logs", "train", "--json"));
	CHECK(json_array_size(json_object_get(json, "refusals")) > 0);
	json_decref(json);
	CHECK_REFUSAL(1, "100.0 MiB", "set", "train", "--memory", "100M");
	CHECK_INT(VIRGATE_RUN("rm", "train"), 1);
	CHECK_VIRGATE("set", "train", "--memory", "1G");
	kill(child, SIGTERM);
	int status;
	CHECK_INT(waitpid(child, &status, 0), child);
	CHECK_INT(WEXITSTATUS(status), 128 + SIGTERM);
	for (int i = 0;; i++) { // wait until the memory of the ended process is refunded
		json = read_listing(WORDS("inspect", "train", "--json"));
		charged = json_integer_value(json_object_get(json_object_get(json, "vgpu"), "charged"));
		json_decref(json);
		if (charged == 0)
			break;
		CHECK(i < 100);
		usleep(20000);
	}
	CHECK_VIRGATE("rm", "train");
}

// Runs the command between the first backquotes of standard error in a shell.
static int run_suggestion(void)
{
	char command[512], path[512];

	const char *first = strchr(result.err, '`'), *last = first ? strchr(first + 1, '`') : NULL;
	if (!last)
		FAIL("nothing is suggested in \"%s\"", result.err);
	snprintf(command, sizeof command, "%.*s", (int)(last - first - 1), first + 1);
	snprintf(path, sizeof path, "%.*s:/usr/bin:/bin", (int)(strrchr(VIRGATE, '/') - VIRGATE), VIRGATE);
	setenv("PATH", path, 1);
	unsetenv("VIRGATE_SIM");
	int code = wait_for_program(start_program((const char *const[]){"/bin/sh", "-c", command, NULL}));
	setenv("VIRGATE_SIM", "devices=2,memory=4G", 1);
	return code;
}

TEST(suggested_commands_work)
{
	node_start();
	CHECK_VIRGATE("create", "train", "--memory", "256M");
	CHECK_VIRGATE("run", "--vgpu", "train", "--", GROW, "--exact", "--chunk", "16M");
	CHECK_CONTAINS(result.err, "raise with `virgate set --sim=devices=2,memory=4G train --memory 384M`");
	CHECK_INT(run_suggestion(), 0);
	CHECK_STR(result.out, "train: memory 384.0 MiB\n");
	CHECK_INT(VIRGATE_RUN("inspect", "trian"), 1);
	CHECK_INT(run_suggestion(), 0);
	CHECK_CONTAINS(result.out, "384.0 MiB");
	CHECK_INT(VIRGATE_RUN("create", "other", "--memory", "256M", "--device", "7"), 1);
	CHECK_INT(run_suggestion(), 0);
	CHECK_CONTAINS(result.out, "(simulated)");
}

TEST(kill_ends_programs)
{
	char text[4096] = "";

	node_start();
	CHECK_VIRGATE("create", "train", "--memory", "256M");
	pid_t child =
		start_program(WORDS("run", "--vgpu", "train", "--", GROW, "--exact", "--chunk", "16M", "--hold", "30"));
	for (int i = 0; i < 1000 && !strchr(text, '\n'); i++) {
		usleep(10000);
		read_file("out", text, sizeof text);
	}
	CHECK_CONTAINS(text, "then out of memory");
	CHECK_VIRGATE("kill", "train", "--signal", "INT");
	CHECK_STR(result.out, "train: sent INT to 1 process\n");
	int status;
	CHECK_INT(waitpid(child, &status, 0), child);
	CHECK_INT(WEXITSTATUS(status), 128 + SIGINT);
	CHECK_INT(VIRGATE_RUN("kill", "train", "nobody"), 1);
	CHECK_STR(result.out, "train: no process runs in it, TERM was not sent\n");
	CHECK_CONTAINS(result.err, "nobody");
}

TEST(concurrent_first_uses_start_one_daemon)
{
	enum { MANY = 12 };
	pid_t children[MANY];

	node_start();
	for (int i = 0; i < MANY; i++)
		children[i] = start_program(WORDS("ps"));
	for (int i = 0; i < MANY; i++)
		CHECK_CHILD(children[i]);
	pid_t first = daemon_pid();
	CHECK_VIRGATE("ps");
	CHECK_INT(daemon_pid(), first);
}

TEST(killed_daemon_is_replaced_without_loss)
{
	node_start();
	CHECK_VIRGATE("create", "train", "--memory", "2G", "--share", "20");
	pid_t first = daemon_pid();
	CHECK_INT(kill(first, SIGKILL), 0);
	json_t *json = read_listing(WORDS("ps", "--json")), *vgpu = json_array_get(json_object_get(json, "vgpus"), 0);
	CHECK_STR(json_string_value(json_object_get(vgpu, "name")), "train");
	CHECK_INT(json_integer_value(json_object_get(vgpu, "memory")), 2 * GIB);
	CHECK_INT(json_integer_value(json_object_get(vgpu, "share")), 20);
	json_decref(json);
	CHECK(daemon_pid() != first);
	CHECK_VIRGATE("shutdown");
	CHECK_VIRGATE("inspect", "train");
}

TEST(completion_offers_names_from_daemon)
{
	node_start();
	CHECK_VIRGATE("complete", "--", "inspect", ""); // no daemon runs, and completion must not start one
	CHECK_STR(result.out, "");
	CHECK(access(fixture.socket, F_OK) < 0);
	CHECK_VIRGATE("create", "train", "--memory", "1G");
	CHECK_VIRGATE("create", "eval", "--memory", "1G");
	CHECK_VIRGATE("complete", "--", "inspect", "");
	CHECK_STR(result.out, "eval\ntrain\n");
	CHECK_VIRGATE("complete", "--", "run", "--device", "");
	CHECK_CONTAINS(result.out, "GPU-");
	unsetenv("VIRGATE_SIM"); // the option --sim in the completed line chooses the daemon
	CHECK_VIRGATE("complete", "--", "rm", "--sim=devices=2,memory=4G", "tr");
	CHECK_STR(result.out, "train\n");
	CHECK_VIRGATE("complete", "--", "rm", "--sim", "=", "devices", "=", "2,memory", "=", "4G", "tr");
	CHECK_STR(result.out, "train\n");
	CHECK_VIRGATE("complete", "--", "rm", "--sim=memory=8G", "tr");
	CHECK_STR(result.out, "");
	setenv("VIRGATE_SIM", "devices=2,memory=4G", 1);
}

TEST(invalid_specification_is_reported)
{
	node_start();
	setenv("VIRGATE_SIM", "memory=lots", 1);
	CHECK_REFUSAL(1, "virgated did not start: VIRGATE_SIM: memory=lots must be a size", "devices");
	CHECK(!strstr(strstr(result.err, "memory=lots") + 1, "memory=lots")); // only once
}

TEST(different_specification_is_refused)
{
	node_start();
	CHECK_VIRGATE("create", "train", "--memory", "1G");
	CHECK_REFUSAL(1, "serves the simulated GPU \"devices=2,memory=4G\", not \"memory=8G\"", "ps",
		      "--sim=memory=8G");
	CHECK_CONTAINS(result.err, "or end it with `virgate shutdown --sim=devices=2,memory=4G`");
	CHECK_REFUSAL(125, "not \"memory=8G\"", "run", "--sim=memory=8G", "--vgpu", "train", "true");
	unsetenv("VIRGATE_SIM");
	CHECK_REFUSAL(1, "not a real one: reach it with --sim=devices=2,memory=4G and VIRGATE_RUNTIME_DIR=/tmp/", "set",
		      "train", "--memory", "2G");
	CHECK_CONTAINS(result.err, fixture.directory);
	// The command of the message names the simulated GPU completely, so it works in any directory.
	CHECK_VIRGATE("ps", "--sim=devices=2,memory=4G");
	// The option --sim without a value accepts any simulated GPU. The program then uses the daemon's simulated GPU.
	CHECK_VIRGATE("run", "--sim", "--vgpu", "train", "sh", "-c", "echo $VIRGATE_SIM $VIRGATE_SIM_DIR");
	CHECK_CONTAINS(result.out, "devices=2,memory=4G");
	CHECK_CONTAINS(result.out, fixture.directory);
	setenv("VIRGATE_SIM_DIR", "/nowhere", 1);
	CHECK_VIRGATE("run", "--sim", "--vgpu", "train", "sh", "-c", "echo $VIRGATE_SIM_DIR");
	CHECK_CONTAINS(result.out, fixture.directory);
	CHECK_VIRGATE("shutdown");
}

// A daemon that is stopped by a signal keeps its lock, so every attempt to start another daemon fails. The message must
// appear only once.
TEST(startup_message_is_reported_once)
{
	node_start();
	CHECK_VIRGATE("create", "train", "--memory", "1G");
	pid_t daemon = daemon_pid();
	kill(daemon, SIGSTOP);
	unlink(fixture.socket);
	setenv("VIRGATE_TIMEOUT", "7", 1); // time for several attempts of two seconds
	int code = VIRGATE_RUN("ps");
	kill(daemon, SIGCONT);
	CHECK_INT(code, 1);
	const char *said = strstr(result.err, "another virgated");
	CHECK(said);
	CHECK(!strstr(said + 1, "another virgated"));
	CHECK_VIRGATE("ps");
}

TEST(similar_figures_are_printed_exactly)
{
	node_start();
	CHECK_VIRGATE("create", "a", "--memory", "32M", "--device", "0");
	CHECK_REFUSAL(1, "asked for 4.0 GiB (4294967296 bytes)", "create", "b", "--memory", "4G", "--device", "0");
	CHECK_CONTAINS(result.err, "4.0 GiB (4261412864 bytes) is left");
}

// The users of a vGPU may truncate its ledger at any time. The test does that for 3 s, or for TRUNCATION_SECONDS.
TEST(truncated_ledger_crashes_no_verb)
{
	static const char *const verbs[][6] = {{"ps"},		 {"inspect", "a"},
					       {"logs", "a"},	 {"run", "--vgpu", "a", "true"},
					       {"inspect", "b"}, {"run", "--vgpu", "b", "true"}};
	const char *seconds = getenv("TRUNCATION_SECONDS");
	char path[160];

	node_start();
	CHECK_VIRGATE("create", "a", "--memory", "32M");
	CHECK_VIRGATE("create", "b", "--memory", "32M");
	pid_t daemon = daemon_pid();
	snprintf(path, sizeof path, "%s/ledgers/a", fixture.runtime);
	uint64_t end = vg_clock_monotonic_ns() + (uint64_t)(seconds ? atoi(seconds) : 3) * 1000000000;
	pid_t child = fork();
	if (child == 0) {
		static char whole[4 << 20];
		int fd = open(path, O_RDWR);
		ssize_t length = read(fd, whole, sizeof whole);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (length > 0 && ftruncate(fd, 0) == 0 && pwrite(fd, whole, (size_t)length, 0) == length)
			;
		_exit(1);
	}
	for (size_t i = 0; vg_clock_monotonic_ns() < end; i = (i + 1) % (sizeof verbs / sizeof *verbs)) {
		const char *words[8] = {VIRGATE};
		memcpy(words + 1, verbs[i], sizeof verbs[i]);
		if (wait_for_program(start_program(words)) >= 128)
			FAIL("%s ended with %d: %s", words[1], result.code, result.err);
		if (verbs[i][1] && *verbs[i][1] == 'b')
			CHECK_INT(result.code, 0);
	}
	kill(child, SIGKILL);
	CHECK_INT(waitpid(child, NULL, 0), child);
	CHECK_INT(daemon_pid(), daemon);
}
