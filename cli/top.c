// top: executes virgate-top, a separate program, because only it needs a library for terminals.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/parts.h"
#include "options.h"
#include "say.h"
#include "session.h"

enum { MOST_WORDS = 8 };

// Passes the settings to virgate-top as environment variables, because that program reads no configuration files. So it
// connects to the same daemon as the other verbs.
static void export_settings(const struct session *session)
{
	static const enum config_id passed[] = {CONFIG_RUNTIME_DIR, CONFIG_LIBDIR};

	for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
		if (session->config.values[passed[i]])
			setenv(config_rows[passed[i]].variable, session->config.values[passed[i]], 1);
	setenv(config_rows[CONFIG_SIMULATE].variable, session->simulate, 1);
}

static void make_words(const struct session *session, const struct arguments *arguments, const char *words[MOST_WORDS])
{
	const char *start = session->config.values[CONFIG_START];
	int count = 0;

	words[count++] = "virgate-top";
	if (option_value(arguments, "delay")) {
		words[count++] = "--delay";
		words[count++] = option_value(arguments, "delay");
	}
	if (option_value(arguments, "ascii"))
		words[count++] = "--ascii";
	if (option_value(arguments, "no-color"))
		words[count++] = "--no-color";
	if (start && strcmp(start, "no") == 0)
		words[count++] = "--no-start";
	if (arguments->count)
		words[count++] = arguments->words[0];
	words[count] = NULL;
}

static int run_top(const struct arguments *arguments)
{
	const char *words[MOST_WORDS];
	struct session session;
	char path[PATH_MAX];

	int r = session_read_settings(&session, arguments);
	if (r)
		return r;
	export_settings(&session);
	make_words(&session, arguments, words);
	if (!vg_paths_find(VG_PART_TOP, NULL, path)) {
		say_error("virgate-top is not installed beside virgate: it is built only where ncurses is found. "
			  "`virgate ps --watch` shows the same figures");
		return EXIT_FAILED;
	}
	execv(path, (char *const *)words);
	say_error("\"%s\" cannot be executed: %s", path, strerror(errno));
	return EXIT_FAILED;
}

static const struct option options[] = {{"delay", 'd', "SECONDS", "time between two looks, 0.1 to 3600; default: 1", 0},
					{"ascii", 0, NULL, "draw with ASCII characters alone", 0},
					{"no-color", 0, NULL, "draw without colours, as with the variable NO_COLOR", 0},
					OPTION_SIM,
					{0}};

const struct verb verb_top = {
	.name = "top",
	.synopsis = "[NAME] [--delay SECONDS] [--ascii] [--no-color] [--sim]",
	.summary = "Show and change the vGPUs and their programs, on a terminal",
	.details = "With NAME it follows that vGPU alone. The key h shows all keys.\n"
		   "Exit status: 2 if there is no terminal, or its type is unknown.",
	.options = options,
	.most = 1,
	.complete = COMPLETE_VGPU,
	.run = run_top,
};
