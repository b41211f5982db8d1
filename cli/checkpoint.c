#include "checkpoint.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "checkpoint/image/locked_directory.h"
#include "checkpoint/image/image.h"
#include "list.h"
#include "options.h"
#include "progress.h"
#include "say.h"
#include "share.h"

static volatile sig_atomic_t caught_signal;

static void note_signal(int signal)
{
	caught_signal = signal;
}

int checkpoint_caught_signal(void)
{
	return caught_signal;
}

static const char *temporary_directory(void)
{
	const char *directory = getenv("TMPDIR");

	return directory && *directory ? directory : "/tmp";
}

// Writes a template for mkdtemp(), for the directory of an image that a restore receives. Returns false if the path is
// too long.
static bool name_arrival(char ret_path[PATH_MAX])
{
	return snprintf(ret_path, PATH_MAX, "%s/virgate-arrival.XXXXXX", temporary_directory()) < PATH_MAX - 32;
}

static bool belongs_to_arrival(const char *name)
{
	static const char *const parts[] = {"image" IMAGE_PART, "image" IMAGE_PRECOPY IMAGE_PART};

	return strcmp(name, "image") == 0 || strncmp(name, parts[0], strlen(parts[0])) == 0 ||
	       strncmp(name, parts[1], strlen(parts[1])) == 0;
}

static void remove_old_arrivals(void)
{
	char path[PATH_MAX];

	if (name_arrival(path))
		locked_directory_sweep(path, belongs_to_arrival, 2); // 2 levels: the image, and the directories in it
}

int checkpoint_open_session(struct session *session, const struct arguments *arguments)
{
	const struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESTART};

	progress_begin(arguments);
	remove_old_arrivals();

	int r = session_open(session, arguments);
	if (r == 0)
		r = share_choose_driver(session, arguments);
	if (r)
		return r;
	// If SIGCHLD were ignored, waitpid() would find no children. An ignored signal is inherited.
	sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	return 0;
}

int checkpoint_read_number(const struct arguments *arguments, const char *name, long most, long *ret_number)
{
	const char *text = option_value(arguments, name);
	char *end;

	*ret_number = 0;
	if (!text)
		return 0;
	*ret_number = strtol(text, &end, 10);
	if (end != text && !*end && *ret_number >= 1 && *ret_number <= most)
		return 0;
	return say_usage(arguments->verb, "--%s: \"%s\" is not a number from 1 to %ld", name, text, most);
}

static int refuse_directory(const struct arguments *arguments, int error)
{
	say_error("cannot create a directory for the image in %.200s: %s; name another one with --dir",
		  temporary_directory(), strerror(error));
	return verb_failure_code(arguments->verb);
}

int checkpoint_create_scratch(const struct arguments *arguments, char ret_image[PATH_MAX])
{
	char path[PATH_MAX - 8];

	int length = snprintf(path, sizeof path, "%s/virgate-XXXXXX", temporary_directory());
	if (length >= (int)sizeof path || !mkdtemp(path))
		return refuse_directory(arguments, length >= (int)sizeof path ? ENAMETOOLONG : errno);
	snprintf(ret_image, PATH_MAX, "%s/image", path);
	return 0;
}

int checkpoint_create_arrival(const struct arguments *arguments, struct arrival *ret_arrival)
{
	char path[PATH_MAX];
	int lock = -1;

	int r = name_arrival(path) ? locked_directory_make(path, &lock) : -ENAMETOOLONG;
	if (r)
		return refuse_directory(arguments, -r);
	*ret_arrival = (struct arrival){.lock = lock};
	snprintf(ret_arrival->image, sizeof ret_arrival->image, "%.*s/image", PATH_MAX - 8, path);
	return 0;
}

void checkpoint_remove_arrival(struct arrival *arrival)
{
	if (!*arrival->image)
		return;
	checkpoint_remove_scratch(arrival->image);
	close(arrival->lock);
	*arrival->image = '\0';
}

void checkpoint_remove_scratch(const char *image)
{
	char directory[PATH_MAX];

	snprintf(directory, sizeof directory, "%.*s", (int)strlen(image) - (int)strlen("/image"), image);
	if (*image)
		rmdir(directory);
}

int checkpoint_show_progress(void *user, const struct vg_checkpoint_progress *progress)
{
	static bool is_reported;

	(void)user;
	progress_show(vg_checkpoint_phase_name(progress->phase), progress->bytes, progress->total);
	if (caught_signal && !is_reported && progress->phase == VG_CHECKPOINT_HOST_OUT) {
		progress_hide();
		say_warning("CRIU cannot be interrupted: stopping as soon as it has finished");
		is_reported = true;
	}
	return caught_signal;
}

static int print_json_result(const struct vg_checkpoint_result *result)
{
	json_t *seconds = json_object();

	for (int i = 0; i < VG_CHECKPOINT_PHASES; i++)
		if (result->seconds[i] > 0)
			json_object_set_new(seconds, vg_checkpoint_phase_name((enum vg_checkpoint_phase)i),
					    json_real(result->seconds[i]));
	return print_json(json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "pid", (int)result->pid,
				    "processes", (json_int_t)result->processes, "cuda_processes",
				    (json_int_t)result->cuda_processes, "bytes", (json_int_t)result->bytes, "raw_bytes",
				    (json_int_t)result->raw_bytes, "device_bytes", (json_int_t)result->device_bytes,
				    "linked_bytes", (json_int_t)result->linked_bytes, "copied_bytes",
				    (json_int_t)result->copied_bytes, "rounds", (json_int_t)result->rounds,
				    "precopied_bytes", (json_int_t)result->precopied_bytes, "seconds", seconds));
}

void checkpoint_print_result(const struct arguments *arguments, const struct vg_checkpoint_result *result,
			     const char *what)
{
	char size[VG_SIZE_TEXT];
	double total = 0;

	progress_hide();
	if (option_value(arguments, "json")) {
		print_json_result(result);
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

int checkpoint_fail(const struct arguments *arguments)
{
	progress_hide();
	return fail_with_last_error(arguments);
}
