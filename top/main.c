// virgate-top: reads options, and shows the node until a key or a signal ends it.
#include <errno.h>
#include <getopt.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <virgate/version.h>
#include <virgate/vgpu.h>

#include "top/draw.h"
#include "top/feed.h"
#include "top/keys.h"
#include "top/screen.h"
#include "top/terminal.h"

enum { EXIT_USAGE = 2, TIMEOUT_S = 5 };
static const double shortest = 0.1, longest = 3600;

static const char usage[] = "Usage: virgate-top [--delay SECONDS] [--ascii] [--no-color] [--no-start] [NAME]\n"
			    "The program of `virgate top`, see virgate-top(1).\n";

struct options {
	double delay;
	bool is_ascii, has_colour, may_start;
	const char *followed; // NULL: none
};

// The state of the program's loop.
struct top {
	struct model model;
	struct control control;
	struct feed *feed;
	struct snapshot *shown; // the snapshot whose lists the model uses
	bool is_unicode;
};

static volatile sig_atomic_t is_ended;

static void note_end(int signal)
{
	is_ended = 1;
}

// ---- options ---------------------------------------------------------------------------------------------

static void stop_usage(const char *text, const char *value)
{
	fprintf(stderr, "virgate top: %s%s\n", text, value);
	exit(EXIT_USAGE);
}

static double read_delay(const char *text)
{
	char *end;
	double delay = strtod(text, &end);

	if (!*text || *end || !(delay >= shortest && delay <= longest))
		stop_usage("--delay: give seconds, from 0.1 to 3600, not ", text);
	return delay;
}

static void apply_option(struct options *options, int option)
{
	switch (option) {
	case 'd':
		options->delay = read_delay(optarg);
		break;
	case 'a':
		options->is_ascii = true;
		break;
	case 'c':
		options->has_colour = false;
		break;
	case 's':
		options->may_start = false;
		break;
	case 'v':
		printf("virgate-top %s\n", vg_version());
		exit(0);
	case 'h':
		fputs(usage, stdout);
		exit(0);
	default:
		exit(EXIT_USAGE);
	}
}

static void read_options(int argc, char **argv, struct options *options)
{
	static const struct option known[] = {{"delay", required_argument, NULL, 'd'},
					      {"ascii", no_argument, NULL, 'a'},
					      {"no-color", no_argument, NULL, 'c'},
					      {"no-start", no_argument, NULL, 's'},
					      {"version", no_argument, NULL, 'v'},
					      {"help", no_argument, NULL, 'h'},
					      {0}};
	const char *no_colour = getenv("NO_COLOR");
	int option;

	options->has_colour = !no_colour || !*no_colour;
	while ((option = getopt_long(argc, argv, "d:", known, NULL)) != -1)
		apply_option(options, option);
	if (optind + 1 < argc)
		stop_usage("give the name of one vGPU, not also ", argv[optind + 1]);
	options->followed = argv[optind];
	if (options->followed && strlen(options->followed) >= NAME_TEXT)
		stop_usage("the name is too long: ", options->followed);
}

// ---- the loop --------------------------------------------------------------------------------------------

static void draw(struct top *top)
{
	struct canvas canvas;
	char clock[16] = "";
	time_t now = time(NULL);
	struct tm parts;
	int rows, columns;

	screen_size(&rows, &columns);
	if (canvas_init(&canvas, rows, columns, top->is_unicode))
		return;
	if (localtime_r(&now, &parts))
		strftime(clock, sizeof clock, "%H:%M:%S", &parts);
	draw_screen(&canvas, &top->model, &top->control, clock);
	screen_show(&canvas);
	canvas_finish(&canvas);
	feed_look_at(top->feed, top->model.selected_name);
}

static void take_snapshot(struct top *top)
{
	struct snapshot *snapshot = feed_take(top->feed);

	if (!snapshot)
		return;
	if (!snapshot->vgpus) { // the last figures stay on the screen, and a message says why there are no new ones
		snprintf(top->control.trouble, sizeof top->control.trouble, "%s", snapshot->trouble);
		snapshot_destroy(snapshot);
		return;
	}
	if (*top->control.trouble)
		control_report(&top->control, true, "the daemon answers again");
	*top->control.trouble = '\0';
	top->model.refusals = snapshot->refusals;
	snprintf(top->model.refusals_of, sizeof top->model.refusals_of, "%s", snapshot->refusals_of);
	model_update(&top->model, snapshot->vgpus, snapshot->devices, snapshot->time);
	snapshot_destroy(top->shown);
	top->shown = snapshot;
}

