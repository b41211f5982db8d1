// dump: CUDA processes as images on disk.
#include "checkpoint.h"
#include "dump_options.h"
#include "guard.h"
#include "options.h"
#include "say.h"

static int dump(const struct arguments *arguments)
{
	struct vg_checkpoint_result result = {0};
	struct guard guard = {.end = -1};
	struct vg_dump_options options;
	struct session session;

	int r = dump_options_read(arguments, &options);
	if (r)
		return r;
	options.dir = option_value(arguments, "dir");
	options.leave_running = option_value(arguments, "leave-running") != NULL;
	if ((!options.pid && !options.vgpu) || !options.dir) {
		say_usage(arguments->verb, "--pid or --vgpu, and --dir are needed: which process, or all that run inside "
					   "which vGPU, and where the image shall lie");
		return verb_usage_code(arguments->verb);
	}
	r = dump_guard(arguments, &options, NULL, &guard);
	if (r == 0)
		r = checkpoint_settle(&session, arguments);
	if (r) {
		guard_end(&guard);
		return r;
	}
	options.node = session.node;
	if (vg_checkpoint_dump(&options, &result))
		r = checkpoint_fail(arguments);
	else
		checkpoint_print(arguments, &result, "dumped");
	session_close(&session);
	guard_end(&guard);
	return r;
}

static const struct option dump_options[] = {
	DUMP_OPTIONS,
	{"dir", 'd', "DIR", "where the image shall lie; nothing may be there yet", COMPLETE_FILE},
	{"leave-running", 0, NULL, "let the processes run on afterwards", 0},
	OPTION_JSON,
	OPTION_SIM,
	{0},
};

const struct verb verb_dump = {
	.name = "dump",
	.synopsis = "--pid PID | --vgpu NAME --dir DIR [--compress METHOD] [--leave-running] [--cpu-only]\n"
		    "             [--timeout SECONDS] [--shell-job] [--tcp-established] [--file-locks] [--json] [--sim]",
	.summary = "Write a CUDA process to disk, with its device memory",
	.details = "The driver takes the process off the GPU, CRIU writes it down. Whatever fails before the image is whole,\n"
		   "and ^C, leaves the process running as it was. Afterwards it is gone, unless --leave-running.",
	.options = dump_options,
	.run = dump,
};
