// dump: CUDA processes as images on disk.
#include "checkpoint.h"
#include "guard.h"
#include "options.h"
#include "say.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

// "none", "lz4", "zstd", "zstd:19".
static int read_compression(const struct arguments *arguments, struct vg_dump_options *options)
{
	static const char *const names[] = {"none", "lz4", "zstd"};
	const char *text = option_value(arguments, "compress"), *colon = text ? strchr(text, ':') : NULL;
	size_t length = colon ? (size_t)(colon - text) : text ? strlen(text) : 0;
	char *end = "";

	if (!text)
		return 0;
	// Which levels there are the library knows.
	long level = colon ? strtol(colon + 1, &end, 10) : 0;
	bool sound = !colon || (end != colon + 1 && !*end && level >= 1 && level <= INT_MAX);
	for (int i = 0; sound && i < 3; i++) {
		if (strlen(names[i]) != length || strncmp(names[i], text, length) != 0)
			continue;
		options->compression = (enum vg_compression)i;
		options->compression_level = (int)level;
		return 0;
	}
	say_usage(arguments->verb, "--compress \"%s\": there are none, lz4, zstd, and zstd:N with a level N from 1 on", text);
	return verb_usage_code(arguments->verb);
}

// Of a vGPU, for the guard: the dump itself looks once more.
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
		for (size_t i = 0; i < list->vgpus->tenant_count && count < GUARD_MOST; i++)
			pids[count++] = (pid_t)list->vgpus->tenants[i].pid;
		vg_vgpu_list_free(list);
	}
	session_close(&session);
	*ret_count = count;
	return r;
}

static int start_guard(const struct arguments *arguments, long pid, struct guard *ret_guard)
{
	const char *vgpu = option_value(arguments, "vgpu");
	static pid_t pids[GUARD_MOST];
	size_t count = 1;
	int r = 0;

	pids[0] = (pid_t)pid;
	if (vgpu)
		r = find_tenants(arguments, vgpu, pids, &count);
	return r ? r
		 : guard_start(&(struct guarded){.arguments = arguments,
						 .pids = pids,
						 .count = count,
						 .dir = option_value(arguments, "dir"),
						 .leave_running = option_value(arguments, "leave-running") != NULL},
			       ret_guard);
}

static int dump(const struct arguments *arguments)
{
	struct vg_checkpoint_result result = {0};
	const char *vgpu = option_value(arguments, "vgpu");
	struct guard guard = {.end = -1};
	struct session session;
	struct vg_dump_options options = {.size = sizeof options};
	long pid, seconds;

	int r = checkpoint_number(arguments, "pid", 4194304, &pid);
	if (r == 0)
		r = checkpoint_number(arguments, "timeout", 86400, &seconds);
	if (r == 0)
		r = read_compression(arguments, &options);
	if (r)
		return r;
	if (!pid == !vgpu || !option_value(arguments, "dir")) {
		say_usage(arguments->verb, "--pid or --vgpu, and --dir are needed: which process, or all that run inside "
					   "which vGPU, and where the image shall lie");
		return verb_usage_code(arguments->verb);
	}
	r = start_guard(arguments, pid, &guard);
	if (r == 0)
		r = checkpoint_settle(&session, arguments);
	if (r) {
		guard_end(&guard);
		return r;
	}
	options.pid = (pid_t)pid;
	options.dir = option_value(arguments, "dir");
	options.leave_running = option_value(arguments, "leave-running") != NULL;
	options.cpu_only = option_value(arguments, "cpu-only") != NULL;
	options.shell_job = option_value(arguments, "shell-job") != NULL;
	options.tcp_established = option_value(arguments, "tcp-established") != NULL;
	options.file_locks = option_value(arguments, "file-locks") != NULL;
	options.lock_timeout_ms = (unsigned)seconds * 1000;
	options.progress = checkpoint_show;
	options.vgpu = vgpu;
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
	{"pid", 'p', "PID", "the process; its children go with it", 0},
	{"vgpu", 'v', "NAME", "all that run inside this vGPU, and their children", COMPLETE_VGPU},
	{"dir", 'd', "DIR", "where the image shall lie; nothing may be there yet", COMPLETE_FILE},
	{"compress", 0, "METHOD", "none, lz4, zstd or zstd:LEVEL; zero pages are left out in any case", 0},
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
	.synopsis = "--pid PID | --vgpu NAME --dir DIR [--compress METHOD] [--leave-running] [--cpu-only]\n"
		    "             [--timeout SECONDS] [--shell-job] [--tcp-established] [--file-locks] [--json] [--sim]",
	.summary = "Write a CUDA process to disk, with its device memory",
	.details = "The driver takes the process off the GPU, CRIU writes it down. Whatever fails before the image is whole,\n"
		   "and ^C, leaves the process running as it was. Afterwards it is gone, unless --leave-running.",
	.options = dump_options,
	.run = dump,
};
