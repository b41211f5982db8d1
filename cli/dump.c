// dump: writes CUDA processes to an image on disk.
#include <stdio.h>

#include "base/size.h"
#include "checkpoint.h"
#include "dump_options.h"
#include "guard.h"
#include "options.h"
#include "say.h"

static void print_bases(const struct vg_checkpoint_result *result)
{
	char size[VG_SIZE_TEXT];

	if (result->linked_bytes)
		printf("%s of device memory in common with the base images\n",
		       vg_size_format(result->linked_bytes, size));
	if (result->copied_bytes)
		say_warning("%s of packs were copied, because their base image is on another file system",
			    vg_size_format(result->copied_bytes, size));
}

static int run_dump(const struct arguments *arguments)
{
	const char *bases[MAX_AGAIN + 2];
	struct vg_checkpoint_result result = {0};
	struct guard guard = {.end = -1};
	struct vg_dump_options options;
	struct session session;

	int r = dump_options_read(arguments, &options);
	if (r)
		return r;
	options.dir = option_value(arguments, "dir");
	options.bases = bases;
	while (options.base_count <= MAX_AGAIN &&
	       (bases[options.base_count] = option_value_again(arguments, "base", (int)options.base_count)))
		options.base_count++;
	options.leave_running = option_value(arguments, "leave-running") != NULL;
	if ((!options.pid && !options.vgpu) || !options.dir)
		return say_usage(arguments->verb, "give --pid or --vgpu to say what to dump, and --dir to say where");
	r = dump_guard(arguments, &options, NULL, &guard);
	if (r == 0)
		r = checkpoint_open_session(&session, arguments);
	if (r) {
		guard_stop(&guard);
		return r;
	}
	options.node = session.node;
	if (vg_checkpoint_dump(&options, &result))
		r = checkpoint_fail(arguments);
	else
		checkpoint_print_result(arguments, &result, "dumped");
	if (r == 0 && !option_value(arguments, "json"))
		print_bases(&result);
	session_close(&session);
	guard_stop(&guard);
	return r;
}

static const struct option dump_options[] = {
	DUMP_OPTIONS,
	{"dir", 'd', "DIR", "the directory for the image, which must not exist yet", COMPLETE_FILE},
	{"base", 0, "IMAGE", "an image whose blocks of device memory need not be written again; repeatable",
	 COMPLETE_FILE, .again = true},
	{"leave-running", 0, NULL, "let the processes continue afterwards", 0},
	OPTION_JSON,
	OPTION_SIM,
	{0},
};

const struct verb verb_dump = {
	.name = "dump",
	.synopsis = "(--pid PID | --vgpu NAME) --dir DIR [--base IMAGE]... [--compress METHOD]\n"
		    "             [--leave-running] [--cpu-only] [--timeout SECONDS] [--shell-job] "
		    "[--tcp-established]\n"
		    "             [--file-locks] [--json] [--sim]",
	.summary = "Write a CUDA process to disk, with its device memory",
	.details = "The driver moves the device memory of the process to the host, and CRIU writes the process to "
		   "disk. The memory of programs in evictable vGPUs is moved by Virgate. If anything fails before the "
		   "image is complete, and on ^C, the process continues. Otherwise it ends, unless --leave-running.",
	.options = dump_options,
	.run = run_dump,
};
