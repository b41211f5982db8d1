// Who dumps or restores, as a program that can be made to fail: coordinator dump|restore PID DIR PHASE WHAT. When PHASE
// begins: "stop" asks it to, "kill" kills it with -9, "end" kills the process to be dumped;
// "fork" and "exec" have that one do so, as the subject understands it; "run" runs the command in COORDINATED.
// Exit code: 0, or 1 with the error on stdout.
#include "virgate/checkpoint.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct plan {
	const char *phase, *what;
	pid_t pid;
	int done;
};

static int follow(void *user, const struct vg_checkpoint_progress *progress)
{
	struct plan *plan = user;

	// A step that takes long says so more than once.
	if (plan->done || strcmp(plan->phase, vg_checkpoint_phase_name(progress->phase)) != 0)
		return 0;
	plan->done = 1;
	if (strcmp(plan->what, "kill") == 0)
		kill(getpid(), SIGKILL);
	if (strcmp(plan->what, "end") == 0) {
		kill(plan->pid, SIGKILL);
		usleep(300000);
	}
	if (strcmp(plan->what, "run") == 0 && system(getenv("COORDINATED")) < 0)
		return 1;
	if (strcmp(plan->what, "fork") == 0 || strcmp(plan->what, "exec") == 0) {
		kill(plan->pid, strcmp(plan->what, "fork") == 0 ? SIGUSR1 : SIGUSR2);
		usleep(300000);
	}
	return strcmp(plan->what, "stop") == 0;
}

int main(int argc, char **argv)
{
	if (argc != 6)
		return 2;
	struct plan plan = {.pid = atoi(argv[2]), .phase = argv[4], .what = argv[5]};
	const struct vg_dump_options dump = {
		.size = sizeof dump, .pid = plan.pid, .dir = argv[3], .progress = follow, .user = &plan};
	const struct vg_restore_options restore = {
		.size = sizeof restore, .dir = argv[3], .progress = follow, .user = &plan};

	enum vg_status status =
		strcmp(argv[1], "dump") == 0 ? vg_checkpoint_dump(&dump, NULL) : vg_checkpoint_restore(&restore, NULL);
	if (status)
		printf("%s: %s\n", vg_status_text(status), vg_last_error()->text);
	return status ? 1 : 0;
}
