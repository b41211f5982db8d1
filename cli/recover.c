// recover: resumes processes that a killed dump or restore left stopped.
#include <stdio.h>

#include "checkpoint.h"
#include "list.h"
#include "options.h"
#include "say.h"

static int print_recovery(const struct arguments *arguments, long pid, const struct vg_recovery *recovery)
{
	size_t touched = recovery->stopped + recovery->held_back;

	if (option_value(arguments, "json"))
		return print_json(json_pack("{s:i, s:I, s:I, s:I}", "pid", (int)pid, "processes",
					    (json_int_t)recovery->processes, "stopped", (json_int_t)recovery->stopped,
					    "held_back", (json_int_t)recovery->held_back));
	printf("process %ld", pid);
	if (recovery->processes > 1)
		printf(" and %zu more", recovery->processes - 1);
	if (!touched)
		printf(" %s running already: nothing to do\n", recovery->processes > 1 ? "were" : "was");
	else
		printf(recovery->processes > 1 ? " run again\n" : " runs again\n");
	return EXIT_OK;
}

static int run_recover(const struct arguments *arguments)
{
	struct vg_recovery recovery;
	struct session session;
	long pid;

	int r = checkpoint_read_number(arguments, "pid", 4194304, &pid);
	if (r)
		return r;
	if (!pid)
		return say_usage(arguments->verb, "--pid is missing: give the process to resume");
	r = checkpoint_open_session(&session, arguments);
	if (r)
		return r;
	r = vg_checkpoint_recover((pid_t)pid, &recovery) ? checkpoint_fail(arguments)
							 : print_recovery(arguments, pid, &recovery);
	session_close(&session);
	return r;
}

static const struct option recover_options[] = {
	{"pid", 'p', "PID", "the process; its children are resumed with it", 0},
	OPTION_JSON,
	OPTION_SIM,
	{0},
};

const struct verb verb_recover = {
	.name = "recover",
	.synopsis = "--pid PID [--json] [--sim]",
	.summary = "Resume a process whose dump was killed",
	.details = "A dump or restore that is killed can leave processes stopped, locked or off the GPU. They are "
		   "brought back from whichever state they are in. A process that runs already is left alone. A "
		   "process whose device memory was lost with a killed restore ends: restore its image again.",
	.options = recover_options,
	.run = run_recover,
};
