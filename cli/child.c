#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "checkpoint/notice.h"
#include "say.h"
#include "verb.h"

// All but those that tell us of ourselves: our mistakes, our output, our place in the terminal.
static void forwarded_signals(sigset_t *ret_set)
{
	static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPIPE, SIGTTIN, SIGTTOU};

	sigfillset(ret_set);
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		sigdelset(ret_set, own[i]);
}

static int check_executable(const char *path)
{
	struct stat info;

	if (stat(path, &info) < 0)
		return errno;
	if (!S_ISREG(info.st_mode) || access(path, X_OK) < 0)
		return EACCES;
	return 0;
}

int child_find(const char *command, char *ret_path)
{
	char candidate[PATH_MAX];
	const char *search = getenv("PATH");
	int result = ENOENT;

	if (strchr(command, '/')) {
		if (snprintf(ret_path, PATH_MAX, "%s", command) >= PATH_MAX)
			return ENAMETOOLONG;
		return check_executable(command);
	}
	if (!*command)
		return ENOENT;
	if (!search)
		search = "/usr/local/bin:/usr/bin:/bin";
	for (const char *part = search;; part += strcspn(part, ":") + 1) {
		int length = (int)strcspn(part, ":"); // an empty part is the working folder
		int need = snprintf(candidate, sizeof candidate, "%.*s%s%s", length ? length : 1, length ? part : ".",
				    "/", command);
		int r = need < (int)sizeof candidate ? check_executable(candidate) : ENOENT;
		if (r == 0) {
			memcpy(ret_path, candidate, (size_t)need + 1);
			return 0;
		}
		if (r == EACCES && access(candidate, F_OK) == 0) // not: a folder that we may not search
			result = EACCES;
		if (!part[length])
			return result;
	}
}

static void block_signals(struct child *child)
{
	sigset_t wanted;

	forwarded_signals(&wanted); // SIGCHLD too, which is for us
	sigprocmask(SIG_BLOCK, &wanted, &child->inherited_mask);
	// Whoever ignores SIGCHLD passes that on, and then nobody could be waited for.
	sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, &child->inherited_chld);
}

__attribute__((noreturn)) static void become(const struct child *child, const char *path, char **argv,
					     char **environment, int report_fd)
{
	sigaction(SIGCHLD, &child->inherited_chld, NULL);
	sigprocmask(SIG_SETMASK, &child->inherited_mask, NULL);
	execve(path, argv, environment);
	int error = errno;
	if (write(report_fd, &error, sizeof error) != sizeof error)
		_exit(EXIT_RUN_FAILED);
	_exit(EXIT_CANNOT_EXECUTE);
}

int child_adopt(struct child *child, pid_t pid)
{
	siginfo_t info;

	block_signals(child);
	child->notices = notice_listen();
	child->pid = pid;
	child->apart = getpgid(pid) != getpgrp();
	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ? -errno : 0;
}

int child_start(struct child *child, const char *path, char **argv, char **environment)
{
	int report[2], error = 0;

	if (pipe2(report, O_CLOEXEC) < 0)
		return -errno;
	block_signals(child);
	child->apart = false;
	child->notices = notice_listen();
	child->pid = fork();
	if (child->pid == 0)
		become(child, path, argv, environment, report[1]);
	error = child->pid < 0 ? errno : 0;
	close(report[1]);
	if (child->pid > 0) {
		ssize_t got;
		do // the end of the file: exec closed it
			got = read(report[0], &error, sizeof error);
		while (got < 0 && errno == EINTR);
		if (got == sizeof error)
			waitpid(child->pid, NULL, 0);
	}
	close(report[0]);
	return -error;
}

// From a process, not from the terminal, whose signals the child gets itself.
static bool was_sent_to_us(const siginfo_t *info)
{
	return info->si_code <= 0;
}

// We took the signal instead of stopping: stop now, if it stops processes such as us and the child
// at all (it does not where nobody could wake us: in an orphaned process group).
static void stop_ourselves(void)
{
	sigset_t stop;

	sigemptyset(&stop);
	sigaddset(&stop, SIGTSTP);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &stop, NULL);
	sigprocmask(SIG_BLOCK, &stop, NULL);
}

static void pass_on(struct child *child, const siginfo_t *info)
{
	if (child->apart || was_sent_to_us(info))
		kill(child->pid, info->si_signo);
	if (info->si_signo == SIGTSTP)
		stop_ourselves();
}

// Whoever else ends is an orphan that came to us: nobody but us waits for it.
static bool has_ended(const struct child *child, int *ret_status)
{
	int status;

	for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
		if (pid == child->pid) {
			*ret_status = status;
			return true;
		}
	return false;
}

int child_wait(struct child *child, void (*idle)(void *user), void *user)
{
	uint64_t interval = 20000000, due = vg_clock_monotonic_ns() + interval;
	sigset_t wanted;
	siginfo_t info;
	int status;

	forwarded_signals(&wanted);
	for (;;) {
		if (has_ended(child, &status))
			return status;
		uint64_t now = vg_clock_monotonic_ns();
		if (now >= due) {
			if (idle)
				idle(user);
			interval = interval < 5000000000 ? interval * 2 : 10000000000;
			now = vg_clock_monotonic_ns();
			due = now + interval;
		}
		uint64_t left = due - now;
		struct timespec timeout = {(time_t)(left / 1000000000), (long)(left % 1000000000)};
		int signal = sigtimedwait(&wanted, &info, &timeout);
		if (signal > 0 && signal != SIGCHLD)
			pass_on(child, &info);
	}
}

// A file that our errors go to is likely the program's, too, and must be as long when it is restored as it was: then
// only a terminal is told, and the exit code has to do for others.
static void say_where_it_is(pid_t pid, const char *image)
{
	struct stat info;

	if (fstat(STDERR_FILENO, &info) == 0 && S_ISREG(info.st_mode)) {
		int terminal = open("/dev/tty", O_WRONLY | O_CLOEXEC | O_NOCTTY);
		if (terminal < 0 || dup2(terminal, STDERR_FILENO) < 0)
			return;
	}
	if (*image)
		say_warning("process %d was written down in %s, and has ended: it goes on with virgate restore --dir %s",
			    (int)pid, image, image);
	else
		say_warning("process %d was moved to another place by virgate migrate, and has ended here", (int)pid);
}

int child_exit_code(struct child *child, int wait_status)
{
	bool killed = WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL;
	char image[PATH_MAX];

	bool written = killed && child->notices >= 0 && notice_read(child->notices, child->pid, image);
	if (child->notices >= 0)
		close(child->notices);
	if (written)
		say_where_it_is(child->pid, image);
	if (written)
		return EXIT_WRITTEN_DOWN;
	return WIFSIGNALED(wait_status) ? EXIT_SIGNAL + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}
