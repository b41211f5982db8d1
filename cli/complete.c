// complete -- WORD... CURRENT: prints the candidates for the last word of a command line, for the completion scripts of
// the shells. Each line is a candidate, a tab and its description; or an instruction to the script:
//   :files        complete the names of files
//   :commands     complete the names of programs and files
//   :arguments N  complete the command line that begins with word N (from 0)
// bash passes "--option=value" as three words and expects the value alone; the other shells pass and expect one word.
// Never starts a daemon, because pressing a key must not.
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "options.h"
#include "session.h"
#include "virgate/broker.h"

struct line {
	char **words;
	int *origins;	     // for each word, its index among the words that bash passed, some of which were joined
	int count;	     // number of words, without the current word
	const char *current; // the typed part of the current word, or of the value after its "="
	bool split;	     // bash passed the value as a separate word, without "--option="
	int lead_length;     // length of `lead`, the "--option=" before the value
	const char *lead;
	const char *simulation;	      // the value of --sim; NULL: not given
	bool options_end;	      // the word "--" was read, so no more options follow
	int positional;		      // words that are neither options nor their values
	int program;		      // index of the word that names the program to run; -1: none so far
	const struct option *pending; // option whose value is the current word; NULL: the current word is no value
};

static void offer_candidate(const struct line *line, const char *candidate, const char *text)
{
	char word[PATH_MAX], shown[256];

	snprintf(word, sizeof word, "%s", candidate);
	snprintf(shown, sizeof shown, "%s", text ? text : "");
	// Leave out candidates with control characters: a printable replacement would be a different name.
	if (strncmp(candidate, line->current, strlen(line->current)) == 0 &&
	    strcmp(vg_make_printable(word), candidate) == 0)
		printf("%.*s%s%s%s\n", line->lead_length, line->lead, word, *shown ? "\t" : "",
		       vg_make_printable(shown));
}

// ---- candidates from the daemon -------------------------------------------------------------------------

static void offer_vgpus(struct vg_node *node, const struct line *line)
{
	struct vg_vgpu_list *list;

	if (vg_vgpu_list(node, &list))
		return;
	for (size_t i = 0; i < list->count; i++)
		offer_candidate(line, list->vgpus[i].name, NULL);
	vg_vgpu_list_free(list);
}

static void offer_devices(struct vg_node *node, const struct line *line)
{
	struct vg_device_list *list;
	char index[16];

	if (vg_device_list(node, &list))
		return;
	for (size_t i = 0; i < list->count; i++) {
		snprintf(index, sizeof index, "%d", list->devices[i].index);
		offer_candidate(line, index, list->devices[i].name);
		offer_candidate(line, list->devices[i].uuid, list->devices[i].name);
	}
	vg_device_list_free(list);
}

static void offer_publications(struct vg_node *node, const struct line *line)
{
	struct vg_publication_list *list;

	if (vg_publication_list(node, &list))
		return;
	for (size_t i = 0; i < list->count; i++)
		if (i == 0 || strcmp(list->publications[i].name, list->publications[i - 1].name) != 0)
			offer_candidate(line, list->publications[i].name, NULL);
	vg_publication_list_free(list);
}

static void ask_daemon(const struct line *line, void (*offer_all)(struct vg_node *node, const struct line *line))
{
	// The verb `complete` has only one option, --sim, so its value is the first one.
	const struct arguments arguments = {.verb = &verb_complete, .values = {line->simulation}};
	struct session session;

	if (session_open_quietly(&session, &arguments))
		return;
	offer_all(session.node, line);
	session_close(&session);
}

// ---- candidates from the settings -----------------------------------------------------------------------

static void offer_profiles(const struct line *line)
{
	const struct arguments arguments = {.verb = &verb_complete};
	struct session session;

	if (session_read_settings(&session, &arguments))
		return;
	for (size_t i = 0; i < session.config.profile_count; i++)
		offer_candidate(line, session.config.profiles[i].name, session.config.profiles[i].origin);
	session_close(&session);
}

// ---- candidates from the verb table ---------------------------------------------------------------------

static void offer_verbs(const struct line *line)
{
	for (int i = 0; verbs[i]; i++) {
		if (verbs[i]->hidden || verb_family(verbs[i]))
			continue;
		offer_candidate(line, verbs[i]->name, verbs[i]->summary);
		if (verbs[i]->alias)
			offer_candidate(line, verbs[i]->alias, verbs[i]->summary);
	}
	for (const struct family *family = families; family->name; family++)
		offer_candidate(line, family->name, family->summary);
}

static void offer_family(const struct line *line, const struct family *family)
{
	for (int i = 0; verbs[i]; i++)
		if (family_word(family, verbs[i]) && !verbs[i]->hidden)
			offer_candidate(line, family_word(family, verbs[i]), verbs[i]->summary);
}

static void offer_signals(const struct line *line)
{
	for (int signal = 1; signal < NSIG; signal++)
		if (sigabbrev_np(signal))
			offer_candidate(line, sigabbrev_np(signal), NULL);
}

static void offer_options(const struct line *line, const struct verb *verb)
{
	char text[64];

	for (const struct option *option = verb->options; option && option->name; option++) {
		snprintf(text, sizeof text, "--%s", option->name);
		offer_candidate(line, text, option->help);
	}
	offer_candidate(line, "--help", "print help");
}

