#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "checkpoint.h"
#include "say.h"

// Neither a terminal's signals nor its end are for this process, and it keeps no file or pipe of the dump's open but
// stderr, where it says what it did.
static void stand_aside(int input)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid();
	prctl(PR_SET_NAME, "virgate-guard");
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
	}
	if (input > 3)
		close_range(3, (unsigned)input - 1, 0);
	close_range((unsigned)input + 1, UINT_MAX, 0);
}

static bool image_stands(const char *dir)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof path, "%s/virgate.json", dir) < PATH_MAX && access(path, F_OK) == 0;
}

static int bring_back(const struct guarded *guarded, uint64_t start_time)
{
	struct session session;
	struct vg_recovery recovery;
	int pid = (int)guarded->pid;
	uint64_t now;

	if (!guarded->leave_running && image_stands(guarded->dir)) {
		say_warning("the dump was killed when its image was whole already: process %d is left as it was written down; "
			    "end it, or let it run on with virgate recover --pid %d",
			    pid, pid);
		return 0;
	}
	if (vg_process_start_time(guarded->pid, &now) || !vg_start_time_same(now, start_time))
		return 0; // it has gone
	int r = checkpoint_settle(&session, guarded->arguments);
	if (r)
		return r;
	if (vg_checkpoint_recover(guarded->pid, &recovery))
		r = fail_with_last_error(guarded->arguments);
	else if (recovery.stopped + recovery.held_back)
		say_warning("the dump was killed: process %d runs on, as before", pid);
	session_close(&session);
	return r;
}

// Never returns.
static void watch(const struct guarded *guarded, int input, uint64_t start_time)
{
	ssize_t count;
	char word;

	stand_aside(input);
	do
		count = read(input, &word, 1);
	while (count < 0 && errno == EINTR);
	_exit(count == 0 ? bring_back(guarded, start_time) : 0);
}

int guard_start(const struct guarded *guarded, struct guard *ret_guard)
{
	uint64_t start_time = 0;
	int ends[2];

	*ret_guard = (struct guard){.end = -1};
	if (vg_process_start_time(guarded->pid, &start_time))
		return 0; // there is nobody to be watched over, as the dump will find
	if (pipe2(ends, O_CLOEXEC) < 0) {
		say_error("a pipe to the guard of this dump: %s", strerror(errno));
		return verb_failure_code(guarded->arguments->verb);
	}
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		close(ends[1]);
		watch(guarded, ends[0], start_time);
	}
	close(ends[0]);
	if (pid < 0) {
		say_error("a process that guards this dump: %s", strerror(errno));
		close(ends[1]);
		return verb_failure_code(guarded->arguments->verb);
	}
	*ret_guard = (struct guard){.pid = pid, .end = ends[1]};
	return 0;
}

void guard_end(struct guard *guard)
{
	if (guard->pid <= 0)
		return;
	// One that was killed has closed its end: no reason to die of it.
	void (*before)(int) = signal(SIGPIPE, SIG_IGN);
	(void)!write(guard->end, "d", 1);
	signal(SIGPIPE, before);
	close(guard->end);
	while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR)
		;
	guard->pid = 0;
}
