// restore: restores CUDA processes from their images.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "checkpoint.h"
#include "checkpoint/move/channel.h"
#include "checkpoint/image/image.h"
#include "child.h"
#include "gpus.h"
#include "options.h"
#include "progress.h"
#include "say.h"

// Forwards signals to the restored processes and waits for them, as virgate run does.
static int wait_for_processes(const struct arguments *arguments, const pid_t *roots, size_t count)
{
	struct children children;
	pid_t not_child = roots[0];

	fflush(stdout);
	int r = child_adopt(&children, roots, count, &not_child);
	if (r) {
		say_error("process %d runs, but it did not become a child of this program: %s", (int)not_child,
			  strerror(-r));
		return verb_failure_code(arguments->verb);
	}
	for (size_t i = 0; i < count && checkpoint_caught_signal(); i++)
		kill(roots[i], checkpoint_caught_signal());
	child_wait(&children, NULL, NULL);
	return child_exit_code(&children);
}

// Opens the descriptors for receiving an image and answering the sender. These are standard input and, with --answer,
// standard output; or a unix socket, once the sender has connected. Returns 0, or the verb's exit code after a message.
static int open_source(const struct arguments *arguments, const char *from, int ret_descriptors[2])
{
	struct vg_checkpoint_result nothing = {0};
	struct phase phase = {.progress = checkpoint_show_progress, .result = &nothing};
	bool answer = option_value(arguments, "answer") != NULL;

	if (strcmp(from, "-") == 0) {
		ret_descriptors[0] = STDIN_FILENO;
		ret_descriptors[1] = answer ? STDOUT_FILENO : -1;
		return 0;
	}
	phase_go_on(&phase, VG_CHECKPOINT_RECEIVE);
	if (channel_accept(from + strlen("unix:"), &phase, &ret_descriptors[0]))
		return checkpoint_fail(arguments);
	ret_descriptors[1] = ret_descriptors[0];
	return 0;
}

static int restore_from_source(const struct arguments *arguments, const char *from, struct vg_restore_options *options,
			       struct vg_checkpoint_result *ret_result)
{
	const char *dir = option_value(arguments, "dir");
	struct arrival arrival = {.image = ""};
	int descriptors[2];

	int r = open_source(arguments, from, descriptors);
	if (r == 0 && !dir)
		r = checkpoint_create_arrival(arguments, &arrival);
	if (r)
		return r;
	options->dir = dir ? dir : arrival.image;
	enum vg_status status =
		vg_checkpoint_restore_from(descriptors[0], descriptors[1], options, dir != NULL, ret_result);
	if (descriptors[0] != STDIN_FILENO)
		close(descriptors[0]);
	// Remove the received image before any output, because SIGPIPE may end this process.
	checkpoint_remove_arrival(&arrival);
	return status ? checkpoint_fail(arguments) : 0;
}

// The values of the option --vgpu, which replace vGPUs of the image by others.
struct vgpus {
	struct vg_restore_vgpu list[MAX_AGAIN + 1];
	size_t count;
	char *texts[MAX_AGAIN + 1]; // owns the strings of the list
};

static void free_vgpus(struct vgpus *vgpus)
{
	for (size_t i = 0; i < vgpus->count; i++)
		free(vgpus->texts[i]);
}

// Parses "NEW" or "OLD=NEW". A "=" is unambiguous: names of vGPUs cannot contain it.
static int read_vgpus(const struct arguments *arguments, struct vgpus *vgpus)
{
	const char *value;

	for (int at = 0; at <= MAX_AGAIN && (value = option_value_again(arguments, "vgpu", at)); at++) {
		char *text = strdup(value), *new = text ? strchr(text, '=') : NULL;
		if (!text) {
			say_error("out of memory");
			return verb_failure_code(arguments->verb);
		}
		vgpus->texts[vgpus->count] = text;
		if (new)
			*new ++ = '\0';
		vgpus->list[vgpus->count++] =
			(struct vg_restore_vgpu){.old_name = new ? text : NULL, .new_name = new ? new : text};
		if (!*text || (new && !*new))
			return say_usage(arguments->verb, "--vgpu: \"%s\" is neither NAME nor OLD=NEW", value);
	}
	return 0;
}

