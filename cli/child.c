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

// Lists the signals to forward. Leaves out signals that concern only this process: faults, failed output and job
// control.
static void fill_forwarded_signals(sigset_t *ret_set)
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

int child_find_program(const char *command, char *ret_path)
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
		int length = (int)strcspn(part, ":"); // an empty part is the working directory
		int need = snprintf(candidate, sizeof candidate, "%.*s%s%s", length ? length : 1, length ? part : ".",
				    "/", command);
		int r = need < (int)sizeof candidate ? check_executable(candidate) : ENOENT;
		if (r == 0) {
			memcpy(ret_path, candidate, (size_t)need + 1);
			return 0;
		}
		if (r == EACCES && access(candidate, F_OK) == 0) // the file exists but is not executable
			result = EACCES;
		if (!part[length])
			return result;
	}
}

static void block_signals(struct children *children)
{
	sigset_t wanted;

	fill_forwarded_signals(&wanted); // the set also has SIGCHLD, which is not forwarded
	sigprocmask(SIG_BLOCK, &wanted, &children->inherited_mask);
	// If the parent ignored SIGCHLD, this process inherits that, and waitpid() would find no children.
	sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, &children->inherited_chld);
}

__attribute__((noreturn)) static void exec_program(const struct children *children, const char *path, char **argv,
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

static int init_children(struct children *children, size_t count)
{
	*children = (struct children){.list = calloc(count, sizeof *children->list), .notices = -1};
	if (!children->list)
		return -ENOMEM;
	children->count = count;
	block_signals(children);
	children->notices = notice_listen();
	return 0;
}

static void finish_children(struct children *children)
{
	for (size_t i = 0; i < children->count; i++)
		free(children->list[i].image);
	free(children->list);
	if (children->notices >= 0)
		close(children->notices);
}

int child_adopt(struct children *children, const pid_t *pids, size_t count, pid_t *ret_not_child)
{
	siginfo_t info;

	int r = init_children(children, count);
	for (size_t i = 0; i < count && r == 0; i++) {
		children->list[i] = (struct child){.pid = pids[i], .has_own_group = getpgid(pids[i]) != getpgrp()};
		if (waitid(P_PID, (id_t)pids[i], &info, WEXITED | WNOHANG | WNOWAIT) < 0) {
			r = -errno;
			*ret_not_child = pids[i];
		}
	}
	if (r)
		finish_children(children);
	return r;
}

int child_start(struct children *children, const char *path, char **argv, char **environment)
{
	int report[2], error = 0;

	if (pipe2(report, O_CLOEXEC) < 0)
		return -errno;
	int r = init_children(children, 1);
	pid_t pid = r ? -1 : fork();
	if (pid == 0)
		exec_program(children, path, argv, environment, report[1]);
	error = r ? -r : pid < 0 ? errno : 0;
	close(report[1]);
	if (pid > 0) {
		children->list[0].pid = pid;
		ssize_t got;
		do // on end of file, execve() has succeeded and closed the pipe
			got = read(report[0], &error, sizeof error);
		while (got < 0 && errno == EINTR);
		if (got == sizeof error)
			waitpid(pid, NULL, 0);
	}
	close(report[0]);
	if (error)
		finish_children(children);
	return -error;
}

// Returns true for a signal that a process sent with kill(). A signal from the terminal needs no forwarding: the
// terminal sends it to the whole process group, which includes the child.
static bool is_from_process(const siginfo_t *info)
{
	return info->si_code <= 0;
}

// Stops this process as SIGTSTP would if it were not blocked. In an orphaned process group the kernel ignores the
// signal.
static void stop_self(void)
{
	sigset_t stop;

	sigemptyset(&stop);
	sigaddset(&stop, SIGTSTP);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &stop, NULL);
	sigprocmask(SIG_BLOCK, &stop, NULL);
}

static void forward_signal(const struct children *children, const siginfo_t *info)
{
	for (size_t i = 0; i < children->count; i++) {
		const struct child *child = &children->list[i];
		if (!child->ended && (child->has_own_group || is_from_process(info)))
			kill(child->pid, info->si_signo);
	}
	if (info->si_signo == SIGTSTP)
		stop_self();
}

// Returns whether all children have ended. Also reaps orphans whose parent this process has become.
static bool reap_children(struct children *children)
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

// Reads the notices of dumps. A notice arrives before its process ends. So this is called before children are reaped,
// and again after the last child has ended.
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

	fill_forwarded_signals(&wanted);
	while (!reap_children(children)) {
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
			forward_signal(children, &info);
	}
}

// ---- how they ended ------------------------------------------------------------------------------------

static bool was_killed(const struct child *child)
{
	return WIFSIGNALED(child->status) && WTERMSIG(child->status) == SIGKILL;
}

// Drops notices of processes that were not killed: such a process continued after its dump, and then ended normally or
// by another signal.
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

static int exit_code_of(const struct child *child)
{
	if (child->image)
		return EXIT_DUMPED;
	return WIFSIGNALED(child->status) ? EXIT_SIGNAL + WTERMSIG(child->status) : WEXITSTATUS(child->status);
}

// Returns whether messages may be printed. If standard error is a regular file, the dumped program probably has the
// file open, too, and a restore needs its length unchanged. Messages then go to the terminal. Without a terminal,
// nothing is printed, and only the exit code reports the dump.
static bool may_print(void)
{
	struct stat info;

	if (fstat(STDERR_FILENO, &info) < 0 || !S_ISREG(info.st_mode))
		return true;
	int terminal = open("/dev/tty", O_WRONLY | O_CLOEXEC | O_NOCTTY);
	return terminal >= 0 && dup2(terminal, STDERR_FILENO) >= 0;
}

// Prints one message for the child at index `first` and all later children that were dumped into the same image.
static void say_image(const struct children *children, size_t first)
{
	const struct child *child = &children->list[first];
	size_t more = 0;
	char others[32] = "";

	for (size_t i = 0; i < children->count; i++) {
		const char *image = children->list[i].image;
		if (!image || strcmp(image, child->image) != 0)
			continue;
		if (i < first)
			return; // the message for an earlier child has named this image
		more += i > first;
	}
	if (more)
		snprintf(others, sizeof others, " and %zu more", more);
	if (*child->image)
		say_warning("process %d%s %s dumped to %s and %s ended: restore %s with virgate restore%s --dir %s",
			    (int)child->pid, others, more ? "were" : "was", child->image, more ? "have" : "has",
			    more ? "them" : "it", sim_flag(), child->image);
	else
		say_warning("process %d%s %s migrated by virgate migrate and %s ended here", (int)child->pid, others,
			    more ? "were" : "was", more ? "have" : "has");
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
	bool was_dumped = false;

	read_notices(children);
	drop_wrong_notices(children);
	for (size_t i = 0; i < children->count; i++) {
		const struct child *child = &children->list[i];
		was_dumped |= child->image != NULL;
		if (!failed && exit_code_of(child))
			failed = child;
	}
	bool is_printed = !was_dumped || may_print();
	for (size_t i = 0; i < children->count && is_printed; i++)
		if (children->list[i].image)
			say_image(children, i);
	if (failed && !failed->image && children->count > 1 && is_printed)
		say_end(failed);
	int code = failed ? exit_code_of(failed) : EXIT_OK;
	finish_children(children);
	return code;
}
