#include "options.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "say.h"
#include "base/suggest.h"

static int option_count(const struct verb *verb)
{
	int count = 0;

	while (verb->options && verb->options[count].name)
		count++;
	assert(count <= MAX_OPTIONS);
	return count;
}

static int refuse_unknown(const struct verb *verb, const char *word, const char *name)
{
	struct suggestion suggestion;

	suggestion_init(&suggestion, name);
	for (int i = 0; i < option_count(verb); i++)
		suggestion_offer(&suggestion, verb->options[i].name);
	if (suggestion.best)
		say_usage(verb, "unknown option %s: did you mean --%s?", word, suggestion.best);
	else
		say_usage(verb, "unknown option %s", word);
	return verb_usage_code(verb);
}

int option_find(const struct verb *verb, const char *word, const char **ret_value)
{
	const char *value = NULL;
	int found = -1;

	for (int i = 0; i < option_count(verb) && found < 0; i++) {
		const struct option *option = &verb->options[i];
		size_t length = strlen(option->name);
		if (word[1] != '-') {
			if (option->letter && word[1] == option->letter) {
				found = i;
				value = word[2] ? word + 2 : NULL;
			}
		} else if (strncmp(word + 2, option->name, length) == 0 &&
			   (word[2 + length] == '\0' || word[2 + length] == '=')) {
			found = i;
			value = word[2 + length] ? word + 3 + length : NULL;
		}
	}
	*ret_value = value;
	return found;
}

static bool is_number(const char *word)
{
	return *word && word[strspn(word, "0123456789")] == '\0';
}

// Reads the option at argv[0]. Returns how many words the option takes, or -1 after a message.
static int read_option(const struct verb *verb, char **argv, struct arguments *arguments)
{
	const char *value;
	int row = option_find(verb, argv[0], &value), taken = 1;

	if (row < 0) {
		char name[64];
		snprintf(name, sizeof name, "%.*s", (int)strcspn(argv[0] + strspn(argv[0], "-"), "="),
			 argv[0] + strspn(argv[0], "-"));
		refuse_unknown(verb, argv[0], name);
		return -1;
	}
	const struct option *option = &verb->options[row];
	if (arguments->values[row] && (!option->again || arguments->again_count == MAX_AGAIN)) {
		say_usage(verb, option->again ? "--%s is given too often" : "--%s is given twice", option->name);
		return -1;
	}
	if (!option->argument && value) {
		say_usage(verb, "--%s takes no value, but %s gives it one", option->name, argv[0]);
		return -1;
	}
	if (option->argument && option->argument[0] != '[' && !value) {
		value = argv[taken++];
		if (!value || strcmp(value, "--") == 0) {
			say_usage(verb, "--%s needs a value: --%s %s", option->name, option->name, option->argument);
			return -1;
		}
	}
	if (option->number && !value && argv[1] && is_number(argv[1]))
		value = argv[taken++];
	if (arguments->values[row]) {
		arguments->again[arguments->again_count].row = row;
		arguments->again[arguments->again_count++].value = value;
	} else {
		arguments->values[row] = value ? value : "";
	}
	return taken;
}

static int check_count(const struct arguments *arguments)
{
	const struct verb *verb = arguments->verb;

	if (arguments->count < verb->least) {
		bool file = strncmp(verb->synopsis, "FILE", 4) == 0;
		const char *missing = verb->command ? "the command to run" : file ? "a file" : "a name";
		return say_usage(verb, "%s is missing", missing);
	}
	if (verb->most >= 0 && arguments->count > verb->most)
		return say_usage(verb, "unexpected word \"%s\"", arguments->words[verb->most]);
	return 0;
}

int options_parse(const struct verb *verb, int argc, char **argv, struct arguments *ret_arguments)
{
	struct arguments arguments = {.verb = verb, .words = argv};
	bool options_end = false;

	// Move the words that are not options to the front of argv: options may follow them.
	for (int i = 0; i < argc;) {
		char *word = argv[i];
		if (!options_end && strcmp(word, "--") == 0) {
			options_end = true;
			i++;
		} else if (!options_end && word[0] == '-' && word[1]) {
			if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
				return OPTIONS_HELP;
			int taken = read_option(verb, argv + i, &arguments);
			if (taken < 0)
				return verb_usage_code(verb);
			i += taken;
		} else {
			arguments.words[arguments.count++] = word;
			options_end |= verb->command;
			i++;
		}
	}
	arguments.words[arguments.count] = NULL;
	int r = check_count(&arguments);
	if (r)
		return r;
	*ret_arguments = arguments;
	return 0;
}

static int find_row(const struct verb *verb, const char *name)
{
	for (int i = 0; i < option_count(verb); i++)
		if (strcmp(verb->options[i].name, name) == 0)
			return i;
	assert(!"the verb has that option in its table");
	return 0;
}

const char *option_value(const struct arguments *arguments, const char *name)
{
	return arguments->values[find_row(arguments->verb, name)];
}

const char *option_value_again(const struct arguments *arguments, const char *name, int at)
{
	int row = find_row(arguments->verb, name);

	if (at == 0)
		return arguments->values[row];
	for (int i = 0; i < arguments->again_count; i++)
		if (arguments->again[i].row == row && --at == 0)
			return arguments->again[i].value;
	return NULL;
}
