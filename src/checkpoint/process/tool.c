#include "checkpoint/process/tool.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "checkpoint/process/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TICK_MS = 100 };

static int check_executable(const char *path)
{
	struct stat info;

	if (stat(path, &info) < 0)
		return -errno;
	return S_ISREG(info.st_mode) && access(path, X_OK) == 0 ? 0 : -EACCES;
}

int tool_find(const char *variable, const char *name, char ret_path[PATH_MAX])
{
	const char *named = variable ? secure_getenv(variable) : NULL, *directories = secure_getenv("PATH");
	int worst = -ENOENT;

	if (named && *named) {
		if (snprintf(ret_path, PATH_MAX, "%s", named) >= PATH_MAX)
			return -ENOENT;
		return check_executable(ret_path) == -EACCES ? -EACCES : check_executable(ret_path) ? -ENOENT : 0;
	}
	for (const char *at = directories ? directories : "/usr/sbin:/usr/bin:/sbin:/bin"; at;) {
		const char *end = strchr(at, ':');
		int length = end ? (int)(end - at) : (int)strlen(at);
		// Skip empty entries of PATH, which mean the current directory: never run programs from there.
		if (length > 0 && snprintf(ret_path, PATH_MAX, "%.*s/%s", length, at, name) < PATH_MAX) {
			int r = check_executable(ret_path);
			if (r == 0)
				return 0;
			if (r == -EACCES)
				worst = r;
		}
		at = end ? end + 1 : NULL;
	}
	return worst;
}

int tool_start(const struct tool_start *start, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;

	int r = posix_spawn_file_actions_init(&actions);
	if (r)
		return -r;
	r = posix_spawnattr_init(&attributes);
	if (r) {
		posix_spawn_file_actions_destroy(&actions);
		return -r;
	}
	sigemptyset(&none);
	for (int fd = 0; fd <= 2 && r == 0; fd++)
		r = start->fds[fd] < 0 ? posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0)
				       : posix_spawn_file_actions_adddup2(&actions, start->fds[fd], fd);
	// Unlike dup2() itself, this action of posix_spawn() clears the close-on-exec flag if both numbers are equal.
	for (size_t i = 0; i < start->keep_count && r == 0; i++)
		r = posix_spawn_file_actions_adddup2(&actions, start->keep[i], start->keep[i]);
	if (r == 0)
		r = posix_spawnattr_setflags(&attributes,
					     POSIX_SPAWN_SETSIGMASK |
						     (start->in_session ? POSIX_SPAWN_SETPGROUP : POSIX_SPAWN_SETSID));
	if (r == 0)
		r = posix_spawnattr_setsigmask(&attributes, &none);
	if (r == 0)
		r = posix_spawn(ret_pid, start->argv[0], &actions, &attributes, (char *const *)start->argv,
				start->environment ? (char *const *)start->environment : environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	return -r;
}

// Reads the program's output until the other end is closed. Returns 0, -ETIMEDOUT, -ECANCELED or another -errno.
static int read_output(const struct tool_run *run, int input, uint64_t deadline)
{
	char dropped[4096];
	size_t length = 0;

	for (;;) {
		uint64_t now = vg_clock_monotonic_ns();
		struct pollfd wanted = {.fd = input, .events = POLLIN};
		if (deadline && now >= deadline)
			return -ETIMEDOUT;
		int pause = deadline ? (int)((deadline - now) / 1000000 + 1) : -1;
		if (run->tick) {
			if (!run->tick(run->user))
				return -ECANCELED;
			pause = pause < 0 || pause > TICK_MS ? TICK_MS : pause;
		}
		int r = poll(&wanted, 1, pause);
		if (r < 0 && errno != EINTR)
			return -errno;
		if (r <= 0)
			continue;
		size_t room = run->output && run->capacity > length + 1 ? run->capacity - length - 1 : 0;
		ssize_t count = read(input, room ? run->output + length : dropped, room ? room : sizeof dropped);
		if (count < 0 && errno != EINTR)
			return -errno;
		if (count == 0)
			return 0;
		if (count > 0 && room) {
			length += (size_t)count;
			run->output[length] = '\0';
		}
	}
}

static int exit_code(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Waits until the program exits. It may have closed its output and still run.
static int wait_for_exit(const struct tool_run *run, pid_t pid, uint64_t deadline)
{
	for (useconds_t pause = 500;; pause = pause < 20000 ? 2 * pause : pause) {
		int status;
		pid_t r = waitpid(pid, &status, WNOHANG);
		if (r == pid)
			return exit_code(status);
		if (r < 0 && errno != EINTR)
			return -errno;
		if (deadline && vg_clock_monotonic_ns() >= deadline)
			return -ETIMEDOUT;
		if (run->tick && !run->tick(run->user))
			return -ECANCELED;
		usleep(pause);
	}
}

// Kills the program and all its descendants, which may be in other sessions and may start more processes. Returns
// `reason`. If the program has already exited by itself, does not kill its descendants, and returns its exit status.
static int kill_descendants(pid_t pid, int reason)
{
	struct tree tree = {0};
	size_t before = 0;
	int status;

	kill(pid, SIGSTOP);
	while (waitpid(pid, &status, WUNTRACED) < 0)
		if (errno != EINTR)
			return reason;
	if (!WIFSTOPPED(status))
		return exit_code(status);
	while (tree_find(&pid, 1, &tree) == VG_OK) {
		tree_signal(&tree, SIGSTOP);
		if (tree.count == before)
			break;
		before = tree.count;
		tree_free(&tree);
	}
	tree_end(&tree);
	kill(-pid, SIGKILL);
	tree_free(&tree);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return reason;
}

int tool_run(const struct tool_run *run)
{
	uint64_t deadline = run->timeout_ms ? vg_clock_monotonic_ns() + run->timeout_ms * UINT64_C(1000000) : 0;
	int ends[2];
	pid_t pid;

	if (run->output && run->capacity)
		run->output[0] = '\0';
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	const struct tool_start how = {.argv = run->argv,
				       .environment = run->environment,
				       .keep = run->keep,
				       .keep_count = run->keep_count,
				       .fds = {run->terminal ? STDIN_FILENO : -1, ends[1], ends[1]},
				       .in_session = run->terminal};
	int r = tool_start(&how, &pid);
	close(ends[1]);
	_cleanup_close_ int input = ends[0];
	if (r)
		return r;
	r = read_output(run, input, deadline);
	if (r == 0)
		r = wait_for_exit(run, pid, deadline);
	return r >= 0 || r == -ECHILD ? r : kill_descendants(pid, r);
}
