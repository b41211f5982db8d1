// dump and restore: CUDA processes as images on disk.
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "list.h"
#include "options.h"
#include "say.h"
#include "session.h"
#include "share.h"
#include "virgate/checkpoint.h"

static volatile sig_atomic_t interrupted;

static void interrupt(int signal)
{
	(void)signal;
	interrupted = 1;
}

// ^C is heeded between the steps.
static void watch_signals(void)
{
	const struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static int show_phase(void *user, enum vg_checkpoint_phase phase)
{
	(void)user;
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K%s ...", vg_checkpoint_phase_name(phase));
	return interrupted;
}

static void print_result(const struct arguments *arguments, const struct vg_checkpoint_result *result, const char *what)
{
	char size[VG_SIZE_TEXT];
	double total = 0;

	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K");
	if (option_value(arguments, "json")) {
		json_t *seconds = json_object();
		for (int i = 0; i < VG_CHECKPOINT_PHASES; i++)
			if (result->seconds[i] > 0)
				json_object_set_new(seconds, vg_checkpoint_phase_name((enum vg_checkpoint_phase)i),
						    json_real(result->seconds[i]));
		print_json(json_pack("{s:i, s:I, s:I, s:I, s:o}", "pid", (int)result->pid, "processes",
				     (json_int_t)result->processes, "cuda_processes", (json_int_t)result->cuda_processes,
				     "bytes", (json_int_t)result->bytes, "seconds", seconds));
		return;
	}
	for (int i = 0; i < VG_CHECKPOINT_PHASES; i++)
		total += result->seconds[i];
	printf("%s process %d", what, (int)result->pid);
	if (result->processes > 1)
		printf(" and %zu more", result->processes - 1);
	if (result->bytes)
		printf(", %s", vg_size_format(result->bytes, size));
	printf(", in %.2f s\n", total);
}

static int settle(struct session *session, const struct arguments *arguments)
{
	int r = session_settle(session, arguments);

	if (r)
		return r;
	r = share_choose_driver(session, arguments);
	if (r == 0)
		watch_signals();
	return r;
}

// A whole number from 1 up to `most`; 0: not given.
static int read_number(const struct arguments *arguments, const char *name, long most, long *ret_number)
{
	const char *text = option_value(arguments, name);
	char *end;

	*ret_number = 0;
	if (!text)
		return 0;
	*ret_number = strtol(text, &end, 10);
	if (end != text && !*end && *ret_number >= 1 && *ret_number <= most)
		return 0;
	say_usage(arguments->verb, "--%s: \"%s\" is no number from 1 to %ld", name, text, most);
	return verb_usage_code(arguments->verb);
}

static int dump(const struct arguments *arguments)
{
	struct vg_checkpoint_result result = {0};
	struct session session;
	long pid, seconds;

	int r = read_number(arguments, "pid", 4194304, &pid);
	if (r == 0)
		r = read_number(arguments, "timeout", 86400, &seconds);
	if (r)
		return r;
	if (!pid || !option_value(arguments, "dir")) {
		say_usage(arguments->verb, "--pid and --dir are needed: which process, and where its image shall lie");
		return verb_usage_code(arguments->verb);
	}
	r = settle(&session, arguments);
	if (r)
		return r;
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
		.progress = show_phase,
	};
	if (vg_checkpoint_dump(&options, &result))
		r = fail_with_last_error(arguments);
	else
		print_result(arguments, &result, "dumped");
	session_close(&session);
	return r;
}

static int restore(const struct arguments *arguments)
{
	struct vg_checkpoint_result result = {0};
	struct session session;

	if (!option_value(arguments, "dir")) {
		say_usage(arguments->verb, "--dir is needed: the image");
		return verb_usage_code(arguments->verb);
	}
	int r = settle(&session, arguments);
	if (r)
		return r;
	const struct vg_restore_options options = {
		.size = sizeof options, .dir = option_value(arguments, "dir"), .progress = show_phase};
	if (vg_checkpoint_restore(&options, &result))
		r = fail_with_last_error(arguments);
	else
		print_result(arguments, &result, "restored");
	session_close(&session);
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

static const struct option restore_options[] = {
	{"dir", 'd', "DIR", "the image", COMPLETE_FILE},
	OPTION_JSON,
	OPTION_SIM,
	{0},
};

const struct verb verb_restore = {
	.name = "restore",
	.synopsis = "--dir DIR [--json] [--sim]",
	.summary = "Let a CUDA process run again from its image",
	.details = "With the pid it had, on the GPU it had. What does not fit is said before anything is made.",
	.options = restore_options,
	.run = restore,
};
