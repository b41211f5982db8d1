// Removes the runtime directory while a daemon and tenants run. That happens when the user logs out, or when the user
// removes it.
#include "simulated.h"

#include <sys/file.h>

static int run_in(const char *name, const char *command)
{
	char arguments[500];

	snprintf(arguments, sizeof arguments, "run --sim --vgpu %s -- %s 2>%s/refusal", name, command, directory);
	int status = virgate(arguments);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static pid_t read_daemon_pid(void)
{
	json_t *reply = ask("{'op':'ping'}");
	pid_t pid = (pid_t)json_integer_value(json_object_get(reply, "pid"));

	json_decref(reply);
	return pid;
}

static bool is_damaged(const char *name)
{
	json_t *reply = ask("{'op':'inspect','name':'%s'}", name);
	bool damaged = json_is_true(json_object_get(json_object_get(reply, "vgpu"), "damaged"));

	json_decref(reply);
	return damaged;
}

static void end_holder(pid_t launcher, pid_t tenant)
{
	CHECK(tenant > 1);
	kill(tenant, SIGKILL);
	CHECK_INT(waitpid(launcher, NULL, 0), launcher);
}

static void remove_tree(const char *path)
{
	char command[400];

	snprintf(command, sizeof command, "rm -rf '%s'", path);
	CHECK_INT(system(command), 0);
}

// Finds the daemon's socket: sets socket_path and runtime_dir from the environment of a program in a vGPU.
static void find_socket(void)
{
	char command[400], path[300];

	snprintf(path, sizeof path, "%s/socket", directory);
	snprintf(command, sizeof command, "sh -c 'printf %%s \"$VIRGATE_SOCKET\" >%s'", path);
	CHECK_INT(run_in("a", command), 0);
	CHECK(vg_file_read(path, socket_path, sizeof socket_path) > 0);
	snprintf(runtime_dir, sizeof runtime_dir, "%.*s", (int)(strrchr(socket_path, '/') - socket_path), socket_path);
}

// Uses the default runtime directory, which must outlive the session directory (XDG_RUNTIME_DIR) that a logout removes.
// Only the simulated GPUs have a directory of the test's own.
TEST(limit_applies_after_logout)
{
	char session[300];

	set_up_simulated_node();
	unsetenv("VIRGATE_RUNTIME_DIR");
	snprintf(session, sizeof session, "%s/session", directory);
	CHECK_INT(mkdir(session, 0700), 0);
	setenv("XDG_RUNTIME_DIR", session, 1);
	CHECK_INT(virgate("create a --sim --memory 512M"), 0);
	find_socket();
	pid_t daemon = read_daemon_pid(), launcher = run_holder("a", "300");
	remove_tree(session);
	CHECK_INT(virgate("ps --sim"), 0);
	CHECK_INT(read_daemon_pid(), daemon);
	CHECK_INT(figure("a", "tenants"), 1);
	CHECK(run_in("a", HOLDER " 300") != 0);
	CHECK_INT(run_in("a", "true"), 0);
	end_holder(launcher, find_tenant("a"));
	end_daemon();
	remove_tree(runtime_dir);
	unsetenv("XDG_RUNTIME_DIR");
}

// Removes the directory. Running programs must keep their limit. New programs must be refused until those have ended,
// and no second daemon may start.
TEST(removed_directory_is_created_again)
{
	char path[300], text[1024];

	set_up_simulated_node();
	CHECK_INT(virgate("create a --sim --memory 512M"), 0);
	CHECK_INT(virgate("create unused --sim --memory 128M"), 0);
	pid_t daemon = read_daemon_pid(), launcher = run_holder("a", "300");
	json_int_t charged = figure("a", "charged");
	remove_tree(runtime_dir);
	CHECK_INT(virgate("ps --sim"), 0); // the command finds no socket, and tries to start a daemon
	CHECK_INT(read_daemon_pid(), daemon);
	CHECK_INT(figure("a", "tenants"), 1);
	CHECK_INT(figure("a", "charged"), charged);
	CHECK(is_damaged("a"));
	CHECK_INT(run_in("a", HOLDER " 300"), 125);
	snprintf(path, sizeof path, "%s/refusal", directory);
	CHECK(vg_file_read(path, text, sizeof text) > 0);
	CHECK_CONTAINS(text, "no new program can enter vGPU a, because its file was removed");
	CHECK_CONTAINS(text, "`virgate rm --force a --sim");
	CHECK_INT(run_in("unused", "true"), 0);
	end_holder(launcher, find_tenant("a"));
	for (int i = 0; i < 500 && is_damaged("a"); i++)
		poll(NULL, 0, 10);
	CHECK_INT(run_in("a", "true"), 0);
	CHECK_INT(read_daemon_pid(), daemon);
	end_daemon();
}

// Removes the directory repeatedly, while clients connect.
TEST(clients_during_the_removal_start_no_second_daemon)
{
	enum { ROUNDS = 10, CLIENTS = 4 };

	set_up_simulated_node();
	CHECK_INT(virgate("create a --sim --memory 512M"), 0);
	pid_t daemon = read_daemon_pid(), launcher = run_holder("a", "100"), clients[CLIENTS];
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < CLIENTS; i++) {
			clients[i] = fork();
			if (clients[i] == 0)
				_exit(virgate("ps --sim") != 0);
		}
		remove_tree(runtime_dir);
		for (int i = 0; i < CLIENTS; i++)
			CHECK_CHILD(clients[i]);
		CHECK_INT(virgate("ps --sim"), 0);
		CHECK_INT(read_daemon_pid(), daemon);
		CHECK_INT(figure("a", "tenants"), 1);
	}
	end_holder(launcher, find_tenant("a"));
	end_daemon();
}

