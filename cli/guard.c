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
#include "checkpoint/image/image.h"
#include "checkpoint/image/directory.h"
#include "say.h"

enum { DONE = 'd' };

// Detaches this process from the terminal and its signals. Closes all descriptors inherited from the dumping process,
// except `input` and standard error, on which the guard reports what it did.
static void detach(int input)
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

static bool is_image_complete(const char *dir)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof path, "%s/virgate.json", dir) < PATH_MAX && access(path, F_OK) == 0;
}

struct watch {
	const struct guarded *guarded;
	const uint64_t *start_times;
	char step; // the last step that the dumping process reported; 0: none
};

static int recover_process(const struct guarded *guarded, pid_t pid, uint64_t start_time)
{
	struct vg_recovery recovery;
	uint64_t now;

	if (vg_process_start_time(pid, &now) || !vg_start_time_same(now, start_time))
		return 0; // the process has ended, so there is nothing to resume
	if (vg_checkpoint_recover(pid, &recovery))
		return fail_with_last_error(guarded->arguments);
	if (recovery.stopped + recovery.held_back && guarded->is_suspension)
		say_warning("the suspension was killed: process %d is on the GPU again; if its vGPU is evictable, its "
			    "memory stays in the host until virgate resume%s",
			    (int)pid, sim_flag());
	else if (recovery.stopped + recovery.held_back)
		say_warning("the %s was killed: process %d continues", guarded->scratch ? "migration" : "dump",
			    (int)pid);
	return 0;
}

// Prints the path of the image: once the processes have ended, the image is their only copy.
static int say_image(const struct watch *watch)
{
	int pid = (int)watch->guarded->pids[0];

	if (watch->step == GUARD_ENDING)
		say_warning("the migration was killed while process %d was being ended, before the other side was "
			    "told to start it: end what is left of it, then restore its image %s",
			    pid, watch->guarded->dir);
	else
		say_warning("the migration was killed after process %d had ended here: check whether it runs on the "
			    "other side or here; only if it does not, restore its image %s",
			    pid, watch->guarded->dir);
	return 0;
}

// Removes the incomplete image of a migration, and the device memory that precopy has already written.
static void remove_parts(const char *dir)
{
	char path[PATH_MAX];

	image_sweep(dir);
	if (snprintf(path, sizeof path, "%s" IMAGE_PRECOPY, dir) < (int)sizeof path)
		image_sweep(path);
}

static int recover_processes(const struct watch *watch)
{
	const struct guarded *guarded = watch->guarded;
	struct session session;

	if (watch->step == GUARD_ENDING || watch->step == GUARD_HANDING_OVER)
		return say_image(watch);
	bool is_dump = !guarded->leave_running && !guarded->scratch && !guarded->is_suspension;
	if (is_dump && is_image_complete(guarded->dir)) {
		for (size_t i = 0; i < guarded->count; i++)
			say_warning(
				"the dump was killed after its image was complete: process %d is still stopped; end "
				"it, or resume it with virgate recover%s --pid %d",
				(int)guarded->pids[i], sim_flag(), (int)guarded->pids[i]);
		return 0;
	}
	int r = checkpoint_open_session(&session, guarded->arguments);
	if (r)
		return r;
	for (size_t i = 0; i < guarded->count; i++) {
		int one = recover_process(guarded, guarded->pids[i], watch->start_times[i]);
		r = r ? r : one;
	}
	if (r == 0 && watch->step == GUARD_IMAGE_COMPLETE)
		image_remove(guarded->dir);
	if (guarded->scratch)
		remove_parts(guarded->dir);
	if (r == 0 && guarded->scratch)
		checkpoint_remove_scratch(guarded->scratch);
	session_close(&session);
	return r;
}

// Runs the guard process. Never returns.
static void watch_dump(struct watch *watch, int input)
{
	ssize_t count;
	char word = 0;

	detach(input);
	while ((count = read(input, &word, 1)) > 0 ? word != DONE : count < 0 && errno == EINTR)
		if (count > 0)
			watch->step = word;
	_exit(count == 0 ? recover_processes(watch) : 0);
}

int guard_start(const struct guarded *guarded, struct guard *ret_guard)
{
	static uint64_t start_times[GUARD_MOST]; // 0: the process does not exist, which the dump will report
	int ends[2];

	struct watch watch = {.guarded = guarded, .start_times = start_times};

	*ret_guard = (struct guard){.end = -1};
	for (size_t i = 0; i < guarded->count; i++)
		if (vg_process_start_time(guarded->pids[i], &start_times[i]))
			start_times[i] = 0;
	if (pipe2(ends, O_CLOEXEC) < 0) {
		say_error("cannot create a pipe to the guard process of this dump: %s", strerror(errno));
		return verb_failure_code(guarded->arguments->verb);
	}
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		close(ends[1]);
		watch_dump(&watch, ends[0]);
	}
	close(ends[0]);
	if (pid < 0) {
		say_error("cannot start the guard process of this dump: %s", strerror(errno));
		close(ends[1]);
		return verb_failure_code(guarded->arguments->verb);
	}
	*ret_guard = (struct guard){.pid = pid, .end = ends[1]};
	return 0;
}

// Finds the processes of a vGPU. The dump finds them again, independently of the guard.
static int find_tenants(const struct arguments *arguments, const char *vgpu, pid_t pids[GUARD_MOST], size_t *ret_count)
{
	struct vg_vgpu_list *list;
	struct session session;
	size_t count = 0;

	int r = session_open(&session, arguments);
	if (r)
		return r;
	if (vg_vgpu_inspect(session.node, vgpu, &list)) {
		r = fail_with_last_error(arguments);
	} else {
		const struct vg_tenant_info *tenant = list->vgpus->tenants;
		for (size_t i = 0; i < list->vgpus->tenant_count; i++, tenant++)
			if (!tenant->guest && !tenant->ended && !tenant->outside && tenant->pid > 0 &&
			    count++ < GUARD_MOST)
				pids[count - 1] = (pid_t)tenant->pid;
		vg_vgpu_list_free(list);
	}
	session_close(&session);
	if (count > GUARD_MOST)
		say_warning("vGPU %s has %zu processes, and the guard process knows only %d of them: if %s is killed, "
			    "end the others, or resume them with virgate recover%s --pid PID",
			    vgpu, count, GUARD_MOST, arguments->verb->name, sim_flag());
	*ret_count = count < GUARD_MOST ? count : GUARD_MOST;
	return r;
}

int guard_start_for_target(const struct arguments *arguments, const char *vgpu, pid_t pid, const struct guarded *how,
			   struct guard *ret_guard)
{
	static pid_t pids[GUARD_MOST];
	struct guarded guarded = *how;
	int r = 0;

	pids[0] = pid;
	guarded.arguments = arguments;
	guarded.pids = pids;
	guarded.count = 1;
	if (vgpu)
		r = find_tenants(arguments, vgpu, pids, &guarded.count);
	return r ? r : guard_start(&guarded, ret_guard);
}

// Sends a step to the guard. Ignores SIGPIPE: if the guard was killed, the dump continues.
static void send_step(const struct guard *guard, char word)
{
	void (*before)(int) = signal(SIGPIPE, SIG_IGN);

	(void)!write(guard->end, &word, 1);
	signal(SIGPIPE, before);
}

void guard_report_step(const struct guard *guard, enum guard_step step)
{
	if (guard->pid > 0)
		send_step(guard, (char)step);
}

void guard_stop(struct guard *guard)
{
	if (guard->pid <= 0)
		return;
	send_step(guard, DONE);
	close(guard->end);
	while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR)
		;
	guard->pid = 0;
}