static int restore_image(const struct arguments *arguments, const struct gpus *gpus, const struct vgpus *vgpus,
			 struct vg_node *node)
{
	bool detach = option_value(arguments, "detach") != NULL, answer = option_value(arguments, "answer") != NULL;
	const char *from = option_value(arguments, "from");
	static pid_t roots[IMAGE_MOST_TREES];
	struct vg_checkpoint_result result = {0};
	struct vg_restore_options options = {
		.size = sizeof options,
		.roots = roots,
		.root_capacity = IMAGE_MOST_TREES,
		.dir = option_value(arguments, "dir"),
		.gpus = gpus->pairs,
		.gpu_count = gpus->count,
		.vgpus = vgpus->list,
		.vgpu_count = vgpus->count,
		.progress = checkpoint_show_progress,
		.node = node,
	};

	if (!detach)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	int r = 0;
	if (from)
		r = restore_from_source(arguments, from, &options, &result);
	else if (vg_checkpoint_restore(&options, &result))
		r = checkpoint_fail(arguments);
	progress_hide();
	if (*result.warning)
		say_warning("%s", result.warning);
	if (r)
		return r;
	// With --answer, standard output is the connection to the sender, so print no result.
	if (!answer)
		checkpoint_print_result(arguments, &result, "restored");
	return detach ? EXIT_OK : wait_for_processes(arguments, roots, result.roots);
}

static int check_options(const struct arguments *arguments)
{
	const char *from = option_value(arguments, "from");

	if (!from && !option_value(arguments, "dir"))
		say_usage(arguments->verb, "give --dir for an image on disk, or --from for one that comes in");
	else if (from && strcmp(from, "-") != 0 && strncmp(from, "unix:", 5) != 0)
		say_usage(arguments->verb, "--from: \"%s\" is neither - nor unix:PATH", from);
	else if (option_value(arguments, "answer") && (!from || strcmp(from, "-") != 0))
		say_usage(arguments->verb, "--answer needs --from -: the answers go to standard output");
	else if (option_value(arguments, "answer") && (option_value(arguments, "json") || isatty(STDOUT_FILENO)))
		say_usage(arguments->verb, "--answer: standard output is for the sender: no terminal, and no --json");
	else
		return 0;
	return verb_usage_code(arguments->verb);
}

static int run_restore(const struct arguments *arguments)
{
	struct vgpus vgpus = {0};
	struct gpus gpus = {0};
	struct session session;

	int r = check_options(arguments);
	if (r)
		return r;
	r = gpus_read(arguments, &gpus);
	if (r == 0)
		r = read_vgpus(arguments, &vgpus);
	if (r == 0)
		r = checkpoint_open_session(&session, arguments);
	if (r == 0) {
		r = restore_image(arguments, &gpus, &vgpus, session.node);
		session_close(&session);
	}
	free_vgpus(&vgpus);
	gpus_free(&gpus);
	return r;
}

static const struct option restore_options[] = {
	{"dir", 'd', "DIR", "the directory of the image; with --from, where to keep it", COMPLETE_FILE},
	{"from", 0, "SOURCE", "-: read the image from standard input; unix:PATH: from what connects", COMPLETE_FILE},
	{"answer", 0, NULL, "answer the sender on standard output, as virgate migrate needs it", 0},
	OPTION_GPU_MAP,
	{"vgpu", 'v', "NAME", "run inside that vGPU instead of the image's; of several, OLD=NAME for each",
	 COMPLETE_VGPU, .again = true},
	{"detach", 0, NULL, "do not wait for the processes", 0},
	OPTION_JSON,
	OPTION_SIM,
	{0},
};

const struct verb verb_restore = {
	.name = "restore",
	.synopsis = "--dir DIR | --from -|unix:PATH [--dir DIR] [--answer]\n"
		    "                [--gpu-map OLD=NEW]... [--vgpu [OLD=]NAME]... [--detach] [--json] [--sim]",
	.summary = "Restore a CUDA process from its image",
	.details = "It gets the pid that it had, on the GPU that it had or another. What does not fit is reported "
		   "before anything is created. Exit status: that of the process; 128 + n if signal n ended it; 125 "
		   "if virgate failed. Of several processes, the first status in the order of the image that is not "
		   "0. With --detach: 0.",
	.options = restore_options,
	.failure = EXIT_RUN_FAILED,
	.run = run_restore,
};