static void offer_kind(const struct line *line, enum complete complete)
{
	switch (complete) {
	case COMPLETE_VGPU:
		ask_daemon(line, offer_vgpus);
		break;
	case COMPLETE_DEVICE:
		ask_daemon(line, offer_devices);
		break;
	case COMPLETE_PROFILE:
		offer_profiles(line);
		break;
	case COMPLETE_PUBLICATION:
		ask_daemon(line, offer_publications);
		break;
	case COMPLETE_SIGNAL:
		offer_signals(line);
		break;
	case COMPLETE_CLASS:
		offer_candidate(line, "batch", NULL);
		offer_candidate(line, "latency", NULL);
		break;
	case COMPLETE_MODE:
		offer_candidate(line, "mps", NULL);
		offer_candidate(line, "time", NULL);
		break;
	case COMPLETE_SHELL:
		offer_candidate(line, "bash", NULL);
		offer_candidate(line, "fish", NULL);
		offer_candidate(line, "zsh", NULL);
		break;
	case COMPLETE_FILE:
		puts(":files");
		break;
	case COMPLETE_VERB:
		offer_verbs(line);
		break;
	case COMPLETE_COMMAND:
		puts(":commands");
		break;
	case COMPLETE_NOTHING:
		break;
	}
}

// ---- the command line -----------------------------------------------------------------------------------

// Joins the words "--option", "=" and "value" into one. Returns false if there is no memory, or no words.
static bool join_words(struct line *line, char *const *words, int count)
{
	bool behind_equals = false;
	int last = -1;

	line->words = calloc((size_t)count, sizeof *line->words);
	line->origins = calloc((size_t)count, sizeof *line->origins);
	for (int i = 0; line->words && line->origins && i < count; i++) {
		bool is_equals = strcmp(words[i], "=") == 0;
		bool has_option = last >= 0 && strncmp(line->words[last], "--", 2) == 0;
		char *before = (is_equals || behind_equals) && has_option ? line->words[last] : NULL;
		if (!before)
			line->origins[++last] = i;
		if (asprintf(&line->words[last], "%s%s", before ? before : "", words[i]) < 0)
			line->words[last] = NULL;
		free(before);
		if (!line->words[last])
			return false;
		line->split = before != NULL;
		behind_equals = is_equals;
	}
	if (last < 0)
		return false;
	line->count = last;
	line->current = line->words[last];
	return true;
}

static bool is_option(const struct line *line, const char *word)
{
	return !line->options_end && word[0] == '-' && word[1];
}

// Reads the option at index `at`. Returns the index of the next word.
static int read_option(struct line *line, const struct verb *verb, int at)
{
	const char *value;
	int row = option_find(verb, line->words[at], &value);
	const struct option *option = row < 0 ? NULL : &verb->options[row];

	if (option && strcmp(option->name, "sim") == 0)
		line->simulation = value ? value : "";
	if (!option || !option->argument || *option->argument == '[' || value)
		return at + 1;
	if (at + 1 == line->count)
		line->pending = option;
	return at + 2;
}

// Recognizes the current word as "--option=value", so that the value is completed.
static void read_joined_option(struct line *line, const struct verb *verb)
{
	const char *value;
	int row = is_option(line, line->current) ? option_find(verb, line->current, &value) : -1;

	if (row < 0 || !value || line->current[1] != '-')
		return;
	line->pending = &verb->options[row];
	line->lead = line->current;
	line->lead_length = line->split ? 0 : (int)(value - line->current);
	line->current = value;
}

static void read_words(struct line *line, const struct verb *verb, int first)
{
	for (int at = first; at < line->count && line->program < 0;) {
		const char *word = line->words[at];
		if (!line->options_end && strcmp(word, "--") == 0) {
			line->options_end = true;
			at++;
		} else if (is_option(line, word)) {
			at = read_option(line, verb, at);
		} else {
			line->positional++;
			if (verb->command)
				line->program = line->origins[at];
			at++;
		}
	}
	if (!line->pending && line->program < 0)
		read_joined_option(line, verb);
}

static void complete_verb(struct line *line, const struct verb *verb, int first)
{
	read_words(line, verb, first);
	if (line->program >= 0)
		printf(":arguments %d\n", line->program);
	else if (line->pending)
		offer_kind(line, line->pending->complete);
	else if (line->current[0] == '-' && !line->options_end)
		offer_options(line, verb);
	else if (verb->most < 0 || line->positional < verb->most)
		offer_kind(line, verb->complete);
}

static void complete_help(const struct line *line)
{
	const struct family *family = line->count == 2 ? family_find(line->words[1]) : NULL;

	if (line->count == 1)
		offer_verbs(line);
	else if (family)
		offer_family(line, family);
}

static void complete_line(struct line *line)
{
	const char *second = line->count > 1 ? line->words[1] : NULL;
	const struct family *family = line->count ? family_find(line->words[0]) : NULL;
	const struct verb *verb = line->count ? verb_find(line->words[0], second) : NULL;
	bool dash = line->current[0] == '-';

	if (verb == &verb_help && !dash) {
		complete_help(line);
	} else if (verb) {
		complete_verb(line, verb, family ? 2 : 1);
	} else if (line->count == (family ? 1 : 0)) {
		if (dash)
			offer_candidate(line, "--help", "print help");
		if (dash && !family)
			offer_candidate(line, "--version", "print the version");
		if (family)
			offer_family(line, family);
		else
			offer_verbs(line);
	}
}

static int run_complete(const struct arguments *arguments)
{
	struct line line = {.lead = "", .program = -1};

	bool joined = join_words(&line, arguments->words, arguments->count);
	if (joined)
		complete_line(&line);
	for (int i = 0; line.words && i < arguments->count; i++)
		free(line.words[i]);
	free(line.words);
	free(line.origins);
	return joined ? EXIT_OK : EXIT_FAILED;
}

static const struct option options[] = {OPTION_SIM, {0}};

const struct verb verb_complete = {
	.name = "complete",
	.synopsis = "[--sim] -- WORD... CURRENT",
	.summary = "Print what a command line may go on with, for the completion scripts",
	.options = options,
	.least = 1,
	.most = -1,
	.hidden = true,
	.run = run_complete,
};
