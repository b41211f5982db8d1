// Tests real tenants on simulated GPUs: `virgate run`, the interposer, the simulated NVML.
#include "simulated.h"

static pid_t tenant_pid(const char *name, size_t index)
{
	json_t *reply = ask("{'op':'inspect','name':'%s'}", name);
	const json_t *tenants = json_object_get(json_object_get(reply, "vgpu"), "tenants");
	pid_t pid = (pid_t)json_integer_value(json_object_get(json_array_get(tenants, index), "pid"));

	json_decref(reply);
	return pid;
}

TEST(killed_tenants_are_refunded)
{
	set_up_simulated_node();
	CHECK_INT(virgate("create a --sim --memory 512M"), 0);
	pid_t launcher = run_holder("a", "100");
	json_int_t charged = figure("a", "charged");
	CHECK(charged >= (json_int_t)(116 * MIB) && charged < (json_int_t)(150 * MIB));
	CHECK(figure("a", "physical") >= (json_int_t)(116 * MIB));
	CHECK(figure("a", "physical") <= charged + (json_int_t)(32 * MIB));
	CHECK_REFUSED(ask("{'op':'set','name':'a','memory':%llu}", 64 * MIB), "limit", "is in use");
	pid_t tenant = tenant_pid("a", 0);
	CHECK(tenant > 1);
	kill(tenant, SIGKILL);
	CHECK(await_figure("a", "charged", 0, 1000) >= 0);
	int status;
	CHECK_INT(waitpid(launcher, &status, 0), launcher);
	CHECK(WIFEXITED(status) || WIFSIGNALED(status));
	CHECK_AGREED(ask("{'op':'rm','name':'a'}"));
	end_daemon();
}

static void copy_file(const char *from, const char *to)
{
	char command[700];

	snprintf(command, sizeof command, "cp '%s' '%s.new' && mv '%s.new' '%s'", from, to, to, to);
	CHECK_INT(system(command), 0);
}

static bool runs(pid_t pid, const char *program)
{
	char link[64], path[400];

	snprintf(link, sizeof link, "/proc/%d/exe", pid);
	ssize_t length = readlink(link, path, sizeof path - 1);
	path[length > 0 ? length : 0] = '\0';
	return strcmp(path, program) == 0;
}

// Replaces the daemon's program, as an upgrade does. On SIGHUP the running daemon, which has tenants, must execute the
// new one.
TEST(sighup_runs_the_installed_daemon)
{
	char program[300];

	set_up_simulated_node();
	snprintf(program, sizeof program, "%s/virgated", directory);
	copy_file(VIRGATED, program);
	setenv("VIRGATE_DAEMON", program, 1);
	CHECK_INT(virgate("create a --sim --memory 512M"), 0);
	unsetenv("VIRGATE_DAEMON"); // this variable names the daemon that the other tests use
	pid_t launcher = run_holder("a", "100"), tenant = tenant_pid("a", 0);
	json_int_t charged = figure("a", "charged");
	json_t *reply = ask("{'op':'ping'}");
	pid_t daemon = (pid_t)json_integer_value(json_object_get(reply, "pid"));
	json_decref(reply);
	CHECK(runs(daemon, program));
	copy_file(VIRGATED, program);
	CHECK(!runs(daemon, program)); // the daemon still runs the file that was deleted
	CHECK_INT(kill(daemon, SIGHUP), 0);
	for (int i = 0; i < 3000 && (!runs(daemon, program) || access(socket_path, F_OK) < 0); i++)
		poll(NULL, 0, 10);
	CHECK(runs(daemon, program));
	CHECK_INT(virgate("ps --sim"), 0); // waits until the new daemon answers
	reply = ask("{'op':'ping'}");
	CHECK_INT(json_integer_value(json_object_get(reply, "pid")), daemon);
	json_decref(reply);
	CHECK_INT(tenant_pid("a", 0), tenant);
	CHECK_INT(figure("a", "charged"), charged);
	CHECK_INT(kill(tenant, SIGKILL), 0);
	CHECK_INT(waitpid(launcher, NULL, 0), launcher);
	CHECK(await_figure("a", "charged", 0, 1000) >= 0);
	end_daemon();
}

