// How `virgate` finds and starts the daemon, and what it says if it cannot.
#include <limits.h>

#include "node/paths.h"
#include "served.h"

TEST(a_socket_that_nobody_listens_on_is_told_where_starting_is_not_allowed)
{
	place_begin();
	setenv("VIRGATE_START_DAEMON", "no", 1);
	CHECK_INT(VIRGATE_RUN("ps"), 1);
	CHECK_CONTAINS(result.err, "no daemon listens on");
	CHECK_INT(VIRGATE_RUN("shutdown"), 1);
	CHECK_CONTAINS(result.err, "nothing to end");
	unsetenv("VIRGATE_START_DAEMON");
}

// Runs a command that starts the script as its daemon.
static void run_with_daemon(const char *script)
{
	char path[128];

	place_begin();
	snprintf(path, sizeof path, "%s/virgated", place.folder);
	FILE *file = fopen(path, "w");
	CHECK(file && fputs(script, file) >= 0 && fclose(file) == 0);
	chmod(path, 0700);
	setenv("VIRGATE_DAEMON", path, 1);
	setenv("VIRGATE_NVML", "/nowhere", 1);
	CHECK_INT(VIRGATE_RUN("ps"), 1);
	unsetenv("VIRGATE_DAEMON");
	unsetenv("VIRGATE_NVML");
}

TEST(a_daemon_that_cannot_start_is_told_with_its_own_words)
{
	run_with_daemon("#!/bin/sh\n"
			"echo some reason >&2\n"
			"echo some reason >&2\n"
			"echo 'virgate sim: why' >&2\n"
			"echo '2026-01-01T00:00:00+0000 virgated[7]: and: another' >&2\n"
			"exit 1\n");
	CHECK_CONTAINS(result.err, "did not start: some reason; why; and: another (");
}

// The daemon's own lock is not that of another one, which would be worth another try.
TEST(a_daemon_that_fails_is_started_once)
{
	char starts[64];

	run_with_daemon("#!/bin/sh\n"
			"echo started >>$0.starts\n"
			"echo $$ >$VIRGATE_RUNTIME_DIR/lock\n"
			"exec 3>&-\n" // from here on it is looked whether it answers
			"sleep 0.1\n"
			"exit 1\n");
	slurp("virgated.starts", starts, sizeof starts);
	CHECK_STR(starts, "started\n");
}

TEST(without_a_gpu_the_simulated_one_is_named_not_taken)
{
	place_begin();
	if (access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0)
		SKIP("there is a GPU");
	CHECK_INT(VIRGATE_RUN("run", "--memory", "1G", "true"), 125);
	CHECK_CONTAINS(result.err, "no NVIDIA GPU");
	CHECK_CONTAINS(result.err, "--sim");
	CHECK_INT(VIRGATE_RUN("share", "produce", "--socket", "place"), 1);
	CHECK_CONTAINS(result.err, "or use the simulated GPU with --sim");
}

TEST(a_folder_of_others_is_refused)
{
	place_begin();
	setenv("VIRGATE_NVML", "/nowhere", 1);
	setenv("VIRGATE_DAEMON", "/bin/false", 1);
	chmod(place.runtime, 0777);
	CHECK_INT(VIRGATE_RUN("ps"), 1);
	CHECK_CONTAINS(result.err, "is not a directory that only you may write");
	unsetenv("VIRGATE_DAEMON");
	unsetenv("VIRGATE_NVML");
}

TEST(a_daemon_in_a_folder_of_others_is_not_asked)
{
	char path[PATH_MAX];

	if (geteuid() != 0)
		SKIP("only root can make a directory of others");
	place_begin();
	unsetenv("VIRGATE_RUNTIME_DIR");
	setenv("VIRGATE_SIM", "1", 1);
	setenv("VIRGATE_SIM_DIR", place.folder, 1); // the usual directory, which belongs to another user here
	CHECK_INT(vg_paths_runtime(NULL, "1", path), 0);
	CHECK(strncmp(path, "/tmp/virgate-", 13) == 0);
	CHECK_INT(rename(place.runtime, path), 0);
	snprintf(place.socket, sizeof place.socket, "%.80s/virgated.sock", path);
	serve("{\"ok\":true,\"vgpus\":[]}");
	int own = VIRGATE_RUN("ps");
	int r = chown(path, 60001, 60001), others = VIRGATE_RUN("ps");
	CHECK_INT(rename(path, place.runtime), 0);
	unsetenv("VIRGATE_SIM");
	unsetenv("VIRGATE_SIM_DIR");
	CHECK_INT(own, 0);
	CHECK_INT(r, 0);
	CHECK_INT(others, 1);
	CHECK_CONTAINS(result.err, "belongs to another user (60001)");
}

// Who listens is what counts, wherever that is.
TEST(another_users_daemon_is_not_believed)
{
	if (geteuid() != 0)
		SKIP("only root can be another user");
	place_begin();
	CHECK_INT(chmod(place.folder, 0755), 0);
	CHECK_INT(chown(place.runtime, 60001, 60001), 0);
	CHECK_INT(seteuid(60001), 0); // who listens is noted then
	serve("{\"ok\":true,\"vgpus\":[]}");
	CHECK_INT(seteuid(0), 0);
	CHECK_INT(VIRGATE_RUN("ps"), 1);
	CHECK_CONTAINS(result.err, "is another user's: only root's daemon and your own are asked");
}

// Nobody's own daemon takes the place of the system's while that one starts again.
TEST(a_killed_system_daemon_is_waited_for)
{
	char path[80];

	place_begin();
	unsetenv("VIRGATE_RUNTIME_DIR");
	snprintf(path, sizeof path, "%s/system", place.folder);
	CHECK_INT(rename(place.runtime, path), 0);
	snprintf(place.socket, sizeof place.socket, "%s/virgated.sock", path);
	serve("{\"ok\":true,\"vgpus\":[]}");
	CHECK_INT(VIRGATE_RUN("ps"), 0);
	kill(place.server, SIGKILL);
	waitpid(place.server, NULL, 0);
	place.server = 0;
	CHECK_INT(VIRGATE_RUN("ps"), 1);
	CHECK_CONTAINS(result.err, "the system's daemon has ended");
	pid_t child = begin(WORDS("ps"));
	usleep(300000);
	unlink(place.socket);
	serve("{\"ok\":true,\"vgpus\":[]}");
	CHECK_INT(finish(child), 0);
}

TEST(a_path_that_is_no_place_for_a_socket_is_told)
{
	char path[160];

	place_begin();
	memset(path, 'x', sizeof path);
	memcpy(path, "/tmp/", 5);
	path[sizeof path - 1] = '\0';
	setenv("VIRGATE_RUNTIME_DIR", path, 1);
	CHECK_INT(VIRGATE_RUN("ps"), 1);
	CHECK_CONTAINS(result.err, "is longer than");
	setenv("VIRGATE_RUNTIME_DIR", "run", 1);
	CHECK_INT(VIRGATE_RUN("ps"), 1);
	CHECK_CONTAINS(result.err, "\"run\" must begin with '/'");
}
