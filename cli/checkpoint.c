#include "checkpoint.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/size.h"
#include "checkpoint/held_folder.h"
#include "checkpoint/image.h"
#include "list.h"
#include "options.h"
#include "say.h"
#include "share.h"

// With a line for each phase's beginning, of which a dump has six, never more than ten a second.
enum { REDRAW_NS = 250000000 };

static volatile sig_atomic_t interrupted;
static bool shown;

static void interrupt(int signal)
{
	interrupted = signal;
}

int checkpoint_interrupted(void)
{
	return interrupted;
}

static const char *temporary_folder(void)
{
	const char *folder = getenv("TMPDIR");

	return folder && *folder ? folder : "/tmp";
}

// Where the images of restores lie that come in. False: the path is too long.
static bool name_arrival(char ret_path[PATH_MAX])
{
	return snprintf(ret_path, PATH_MAX, "%s/virgate-arrival.XXXXXX", temporary_folder()) < PATH_MAX - 32;
}

static bool is_of_arrival(const char *name)
{
	static const char *const parts[] = {"image" IMAGE_PART, "image" IMAGE_PRECOPY IMAGE_PART};

	return strcmp(name, "image") == 0 || strncmp(name, parts[0], strlen(parts[0])) == 0 ||
	       strncmp(name, parts[1], strlen(parts[1])) == 0;
}

static void sweep_arrivals(void)
{
	char path[PATH_MAX];

	if (name_arrival(path))
		held_folder_sweep(path, is_of_arrival, 2); // an image, and its trees
}

int checkpoint_settle(struct session *session, const struct arguments *arguments)
{
	const struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART};

	sweep_arrivals();

	int r = session_open(session, arguments);
	if (r == 0)
		r = share_choose_driver(session, arguments);
	if (r)
		return r;
	sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, NULL); // else nobody could be waited for
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	return 0;
}

int checkpoint_number(const struct arguments *arguments, const char *name, long most, long *ret_number)
{
	const char *text = option_value(arguments, name);
	char *end;

	*ret_number = 0;
	if (!text)
		return 0;
	*ret_number = strtol(text, &end, 10);
	if (end != text && !*end && *ret_number >= 1 && *ret_number <= most)
		return 0;
	say_usage(arguments->verb, "--%s: \"%s\" is not a number from 1 to %ld", name, text, most);
	return verb_usage_code(arguments->verb);
}

static int no_folder(const struct arguments *arguments, int error)
{
	say_error("cannot create a directory for the image in %.200s: %s; name another one with --dir",
		  temporary_folder(), strerror(error));
	return verb_failure_code(arguments->verb);
}

int checkpoint_scratch(const struct arguments *arguments, char ret_image[PATH_MAX])
{
	char path[PATH_MAX - 8];

	int length = snprintf(path, sizeof path, "%s/virgate-XXXXXX", temporary_folder());
	if (length >= (int)sizeof path || !mkdtemp(path))
		return no_folder(arguments, length >= (int)sizeof path ? ENAMETOOLONG : errno);
	snprintf(ret_image, PATH_MAX, "%s/image", path);
	return 0;
}

int checkpoint_arrival(const struct arguments *arguments, struct arrival *ret_arrival)
{
	char path[PATH_MAX];
	int lock = -1;

	int r = name_arrival(path) ? held_folder_make(path, &lock) : -ENAMETOOLONG;
	if (r)
		return no_folder(arguments, -r);
	*ret_arrival = (struct arrival){.lock = lock};
	snprintf(ret_arrival->image, sizeof ret_arrival->image, "%.*s/image", PATH_MAX - 8, path);
	return 0;
}

void checkpoint_arrival_end(struct arrival *arrival)
{
	if (!*arrival->image)
		return;
	checkpoint_scratch_end(arrival->image);
	close(arrival->lock);
	*arrival->image = '\0';
}

void checkpoint_scratch_end(const char *image)
{
	char folder[PATH_MAX];

	snprintf(folder, sizeof folder, "%.*s", (int)strlen(image) - (int)strlen("/image"), image);
	if (*image)
		rmdir(folder);
}

static void draw(const struct vg_checkpoint_progress *progress)
{
	char done[VG_SIZE_TEXT], total[VG_SIZE_TEXT];

	fprintf(stderr, "\r\033[K%s", vg_checkpoint_phase_name(progress->phase));
	if (progress->bytes) {
		fprintf(stderr, "  %s", vg_size_format(progress->bytes, done));
		if (progress->total)
			fprintf(stderr, " of %s", vg_size_format(progress->total, total));
		if (progress->seconds > 0)
			fprintf(stderr, "  %.2f GB/s", (double)progress->bytes / progress->seconds / 1e9);
	}
	if (progress->seconds >= 1)
		fprintf(stderr, "  %.0f s", progress->seconds);
	fflush(stderr);
	shown = true;
}

int checkpoint_show(void *user, const struct vg_checkpoint_progress *progress)
{
	static enum vg_checkpoint_phase last = VG_CHECKPOINT_PHASES;
	static uint64_t due;
	static bool told;
	uint64_t now = vg_clock_monotonic_ns();

	(void)user;
	if (isatty(STDERR_FILENO) && (progress->phase != last || now >= due)) {
		draw(progress);
		last = progress->phase;
		due = now + REDRAW_NS;
	}
	if (interrupted && !told && progress->phase == VG_CHECKPOINT_HOST_OUT) {
		checkpoint_hide();
		say_warning("CRIU cannot be interrupted: stopping as soon as it has finished");
		told = true;
	}
	return interrupted;
}

void checkpoint_hide(void)
{
	if (shown)
		fputs("\r\033[K", stderr);
	fflush(stderr); // before what is said on stdout
	shown = false;
}

static int print_as_json(const struct vg_checkpoint_result *result)
{
	json_t *seconds = json_object();

	for (int i = 0; i < VG_CHECKPOINT_PHASES; i++)
		if (result->seconds[i] > 0)
			json_object_set_new(seconds, vg_checkpoint_phase_name((enum vg_checkpoint_phase)i),
					    json_real(result->seconds[i]));
	return print_json(json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "pid", (int)result->pid, "processes",
				    (json_int_t)result->processes, "cuda_processes", (json_int_t)result->cuda_processes,
				    "bytes", (json_int_t)result->bytes, "raw_bytes", (json_int_t)result->raw_bytes,
				    "device_bytes", (json_int_t)result->device_bytes, "linked_bytes",
				    (json_int_t)result->linked_bytes, "copied_bytes", (json_int_t)result->copied_bytes,
				    "rounds", (json_int_t)result->rounds, "precopied_bytes",
				    (json_int_t)result->precopied_bytes, "seconds", seconds));
}

void checkpoint_print(const struct arguments *arguments, const struct vg_checkpoint_result *result, const char *what)
{
	char size[VG_SIZE_TEXT];
	double total = 0;

	checkpoint_hide();
	if (option_value(arguments, "json")) {
		print_as_json(result);
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
	checkpoint_hide();
	return fail_with_last_error(arguments);
}