static void take_events(struct top *top)
{
	char text[REQUEST_TEXT];
	bool succeeded;

	take_snapshot(top);
	if (feed_take_report(top->feed, &succeeded, text))
		control_report(&top->control, succeeded, text);
}

// Handles all keys that the user has pressed. Returns whether one of them ends the program.
static bool take_keys(struct top *top)
{
	struct request request;
	uint32_t key;

	while ((key = screen_key()) != KEYS_NONE) {
		if (key == SCREEN_REPAINT)
			screen_repaint();
		enum control_result result = control_key(&top->control, &top->model, key, &request);
		if (result == CONTROL_QUIT)
			return true;
		if (result == CONTROL_REQUEST && !feed_request(top->feed, &request))
			control_report(&top->control, false, "the daemon has not answered the last requests yet");
	}
	return false;
}

static void run_loop(struct top *top, const sigset_t *mask)
{
	struct pollfd polled[] = {{.fd = STDIN_FILENO, .events = POLLIN},
				  {.fd = feed_descriptor(top->feed), .events = POLLIN}};

	while (!is_ended) {
		draw(top);
		int count = ppoll(polled, 2, NULL, mask);
		if (count < 0 && errno != EINTR)
			break;
		if (count > 0 && polled[0].revents & (POLLHUP | POLLERR | POLLNVAL))
			break; // the terminal was closed
		if (count > 0 && polled[1].revents)
			take_events(top);
		if (take_keys(top))
			break;
	}
}

// ---- start -----------------------------------------------------------------------------------------------

// Blocks the signals that end or interrupt the loop, so that they arrive only while the loop waits. The feed's threads
// inherit the mask, and never receive these signals.
static void block_signals(sigset_t *ret_mask)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP};
	sigset_t blocked;

	sigemptyset(&blocked);
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		sigaddset(&blocked, signals[i]);
	sigprocmask(SIG_BLOCK, &blocked, ret_mask);
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		sigdelset(ret_mask, signals[i]);
}

static void catch_end(void)
{
	const struct sigaction action = {.sa_handler = note_end};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	sigaction(SIGQUIT, &action, NULL);
}

// Opens the connection to the daemon. Only the first request may start a daemon: otherwise a later one would start it
// again after its shutdown.
static struct vg_node *open_node(const struct options *options)
{
	struct vg_node_options node_options = {.size = sizeof node_options, .no_start = !options->may_start};
	struct vg_node *node;

	enum vg_status status = vg_node_open(&node_options, &node);
	if (status == VG_OK) {
		status = vg_node_ping(node);
		if (status)
			fprintf(stderr, "virgate top: %s\n", vg_last_error()->text);
		vg_node_close(node);
	} else {
		fprintf(stderr, "virgate top: %s\n", vg_last_error()->text);
	}
	if (status)
		return NULL;
	node_options.no_start = 1;
	node_options.timeout = TIMEOUT_S;
	return vg_node_open(&node_options, &node) ? NULL : node;
}

static int show(const struct options *options, struct vg_node *node)
{
	struct top top = {.is_unicode = !options->is_ascii && strcmp(nl_langinfo(CODESET), "UTF-8") == 0};
	sigset_t mask;

	block_signals(&mask);
	top.feed = feed_start(node, options->delay);
	if (!top.feed) {
		fprintf(stderr, "virgate top: no memory or threads are left\n");
		return EXIT_FAILURE;
	}
	model_init(&top.model, options->delay);
	top.model.sort = SORT_MEMORY;
	if (options->followed)
		snprintf(top.model.followed, sizeof top.model.followed, "%s", options->followed);
	screen_open(options->has_colour);
	catch_end();
	run_loop(&top, &mask);
	screen_close();
	if (!feed_stop(top.feed))
		_exit(EXIT_SUCCESS); // a thread still waits for the daemon and uses the memory, so free nothing
	model_finish(&top.model);
	snapshot_destroy(top.shown);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct options options = {.delay = 1, .may_start = true};

	setlocale(LC_CTYPE, "");
	read_options(argc, argv, &options);
	const char *wrong = terminal_check();
	if (wrong) {
		fprintf(stderr, "virgate top: %s\n", wrong);
		return EXIT_USAGE;
	}
	struct vg_node *node = open_node(&options);
	if (!node)
		return EXIT_FAILURE;
	int r = show(&options, node);
	vg_node_close(node);
	return r;
}