// Removes only the lock file, and then renames the directory.
TEST(removed_lock_and_renamed_directory_are_created_again)
{
	char path[300], aside[300];
	bool ready;

	set_up_simulated_node();
	CHECK_INT(virgate("create a --sim --memory 512M"), 0);
	pid_t daemon = read_daemon_pid();
	snprintf(path, sizeof path, "%s/lock", runtime_dir);
	CHECK_INT(unlink(path), 0);
	setenv("VIRGATE_SIM", "memory=1G,ctx=16M", 1);
	pid_t second = start_daemon_at(runtime_dir, "0", &ready);
	CHECK(!ready);
	CHECK_INT(waitpid(second, NULL, 0), second);
	CHECK_INT(read_daemon_pid(), daemon);
	snprintf(aside, sizeof aside, "%s.aside", runtime_dir);
	CHECK_INT(rename(runtime_dir, aside), 0);
	CHECK_INT(virgate("ps --sim"), 0);
	CHECK_INT(read_daemon_pid(), daemon);
	CHECK_INT(run_in("a", "true"), 0);
	end_daemon();
}

// Kills the daemon and removes the directory. The kernel then shows which processes still have the ledger of a created
// vGPU open.
TEST(limit_applies_after_loss_of_daemon_and_directory)
{
	set_up_simulated_node();
	CHECK_INT(virgate("create a --sim --memory 512M"), 0);
	pid_t launcher = run_holder("a", "300"), tenant = find_tenant("a"), daemon = read_daemon_pid();
	struct pollfd end = {vg_pidfd_open(daemon), POLLIN, 0};
	kill(daemon, SIGKILL);
	CHECK_INT(poll(&end, 1, 5000), 1);
	close(end.fd);
	remove_tree(runtime_dir);
	CHECK_INT(virgate("ps --sim"), 0);
	CHECK(read_daemon_pid() != daemon);
	CHECK(is_damaged("a"));
	CHECK_INT(run_in("a", HOLDER " 300"), 125);
	CHECK_INT(virgate("rm --sim --force a"), 0);
	CHECK_INT(waitpid(launcher, NULL, 0), launcher);
	CHECK_INT(kill(tenant, 0), -1);
	end_daemon();
}

// Checks that the daemon locks its directory, since systemd-tmpfiles does not clean a directory that another process
// has locked.
TEST(directory_is_locked_against_cleaners)
{
	set_up_simulated_node();
	CHECK_INT(virgate("ps --sim"), 0);
	int fd = open(runtime_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK_INT(flock(fd, LOCK_EX | LOCK_NB), -1);
	CHECK_INT(errno, EWOULDBLOCK);
	close(fd);
	end_daemon();
}
