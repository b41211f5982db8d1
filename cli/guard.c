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
#include "checkpoint/image_folder.h"
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

// Whoever has ended does so at the end of a dump, when its image stands.
static bool have_ended(const struct guarded *guarded, const uint64_t *start_times)
{
	for (size_t i = 0; i < guarded->count; i++)
		if (!vg_process_is_dead(guarded->pids[i], start_times[i]))
			return false;
	return image_stands(guarded->dir);
}

static int bring_one_back(const struct guarded *guarded, pid_t pid, uint64_t start_time)
{
	struct vg_recovery recovery;
	uint64_t now;

	if (vg_process_start_time(pid, &now) || !vg_start_time_same(now, start_time))
		return 0; // it has gone
	if (vg_checkpoint_recover(pid, &recovery))
		return fail_with_last_error(guarded->arguments);
	if (recovery.stopped + recovery.held_back)
		say_warning("the %s was killed: process %d runs on, as before", guarded->scratch ? "migration" : "dump",
			    (int)pid);
	return 0;
}

static int bring_back(const struct guarded *guarded, const uint64_t *start_times)
{
	struct session session;

	if (guarded->scratch && have_ended(guarded, start_times)) {
		say_warning("the migration was killed after process %d had ended here: look on the other side whether it "
			    "runs; only if it does not, restore its image, which is %s",
			    (int)guarded->pids[0], guarded->dir);
		return 0;
	}
	if (!guarded->leave_running && !guarded->scratch && image_stands(guarded->dir)) {
		for (size_t i = 0; i < guarded->count; i++)
			say_warning("the dump was killed when its image was whole already: process %d is left as it was "
				    "written down; end it, or let it run on with virgate recover --pid %d",
				    (int)guarded->pids[i], (int)guarded->pids[i]);
		return 0;
	}
	int r = checkpoint_settle(&session, guarded->arguments);
	if (r)
		return r;
	for (size_t i = 0; i < guarded->count; i++) {
		int one = bring_one_back(guarded, guarded->pids[i], start_times[i]);
		r = r ? r : one;
	}
	if (r == 0 && guarded->scratch) {
		image_remove(guarded->dir);
		checkpoint_scratch_end(guarded->scratch);
	}
	session_close(&session);
	return r;
}

// Never returns.
static void watch(const struct guarded *guarded, int input, const uint64_t *start_times)
{
	ssize_t count;
	char word;

	stand_aside(input);
	do
		count = read(input, &word, 1);
	while (count < 0 && errno == EINTR);
	_exit(count == 0 ? bring_back(guarded, start_times) : 0);
}

int guard_start(const struct guarded *guarded, struct guard *ret_guard)
{
	static uint64_t start_times[GUARD_MOST]; // 0: there is none, as the dump will find
	int ends[2];

	*ret_guard = (struct guard){.end = -1};
	for (size_t i = 0; i < guarded->count; i++)
		if (vg_process_start_time(guarded->pids[i], &start_times[i]))
			start_times[i] = 0;
	if (pipe2(ends, O_CLOEXEC) < 0) {
		say_error("a pipe to the guard of this dump: %s", strerror(errno));
		return verb_failure_code(guarded->arguments->verb);
	}
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		close(ends[1]);
		watch(guarded, ends[0], start_times);
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
