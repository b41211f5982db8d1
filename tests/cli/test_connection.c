// Tests how `virgate` finds and starts the daemon, and its messages if it cannot.
#include <limits.h>

#include "node/paths.h"
#include "fixture.h"

TEST(dead_socket_is_reported_without_start)
{
	fixture_start();
	setenv("VIRGATE_START_DAEMON", "no", 1);
	CHECK_REFUSAL(1, "no daemon listens on", "ps");
	CHECK_REFUSAL(1, "nothing to end", "shutdown");
	unsetenv("VIRGATE_START_DAEMON");
}

// Runs a command that starts the script as its daemon.
static void run_with_daemon(const char *script)
{
	char path[128];

	fixture_start();
	snprintf(path, sizeof path, "%s/virgated", fixture.directory);
	FILE *file = fopen(path, "w");
	CHECK(file && fputs(script, file) >= 0 && fclose(file) == 0);
	chmod(path, 0700);
	setenv("VIRGATE_DAEMON", path, 1);
	setenv("VIRGATE_NVML", "/nowhere", 1);
	CHECK_INT(VIRGATE_RUN("ps"), 1);
	unsetenv("VIRGATE_DAEMON");
	unsetenv("VIRGATE_NVML");
}

TEST(failed_start_reports_message_of_daemon)
{
	run_with_daemon("#!/bin/sh\n"
			"echo some reason >&2\n"
			"echo some reason >&2\n"
			"echo 'virgate sim: why' >&2\n"
			"echo '2026-01-01T00:00:00+0000 virgated[7]: and: another' >&2\n"
			"exit 1\n");
	CHECK_CONTAINS(result.err, "did not start: some reason; why; and: another (");
}

// The script writes its pid into the lock file, as a daemon does, and fails. The launcher must not take this for the
// lock of another daemon, because it would then try again.
TEST(failing_daemon_is_started_once)
{
	char starts[64];

	run_with_daemon("#!/bin/sh\n"
			"echo started >>$0.starts\n"
			"echo $$ >$VIRGATE_RUNTIME_DIR/lock\n"
			// descriptor 3 reports that the daemon is ready; from here on the launcher checks whether the
			// daemon answers
			"exec 3>&-\n"
			"sleep 0.1\n"
			"exit 1\n");
	read_file("virgated.starts", starts, sizeof starts);
	CHECK_STR(starts, "started\n");
}

TEST(missing_gpu_suggests_simulation)
{
	fixture_start();
	if (access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0)
		SKIP("there is a GPU");
	CHECK_REFUSAL(125, "no NVIDIA GPU", "run", "--memory", "1G", "true");
	CHECK_CONTAINS(result.err, "--sim");
	CHECK_REFUSAL(1, "or use the simulated GPU with --sim", "share", "produce", "--socket", "place");
}

TEST(foreign_directory_is_refused)
{
	fixture_start();
	setenv("VIRGATE_NVML", "/nowhere", 1);
	setenv("VIRGATE_DAEMON", "/bin/false", 1);
	chmod(fixture.runtime, 0777);
	CHECK_REFUSAL(1, "is not a directory that only you may write", "ps");
	unsetenv("VIRGATE_DAEMON");
	unsetenv("VIRGATE_NVML");
}

TEST(daemon_in_foreign_directory_is_refused)
{
	char path[PATH_MAX];

	if (geteuid() != 0)
		SKIP("only root can make a directory of others");
	fixture_start();
	unsetenv("VIRGATE_RUNTIME_DIR");
	setenv("VIRGATE_SIM", "1", 1);
	setenv("VIRGATE_SIM_DIR", fixture.directory, 1); // the default directory, which belongs to another user here
	CHECK_INT(vg_paths_runtime(NULL, "1", path), 0);
	CHECK(strncmp(path, "/tmp/virgate-", 13) == 0);
	CHECK_INT(rename(fixture.runtime, path), 0);
	snprintf(fixture.socket, sizeof fixture.socket, "%.80s/virgated.sock", path);
	serve_answer("{\"ok\":true,\"vgpus\":[]}");
	int own = VIRGATE_RUN("ps");
	int r = chown(path, 60001, 60001), others = VIRGATE_RUN("ps");
	CHECK_INT(rename(path, fixture.runtime), 0);
	unsetenv("VIRGATE_SIM");
	unsetenv("VIRGATE_SIM_DIR");
	CHECK_INT(own, 0);
	CHECK_INT(r, 0);
	CHECK_INT(others, 1);
	CHECK_CONTAINS(result.err, "belongs to another user (60001)");
}

// The process that listens has another user id than the verb. The verb must refuse it.
TEST(daemon_of_another_user_is_refused)
{
	if (geteuid() != 0)
		SKIP("only root can be another user");
	fixture_start();
	CHECK_INT(chmod(fixture.directory, 0755), 0);
	CHECK_INT(chown(fixture.runtime, 60001, 60001), 0);
	CHECK_INT(seteuid(60001), 0); // the kernel records the user at listen()
	serve_answer("{\"ok\":true,\"vgpus\":[]}");
	CHECK_INT(seteuid(0), 0);
	CHECK_REFUSAL(1, "is of another user: only root's daemon and your own are used", "ps");
}

// While the system's daemon restarts, a verb waits for it, and starts no daemon of the user.
TEST(verbs_wait_for_restarting_system_daemon)
{
	char path[80];

	fixture_start();
	unsetenv("VIRGATE_RUNTIME_DIR");
	snprintf(path, sizeof path, "%s/system", fixture.directory);
	CHECK_INT(rename(fixture.runtime, path), 0);
	snprintf(fixture.socket, sizeof fixture.socket, "%s/virgated.sock", path);
	serve_answer("{\"ok\":true,\"vgpus\":[]}");
	CHECK_VIRGATE("ps");
	kill(fixture.server, SIGKILL);
	waitpid(fixture.server, NULL, 0);
	fixture.server = 0;
	CHECK_REFUSAL(1, "the system's daemon has ended", "ps");
	pid_t child = start_program(WORDS("ps"));
	usleep(300000);
	unlink(fixture.socket);
	serve_answer("{\"ok\":true,\"vgpus\":[]}");
	CHECK_INT(wait_for_program(child), 0);
}

TEST(invalid_socket_path_is_reported)
{
	char path[160];

	fixture_start();
	memset(path, 'x', sizeof path);
	memcpy(path, "/tmp/", 5);
	path[sizeof path - 1] = '\0';
	setenv("VIRGATE_RUNTIME_DIR", path, 1);
	CHECK_REFUSAL(1, "is longer than", "ps");
	setenv("VIRGATE_RUNTIME_DIR", "run", 1);
	CHECK_REFUSAL(1, "\"run\" must begin with '/'", "ps");
}
