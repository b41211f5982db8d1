// dump: CUDA processes as images on disk.
#include "checkpoint.h"
#include "guard.h"
#include "options.h"
#include "say.h"

static int dump(const struct arguments *arguments)
{
	struct vg_checkpoint_result result = {0};
	struct session session;
	struct guard guard;
	long pid, seconds;

	int r = checkpoint_number(arguments, "pid", 4194304, &pid);
	if (r == 0)
		r = checkpoint_number(arguments, "timeout", 86400, &seconds);
	if (r)
		return r;
	if (!pid || !option_value(arguments, "dir")) {
		say_usage(arguments->verb, "--pid and --dir are needed: which process, and where its image shall lie");
		return verb_usage_code(arguments->verb);
	}
	r = guard_start(&(struct guarded){.arguments = arguments,
					  .pid = (pid_t)pid,
					  .dir = option_value(arguments, "dir"),
					  .leave_running = option_value(arguments, "leave-running") != NULL},
			&guard);
	if (r == 0)
		r = checkpoint_settle(&session, arguments);
	if (r) {
		guard_end(&guard);
		return r;
	}
	const struct vg_dump_options options = {
		.size = sizeof options,
		.pid = (pid_t)pid,
		.dir = option_value(arguments, "dir"),
		.leave_running = option_value(arguments, "leave-running") != NULL,
		.cpu_only = option_value(arguments, "cpu-only") != NULL,
		.shell_job = option_value(arguments, "shell-job") != NULL,
		.tcp_established = option_value(arguments, "tcp-established") != NULL,
		.file_locks = option_value(arguments, "file-locks") != NULL,
		.lock_timeout_ms = (unsigned)seconds * 1000,
		.progress = checkpoint_show,
	};
	if (vg_checkpoint_dump(&options, &result))
		r = checkpoint_fail(arguments);
	else
		checkpoint_print(arguments, &result, "dumped");
	session_close(&session);
	guard_end(&guard);
	return r;
}

static const struct option dump_options[] = {
	{"pid", 'p', "PID", "the process; its children go with it", 0},
	{"dir", 'd', "DIR", "where the image shall lie; nothing may be there yet", COMPLETE_FILE},
	{"leave-running", 0, NULL, "let the processes run on afterwards", 0},
	{"cpu-only", 0, NULL, "also processes that do not use CUDA", 0},
	{"timeout", 0, "SECONDS", "how long work on the GPU may take to end; 10 by itself", 0},
	{"shell-job", 0, NULL, "the process hangs on a terminal", 0},
	{"tcp-established", 0, NULL, "write open TCP connections down", 0},
	{"file-locks", 0, NULL, "write locks of files down", 0},
	OPTION_JSON,
	OPTION_SIM,
	{0},
};

const struct verb verb_dump = {
	.name = "dump",
	.synopsis = "--pid PID --dir DIR [--leave-running] [--cpu-only] [--timeout SECONDS] [--shell-job]\n"
		    "             [--tcp-established] [--file-locks] [--json] [--sim]",
	.summary = "Write a CUDA process to disk, with its device memory",
	.details = "The driver takes the process off the GPU, CRIU writes it down. Whatever fails before the image is whole,\n"
		   "and ^C, leaves the process running as it was. Afterwards it is gone, unless --leave-running.",
	.options = dump_options,
	.run = dump,
};
