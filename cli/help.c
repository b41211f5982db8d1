// help [VERB]: lists the verbs, or explains one of them.
#include "help.h"

#include <string.h>

#include "say.h"

enum { SCREEN = 80, OPTION = 26 }; // columns of the screen; the column in which the help of an option begins

// Prints the verbs in the order of the table, under the headings of their groups. A family of verbs has one line.
void help_overview(FILE *out)
{
	const struct family *last = NULL;

	fputs("usage: virgate VERB [OPTIONS] ...\n\n", out);
	for (int i = 0; verbs[i]; i++) {
		const struct family *family = verb_family(verbs[i]);
		const char *heading = verb_heading(verbs[i]);
		if (verbs[i]->hidden || (family && family == last))
			continue;
		if (heading)
			fprintf(out, "%s\n", heading);
		fprintf(out, "  %-12s%s\n", family ? family->name : verbs[i]->name,
			family ? family->summary : verbs[i]->summary);
		last = family;
	}
	fputs("\nA first use: virgate run --memory 8G -- python train.py (no GPU: run --sim)\n"
	      "More:        virgate help VERB, or man virgate-VERB\n",
	      out);
}

void help_family(FILE *out, const struct family *family)
{
	fprintf(out, "usage: virgate %s VERB [OPTIONS] ...\n\n%s.\n\n", family->name, family->summary);
	for (int i = 0; verbs[i]; i++) {
		const char *word = family_word(family, verbs[i]);
		if (word && !verbs[i]->hidden)
			fprintf(out, "  %-12s%s\n", word, verbs[i]->summary);
	}
	fprintf(out, "\nMore: virgate help %s VERB, or man virgate-%s\n", family->name, family->name);
}

// Breaks lines between words at the width of the screen. Every line begins in column `indent`.
static void print_wrapped(FILE *out, const char *text, int indent)
{
	int column = indent;

	while (*text) {
		int length = (int)strcspn(text, " \n");
		if (column > indent && column + 1 + length > SCREEN)
			column = fprintf(out, "\n%*s", indent, "") - 1;
		else if (column > indent)
			column += fprintf(out, " ");
		column += fprintf(out, "%.*s", length, text);
		text += length;
		text += strspn(text, " \n");
	}
	fputc('\n', out);
}

static void print_option(FILE *out, const struct option *option)
{
	char left[64], letter[8] = "    ";
	const char *argument = option->argument ? option->argument : "";

	if (option->letter)
		snprintf(letter, sizeof letter, "-%c, ", option->letter);
	if (*argument == '[' && !option->number)
		snprintf(left, sizeof left, "%s--%s[=%.*s]", letter, option->name, (int)strlen(argument) - 2,
			 argument + 1);
	else
		snprintf(left, sizeof left, "%s--%s%s%s", letter, option->name, *argument ? " " : "", argument);
	fprintf(out, "  %-*s", OPTION - 2, left);
	if (strlen(left) >= OPTION - 2)
		fprintf(out, "\n%*s", OPTION, "");
	print_wrapped(out, option->help, OPTION);
}

void help_verb(FILE *out, const struct verb *verb)
{
	fprintf(out, "usage: virgate %s%s%s\n\n%s.\n", verb->name, *verb->synopsis ? " " : "", verb->synopsis,
		verb->summary);
	if (verb->alias)
		fprintf(out, "`virgate %s` means the same.\n", verb->alias);
	if (verb->details) {
		fputc('\n', out);
		print_wrapped(out, verb->details, 0);
	}
	fputc('\n', out);
	for (const struct option *option = verb->options; option && option->name; option++)
		print_option(out, option);
	print_option(out, &(struct option){"help", 'h', NULL, "print this help", 0});
}

int refuse_verb(const char *first, const char *second)
{
	const struct family *family = family_find(first);
	const char *nearest = verb_nearest(first, second), *gap = family ? " " : "";

	if (!family)
		second = ""; // no verb of two words begins with `first`, so the message names only that
	if (nearest)
		say_error("unknown verb \"%s%s%s\": did you mean \"%s\"?", first, gap, second, nearest);
	else
		say_error("unknown verb \"%s%s%s\"", first, gap, second);
	fprintf(stderr, "more:  virgate help%s%s\n", gap, family ? first : "");
	return EXIT_USAGE;
}

static int run_help(const struct arguments *arguments)
{
	if (arguments->count == 0) {
		help_overview(stdout);
		return EXIT_OK;
	}
	const char *first = arguments->words[0], *second = arguments->words[1];
	const struct family *family = family_find(first);
	const struct verb *verb = verb_find(first, second);
	if (!verb && !(family && !second))
		return refuse_verb(first, second);
	if (second && !family)
		return say_usage(arguments->verb, "unexpected word \"%s\"", second);
	if (verb)
		help_verb(stdout, verb);
	else
		help_family(stdout, family);
	return EXIT_OK;
}

const struct verb verb_help = {
	.name = "help",
	.synopsis = "[VERB]",
	.summary = "List the verbs, or explain one of them",
	.most = 2,
	.complete = COMPLETE_VERB,
	.run = run_help,
};
