// help [VERB]: the verbs, or one of them in full.
#include "help.h"

#include <string.h>

#include "say.h"

void help_overview(FILE *out)
{
	fputs("usage: virgate VERB [OPTIONS] ...\n\nCuts one NVIDIA GPU into virtual GPUs with a hard memory "
	      "quota.\n\n",
	      out);
	for (int i = 0; verbs[i]; i++)
		if (!verbs[i]->hidden && !verb_family(verbs[i]))
			fprintf(out, "  %-12s%s\n", verbs[i]->name, verbs[i]->summary);
	for (const struct family *family = families; family->name; family++)
		fprintf(out, "  %-12s%s (virgate help %s)\n", family->name, family->summary, family->name);
	fputs("\nA first use:   virgate run --memory 8G -- python train.py\n"
	      "Without a GPU: virgate run --sim --memory 8G -- ./program\n"
	      "One verb:      virgate help VERB, or man virgate-VERB\n",
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
	fprintf(out, "\nOne verb: virgate help %s VERB, or man virgate-%s\n", family->name, family->name);
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
	fprintf(out, "  %-24s%s\n", left, option->help);
}

void help_verb(FILE *out, const struct verb *verb)
{
	fprintf(out, "usage: virgate %s%s%s\n\n%s.\n", verb->name, *verb->synopsis ? " " : "", verb->synopsis,
		verb->summary);
	if (verb->alias)
		fprintf(out, "`virgate %s` means the same.\n", verb->alias);
	if (verb->details)
		fprintf(out, "\n%s\n", verb->details);
	fputc('\n', out);
	for (const struct option *option = verb->options; option && option->name; option++)
		print_option(out, option);
	print_option(out, &(struct option){"help", 'h', NULL, "print this", 0});
}

int refuse_verb(const char *first, const char *second)
{
	const struct family *family = family_find(first);
	const char *nearest = verb_nearest(first, second), *gap = family ? " " : "";

	if (!family)
		second = ""; // it belongs to what is no verb
	if (nearest)
		say_error("there is no verb \"%s%s%s\": did you mean \"%s\"?", first, gap, second, nearest);
	else
		say_error("there is no verb \"%s%s%s\"", first, gap, second);
	fprintf(stderr, "all %s: virgate help%s%s\n", family ? "of its verbs" : "verbs", gap, family ? first : "");
	return EXIT_USAGE;
}

static int run(const struct arguments *arguments)
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
	if (second && !family) {
		say_usage(arguments->verb, "unexpected word \"%s\"", second);
		return EXIT_USAGE;
	}
	if (verb)
		help_verb(stdout, verb);
	else
		help_family(stdout, family);
	return EXIT_OK;
}

const struct verb verb_help = {
	.name = "help",
	.synopsis = "[VERB]",
	.summary = "Explain the verbs, or one of them",
	.most = 2,
	.complete = COMPLETE_VERB,
	.run = run,
};
