// Dumps, restores, suspends or resumes a program through the library, and disturbs this operation when one of its
// phases begins. Usage: coordinator dump|restore PID DIR PHASE ACTION, or coordinator deep|resume 0 VGPU PHASE ACTION,
// where deep means suspend --deep. PHASE is a name from vg_checkpoint_phase_name(). ACTION "stop" asks the library to
// stop, "kill" kills the coordinator with SIGKILL, and "end" kills the process to be dumped. "fork" and "exec" send a
// signal to that process, at which it forks or calls exec. "run" runs the command in the variable COORDINATED. Exit
// code: 0; 1 if the operation failed, with the error on standard output; 3 if it succeeded but PHASE never began.
#include "virgate/checkpoint.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct plan {
	const char *phase, *action;
	pid_t pid;
	int done;
};

static int act_in_phase(void *user, const struct vg_checkpoint_progress *progress)
{
	struct plan *plan = user;

	// A long step reports its progress more than once, but the action is done only once.
	if (plan->done || strcmp(plan->phase, vg_checkpoint_phase_name(progress->phase)) != 0)
		return 0;
	plan->done = 1;
	if (strcmp(plan->action, "kill") == 0)
		kill(getpid(), SIGKILL);
	if (strcmp(plan->action, "end") == 0) {
		kill(plan->pid, SIGKILL);
		usleep(300000);
	}
	if (strcmp(plan->action, "run") == 0 && system(getenv("COORDINATED")) < 0)
		return 1;
	if (strcmp(plan->action, "fork") == 0 || strcmp(plan->action, "exec") == 0) {
		kill(plan->pid, strcmp(plan->action, "fork") == 0 ? SIGUSR1 : SIGUSR2);
		usleep(300000);
	}
	return strcmp(plan->action, "stop") == 0;
}

static enum vg_status work(const char *verb, const char *dir, struct plan *plan)
{
	const struct vg_dump_options dump = {
		.size = sizeof dump, .pid = plan->pid, .dir = dir, .progress = act_in_phase, .user = plan};
	const struct vg_restore_options restore = {
		.size = sizeof restore, .dir = dir, .progress = act_in_phase, .user = plan};
	const struct vg_suspend_options suspend = {
		.size = sizeof suspend, .vgpu = dir, .deep = 1, .progress = act_in_phase, .user = plan};
	struct vg_suspend_result *result = NULL;
	enum vg_status status;

	if (strcmp(verb, "dump") == 0)
		return vg_checkpoint_dump(&dump, NULL);
	if (strcmp(verb, "restore") == 0)
		return vg_checkpoint_restore(&restore, NULL);
	status = strcmp(verb, "deep") == 0 ? vg_checkpoint_suspend(&suspend, &result)
					   : vg_checkpoint_resume(&suspend, &result);
	vg_suspend_result_free(result);
	return status;
}

int main(int argc, char **argv)
{
	if (argc != 6)
		return 2;
	struct plan plan = {.pid = atoi(argv[2]), .phase = argv[4], .action = argv[5]};
	enum vg_status status = work(argv[1], argv[3], &plan);
	if (status)
		printf("%s: %s\n", vg_status_text(status), vg_last_error()->text);
	else if (!plan.done)
		printf("the phase %s did not begin\n", plan.phase);
	return status ? 1 : plan.done ? 0 : 3;
}
