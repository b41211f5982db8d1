// restore: CUDA processes from their images.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "checkpoint.h"
#include "child.h"
#include "options.h"
#include "say.h"

enum { MOST_GPUS = 64 };

struct gpus {
	struct vg_process_gpu_pair pairs[MOST_GPUS];
	size_t count;
	char *texts[MOST_GPUS]; // what the pairs point at
	size_t text_count;
};

static void free_gpus(struct gpus *gpus)
{
	for (size_t i = 0; i < gpus->text_count; i++)
		free(gpus->texts[i]);
}

static int refuse_pair(const struct arguments *arguments, const char *pair)
{
	say_usage(arguments->verb, "--gpu-map: \"%s\" is no OLD=NEW, two UUIDs or indices", pair);
	return verb_usage_code(arguments->verb);
}

// "OLD=NEW", or several with commas between them.
static int read_pairs(const struct arguments *arguments, char *text, struct gpus *gpus)
{
	for (char *rest = text, *pair; (pair = strsep(&rest, ","));) {
		char *new = strchr(pair, '=');
		if (!new || new == pair || !new[1] || strchr(new + 1, '='))
			return refuse_pair(arguments, pair);
		*new ++ = '\0';
		if (gpus->count == MOST_GPUS) {
			say_usage(arguments->verb, "--gpu-map: more than %d GPUs", MOST_GPUS);
			return verb_usage_code(arguments->verb);
		}
		gpus->pairs[gpus->count++] = (struct vg_process_gpu_pair){.old_uuid = pair, .new_uuid = new};
	}
	return 0;
}

static int read_gpus(const struct arguments *arguments, struct gpus *gpus)
{
	const char *value;
	int r = 0;

	for (int at = 0; r == 0 && at < MOST_GPUS && (value = option_value_again(arguments, "gpu-map", at)); at++) {
		char *text = strdup(value);
		if (!text) {
			say_error("no memory");
			return verb_failure_code(arguments->verb);
		}
		gpus->texts[gpus->text_count++] = text;
		r = read_pairs(arguments, text, gpus);
	}
	return r;
}

// What virgate run does for the program that it started.
static int wait_for(const struct arguments *arguments, pid_t pid)
{
	struct child child;

	fflush(stdout);
	int r = child_adopt(&child, pid);
	if (r) {
		say_error("process %d runs, but it did not become a child of this program: %s", (int)pid, strerror(-r));
		return verb_failure_code(arguments->verb);
	}
	if (checkpoint_interrupted())
		kill(pid, checkpoint_interrupted());
	return child_exit_code(child_wait(&child, NULL, NULL));
}

static int restore_one(const struct arguments *arguments, const struct gpus *gpus, struct vg_node *node)
{
	bool detach = option_value(arguments, "detach") != NULL;
	struct vg_checkpoint_result result = {0};
	const struct vg_restore_options options = {
		.size = sizeof options,
		.dir = option_value(arguments, "dir"),
		.gpus = gpus->pairs,
		.gpu_count = gpus->count,
		.progress = checkpoint_show,
		.node = node,
	};

	if (!detach)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (vg_checkpoint_restore(&options, &result))
		return checkpoint_fail(arguments);
	checkpoint_print(arguments, &result, "restored");
	return detach ? EXIT_OK : wait_for(arguments, result.pid);
}

static int restore(const struct arguments *arguments)
{
	struct gpus gpus = {0};
	struct session session;

	if (!option_value(arguments, "dir")) {
		say_usage(arguments->verb, "--dir is needed: the image");
		return verb_usage_code(arguments->verb);
	}
	int r = read_gpus(arguments, &gpus);
	if (r == 0)
		r = checkpoint_settle(&session, arguments);
	if (r == 0) {
		r = restore_one(arguments, &gpus, session.node);
		session_close(&session);
	}
	free_gpus(&gpus);
	return r;
}

static const struct option restore_options[] = {
	{"dir", 'd', "DIR", "the image", COMPLETE_FILE},
	{"gpu-map", 0, "OLD=NEW", "the GPU NEW takes OLD's place; all of the image, or none", .again = true},
	{"detach", 0, NULL, "do not wait for the processes", 0},
	OPTION_JSON,
	OPTION_SIM,
	{0},
};

const struct verb verb_restore = {
	.name = "restore",
	.synopsis = "--dir DIR [--gpu-map OLD=NEW]... [--detach] [--json] [--sim]",
	.summary = "Let a CUDA process run again from its image",
	.details = "With the pid it had, on the GPU it had or another. What does not fit is said before anything is "
		   "made.\n"
		   "Exit status: the process's own; 128 + n if signal n ended it; 125 if virgate failed. With "
		   "--detach: 0.",
	.options = restore_options,
	.failure = EXIT_RUN_FAILED,
	.run = restore,
};
