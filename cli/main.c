// virgate: finds the verb in the table, parses its options, and runs the verb.
#include <stdio.h>
#include <string.h>

#include "help.h"
#include "options.h"
#include "say.h"
#include "verb.h"

// Returns `code`, or `failure` if the verb succeeded but its output could not be written.
static int flush_output(int code, int failure)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	say_error("writing the output failed: %m");
	return code == EXIT_OK ? failure : code;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL;
	struct arguments arguments;

	setvbuf(stderr, NULL, _IOLBF, 0);
	if (!name) {
		help_overview(stderr);
		return EXIT_USAGE;
	}
	if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
		name = "version";
	else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
		name = "help";
	const char *second = argc > 2 ? argv[2] : NULL;
	const struct family *family = family_find(name);
	const struct verb *verb = verb_find(name, second);
	if (family && (!second || strcmp(second, "--help") == 0 || strcmp(second, "-h") == 0)) {
		help_family(second ? stdout : stderr, family);
		return second ? flush_output(EXIT_OK, EXIT_FAILED) : EXIT_USAGE;
	}
	if (!verb)
		return refuse_verb(name, second);
	int words = family ? 3 : 2;
	int r = options_parse(verb, argc - words, argv + words, &arguments);
	if (r == OPTIONS_HELP) {
		help_verb(stdout, verb);
		return flush_output(EXIT_OK, verb_failure_code(verb));
	}
	if (r)
		return r;
	return flush_output(verb->run(&arguments), verb_failure_code(verb));
}
