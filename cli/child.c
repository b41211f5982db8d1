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

static void block_signals(struct children *children)
{
	sigset_t wanted;

	forwarded_signals(&wanted); // SIGCHLD too, which is for us
	sigprocmask(SIG_BLOCK, &wanted, &children->inherited_mask);
	// Whoever ignores SIGCHLD passes that on, and then nobody could be waited for.
	sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, &children->inherited_chld);
}

__attribute__((noreturn)) static void become(const struct children *children, const char *path, char **argv,
					     char **environment, int report_fd)
{
	sigaction(SIGCHLD, &children->inherited_chld, NULL);
	sigprocmask(SIG_SETMASK, &children->inherited_mask, NULL);
	execve(path, argv, environment);
	int error = errno;
	if (write(report_fd, &error, sizeof error) != sizeof error)
		_exit(EXIT_RUN_FAILED);
	_exit(EXIT_CANNOT_EXECUTE);
}

static int begin(struct children *children, size_t count)
{
	*children = (struct children){.list = calloc(count, sizeof *children->list), .notices = -1};
	if (!children->list)
		return -ENOMEM;
	children->count = count;
	block_signals(children);
	children->notices = notice_listen();
	return 0;
}

static void release(struct children *children)
{
	for (size_t i = 0; i < children->count; i++)
		free(children->list[i].image);
	free(children->list);
	if (children->notices >= 0)
		close(children->notices);
}

int child_adopt(struct children *children, const pid_t *pids, size_t count, pid_t *ret_stranger)
{
	siginfo_t info;

	int r = begin(children, count);
	for (size_t i = 0; i < count && r == 0; i++) {
		children->list[i] = (struct child){.pid = pids[i], .apart = getpgid(pids[i]) != getpgrp()};
		if (waitid(P_PID, (id_t)pids[i], &info, WEXITED | WNOHANG | WNOWAIT) < 0) {
			r = -errno;
			*ret_stranger = pids[i];
		}
	}
	if (r)
		release(children);
	return r;
}

int child_start(struct children *children, const char *path, char **argv, char **environment)
{
	int report[2], error = 0;

	if (pipe2(report, O_CLOEXEC) < 0)
		return -errno;
	int r = begin(children, 1);
	pid_t pid = r ? -1 : fork();
	if (pid == 0)
		become(children, path, argv, environment, report[1]);
	error = r ? -r : pid < 0 ? errno : 0;
	close(report[1]);
	if (pid > 0) {
		children->list[0].pid = pid;
		ssize_t got;
		do // the end of the file: exec closed it
			got = read(report[0], &error, sizeof error);
		while (got < 0 && errno == EINTR);
		if (got == sizeof error)
			waitpid(pid, NULL, 0);
	}
	close(report[0]);
	if (error)
		release(children);
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

static void pass_on(const struct children *children, const siginfo_t *info)
{
	for (size_t i = 0; i < children->count; i++) {
		const struct child *child = &children->list[i];
		if (!child->ended && (child->apart || was_sent_to_us(info)))
			kill(child->pid, info->si_signo);
	}
	if (info->si_signo == SIGTSTP)
		stop_ourselves();
}

// Whoever else ends is an orphan that came to us: nobody but us waits for it.
static bool have_ended(struct children *children)
{
	bool all = true;
	int status;

	for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
		for (size_t i = 0; i < children->count; i++)
			if (children->list[i].pid == pid && !children->list[i].ended) {
				children->list[i].ended = true;
				children->list[i].status = status;
			}
	for (size_t i = 0; i < children->count; i++)
		all &= children->list[i].ended;
	return all;
}

static void keep_notice(void *user, pid_t pid, const char *image)
{
	struct children *children = user;

	for (size_t i = 0; i < children->count; i++)
		if (children->list[i].pid == pid && !children->list[i].image)
			children->list[i].image = strdup(image);
}

// Before the ends of those that were told of, and again after the last.
static void read_notices(struct children *children)
{
	if (children->notices >= 0)
		notice_read(children->notices, keep_notice, children);
}

void child_wait(struct children *children, void (*idle)(void *user), void *user)
{
	uint64_t interval = 20000000, due = vg_clock_monotonic_ns() + interval;
	sigset_t wanted;
	siginfo_t info;

	forwarded_signals(&wanted);
	while (!have_ended(children)) {
		read_notices(children);
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
			pass_on(children, &info);
	}
}

// ---- how they ended ------------------------------------------------------------------------------------

static bool was_killed(const struct child *child)
{
	return WIFSIGNALED(child->status) && WTERMSIG(child->status) == SIGKILL;
}

// Whoever ended in another way went on after it was written down, and ended by itself.
static void drop_wrong_notices(struct children *children)
{
	for (size_t i = 0; i < children->count; i++) {
		struct child *child = &children->list[i];
		if (was_killed(child))
			continue;
		free(child->image);
		child->image = NULL;
	}
}

static int code_of(const struct child *child)
{
	if (child->image)
		return EXIT_WRITTEN_DOWN;
	return WIFSIGNALED(child->status) ? EXIT_SIGNAL + WTERMSIG(child->status) : WEXITSTATUS(child->status);
}

// A file that our errors go to is likely the program's, too, and must be as long when it is restored as it was: then only a
// terminal is told, and the exit code has to do for others.
static bool may_say(void)
{
	struct stat info;

	if (fstat(STDERR_FILENO, &info) < 0 || !S_ISREG(info.st_mode))
		return true;
	int terminal = open("/dev/tty", O_WRONLY | O_CLOEXEC | O_NOCTTY);
	return terminal >= 0 && dup2(terminal, STDERR_FILENO) >= 0;
}

// Of the child at `first`, and of those behind it that lie in the same image.
static void say_where_it_is(const struct children *children, size_t first)
{
	const struct child *child = &children->list[first];
	size_t more = 0;
	char others[32] = "";

	for (size_t i = 0; i < children->count; i++) {
		const char *image = children->list[i].image;
		if (!image || strcmp(image, child->image) != 0)
			continue;
		if (i < first)
			return; // that one was said with it
		more += i > first;
	}
	if (more)
		snprintf(others, sizeof others, " and %zu more", more);
	if (*child->image)
		say_warning("process %d%s %s dumped to %s and %s ended: restore %s with virgate restore%s --dir %s",
			    (int)child->pid, others, more ? "were" : "was", child->image, more ? "have" : "has",
			    more ? "them" : "it", sim_flag(), child->image);
	else
		say_warning("process %d%s %s migrated by virgate migrate and %s ended here",
			    (int)child->pid, others, more ? "were" : "was", more ? "have" : "has");
}

static void say_end(const struct child *child)
{
	if (WIFSIGNALED(child->status))
		say_warning("process %d was ended by signal %d (%s)", (int)child->pid, WTERMSIG(child->status),
			    strsignal(WTERMSIG(child->status)));
	else
		say_warning("process %d ended with exit status %d", (int)child->pid, WEXITSTATUS(child->status));
}

int child_exit_code(struct children *children)
{
	const struct child *failed = NULL;
	bool written = false;

	read_notices(children);
	drop_wrong_notices(children);
	for (size_t i = 0; i < children->count; i++) {
		const struct child *child = &children->list[i];
		written |= child->image != NULL;
		if (!failed && code_of(child))
			failed = child;
	}
	bool heard = !written || may_say();
	for (size_t i = 0; i < children->count && heard; i++)
		if (children->list[i].image)
			say_where_it_is(children, i);
	if (failed && !failed->image && children->count > 1 && heard)
		say_end(failed);
	int code = failed ? code_of(failed) : EXIT_OK;
	release(children);
	return code;
}
