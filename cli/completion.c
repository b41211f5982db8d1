// completion SHELL: prints the completion script of a shell, which calls `virgate complete`.
#include <stdio.h>
#include <string.h>

#include "completion_bash.h"
#include "completion_fish.h"
#include "completion_zsh.h"
#include "say.h"

static const struct {
	const char *shell;
	const unsigned char *script;
} scripts[] = {{"bash", completion_bash}, {"zsh", completion_zsh}, {"fish", completion_fish}};

static int run_completion(const struct arguments *arguments)
{
	const char *shell = arguments->count ? arguments->words[0] : "";

	for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
		if (strcmp(shell, scripts[i].shell) == 0) {
			fputs((const char *)scripts[i].script, stdout);
			return EXIT_OK;
		}
	if (*shell)
		say_usage(arguments->verb, "there is no completion for \"%s\": give bash, zsh or fish", shell);
	else
		say_usage(arguments->verb, "for which shell? give bash, zsh or fish");
	return EXIT_USAGE;
}

const struct verb verb_completion = {
	.name = "completion",
	.synopsis = "bash|zsh|fish",
	.summary = "Print the completion script for a shell",
	.details = "For one shell: source <(virgate completion bash); in fish: virgate completion fish | source",
	.most = 1,
	.complete = COMPLETE_SHELL,
	.run = run_completion,
};
