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
		say_usage(arguments->verb, "give --pid or --vgpu to say what to dump, and --dir to say where");
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
	{"dir", 'd', "DIR", "the directory for the image, which must not exist yet", COMPLETE_FILE},
	{"leave-running", 0, NULL, "let the processes continue afterwards", 0},
	OPTION_JSON,
	OPTION_SIM,
	{0},
};

const struct verb verb_dump = {
	.name = "dump",
	.synopsis = "(--pid PID | --vgpu NAME) --dir DIR [--compress METHOD] [--leave-running] [--cpu-only]\n"
		    "             [--timeout SECONDS] [--shell-job] [--tcp-established] [--file-locks] [--json] "
		    "[--sim]",
	.summary = "Write a CUDA process to disk, with its device memory",
	.details = "The driver moves the device memory of the process to the host, and CRIU writes the process to "
		   "disk. If anything fails before the image is complete, and on ^C, the process continues. "
		   "Otherwise it ends, unless --leave-running.",
	.options = dump_options,
	.run = dump,
};
