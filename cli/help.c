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
		if (!verbs[i]->hidden)
			fprintf(out, "  %-12s%s\n", verbs[i]->name, verbs[i]->summary);
	fputs("\nA first use:   virgate run --memory 8G -- python train.py\n"
	      "Without a GPU: virgate run --sim --memory 8G -- ./program\n"
	      "One verb:      virgate help VERB, or man virgate-VERB\n",
	      out);
}

static void print_option(FILE *out, const struct option *option)
{
	char left[64], letter[8] = "    ";
	const char *argument = option->argument ? option->argument : "";

	if (option->letter)
		snprintf(letter, sizeof letter, "-%c, ", option->letter);
	if (*argument == '[')
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
	if (verb->details)
		fprintf(out, "\n%s\n", verb->details);
	fputc('\n', out);
	for (const struct option *option = verb->options; option && option->name; option++)
		print_option(out, option);
	print_option(out, &(struct option){"help", 'h', NULL, "print this", 0});
}

static int run(const struct arguments *arguments)
{
	if (arguments->count == 0) {
		help_overview(stdout);
		return EXIT_OK;
	}
	const struct verb *verb = verb_find(arguments->words[0]), *nearest = verb_nearest(arguments->words[0]);
	if (verb) {
		help_verb(stdout, verb);
		return EXIT_OK;
	}
	if (nearest)
		say_error("there is no verb \"%s\": did you mean \"%s\"?", arguments->words[0], nearest->name);
	else
		say_error("there is no verb \"%s\": virgate help lists them", arguments->words[0]);
	return EXIT_USAGE;
}

const struct verb verb_help = {
	.name = "help",
	.synopsis = "[VERB]",
	.summary = "Explain the verbs, or one of them",
	.most = 1,
	.complete = COMPLETE_VERB,
	.run = run,
};