static int run_loader(const char *what)
{
	char arguments[400];

	snprintf(arguments, sizeof arguments, "run --sim --memory 512M -- " LOADER " %s 2>/dev/null", what);
	int status = virgate(arguments);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(modules_are_charged_once)
{
	set_up_simulated_node();
	CHECK_INT(run_loader("modules"), 0);
	end_daemon();
}

TEST(limit_applies_to_libraries)
{
	set_up_simulated_node();
	CHECK_INT(run_loader("libraries"), 0);
	end_daemon();
}

TEST(limit_applies_to_unmapped_imports)
{
	set_up_simulated_node();
	CHECK_INT(run_loader("imports"), 0);
	end_daemon();
}

TEST(charges_are_refunded_after_exec)
{
	set_up_simulated_node();
	CHECK_INT(run_loader("exec"), 0);
	end_daemon();
}

TEST(daemon_killed_under_load_loses_no_charge)
{
	enum { TENANTS = 4 };
	pid_t launchers[TENANTS], pids[TENANTS], ended;

	set_up_simulated_node();
	CHECK_INT(virgate("create a --sim --memory 512M"), 0);
	for (int i = 0; i < TENANTS; i++)
		launchers[i] = run_holder("a", "50");
	json_int_t charged = figure("a", "charged");
	for (int i = 0; i < TENANTS; i++)
		pids[i] = tenant_pid("a", (size_t)i);
	json_t *reply = ask("{'op':'ping'}");
	struct pollfd daemon_end = {vg_pidfd_open((pid_t)json_integer_value(json_object_get(reply, "pid"))), POLLIN, 0};
	kill((pid_t)json_integer_value(json_object_get(reply, "pid")), SIGKILL);
	json_decref(reply);
	CHECK_INT(poll(&daemon_end, 1, 5000), 1);
	close(daemon_end.fd);
	kill(pids[0], SIGKILL); // the tenant ends while no daemon runs
	for (int i = 1; i < TENANTS; i++)
		CHECK_INT(kill(pids[i], 0), 0);
	CHECK_INT(virgate("ps --sim"), 0); // starts the next daemon
	CHECK(await_figure("a", "tenants", TENANTS - 1, 1000) >= 0);
	CHECK_INT(figure("a", "charged"), charged / TENANTS * (TENANTS - 1));
	CHECK_INT(figure("a", "memory"), 512 * MIB);
	ended = waitpid(-1, NULL, 0);
	for (int i = 0; i < TENANTS; i++)
		if (launchers[i] == ended)
			launchers[i] = run_holder("a", "50");
	CHECK_INT(figure("a", "charged"), charged);
	CHECK_INT(figure("a", "tenants"), TENANTS);
	for (int i = 0; i < TENANTS; i++)
		pids[i] = tenant_pid("a", (size_t)i);
	for (int i = 0; i < TENANTS; i++)
		kill(pids[i], SIGKILL);
	CHECK(await_figure("a", "charged", 0, 1000) >= 0);
	for (int i = 0; i < TENANTS; i++)
		waitpid(launchers[i], NULL, 0);
	end_daemon();
}

// Kills the launcher before its program has used CUDA. The program must still find its vGPU.
TEST(program_outlives_its_launcher)
{
	char script[4096], out[300], text[16] = "";
	int ready[2];
	char byte;

	set_up_simulated_node();
	snprintf(out, sizeof out, "%s/status", directory);
	snprintf(script, sizeof script,
		 "echo; exec >/dev/null; while [ ! -e %s/go ]; do sleep 0.05; done; " LOADER
		 " modules; echo $? > %s.part; mv %s.part %s",
		 directory, out, out, out);
	CHECK_INT(pipe(ready), 0);
	pid_t launcher = fork();
	if (launcher == 0) {
		dup2(ready[1], 1);
		execl(VIRGATE, "virgate", "run", "--sim", "--name", "left", "--memory", "512M", "--", "sh", "-c",
		      script, NULL);
		_exit(9);
	}
	close(ready[1]);
	CHECK_INT(read(ready[0], &byte, 1), 1); // the program runs
	kill(launcher, SIGKILL);
	CHECK_INT(waitpid(launcher, NULL, 0), launcher);
	poll(NULL, 0, 600);
	CHECK_INT(figure("left", "memory"), 512 * MIB);
	snprintf(script, sizeof script, "%s/go", directory);
	close(open(script, O_CREAT | O_WRONLY, 0600));
	for (int i = 0; i < 3000 && access(out, F_OK) != 0; i++)
		poll(NULL, 0, 20);
	CHECK(vg_file_read(out, text, sizeof text) > 0);
	CHECK_STR(text, "0\n");
	CHECK(await_figure("left", "memory", -1, 2000) >= 0); // the vGPU is removed after its program has ended
	end_daemon();
}
