// completion: a bash completion script, made from the verb table.
#include <stdio.h>

#include "verb.h"

static const char opening[] =
	"# bash completion for virgate, made by `virgate completion`.\n"
	"_virgate()\n{\n"
	"\tlocal current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]}\n"
	"\tlocal options= words= values= taken= i simulated= takes= own= first=2\n"
	"\tCOMPREPLY=()\n"
	"\t[[ $current != '=' ]] || current=\n" // bash parts words there
	"\t[[ $previous != '=' ]] || previous=${COMP_WORDS[COMP_CWORD-2]}\n"
	"\tfor ((i = 2; i < COMP_CWORD; i++)); do\n"
	"\t\tcase ${COMP_WORDS[i]} in --sim|--sim=*) simulated=${COMP_WORDS[i]} ;; esac\n"
	"\tdone\n";

static const char closing[] =
	// Behind the first word that is neither an option nor the value of one begins a program's line.
	"\tif [[ $values == command ]]; then\n"
	"\t\tfor ((i = first; i < COMP_CWORD; i++)); do\n"
	"\t\t\tcase ${COMP_WORDS[i]} in\n"
	"\t\t\t--) i=$((i + 1)); break ;;\n"
	"\t\t\t=) i=$((i + 1)) ;;\n"
	"\t\t\t-*)\n"
	"\t\t\t\tif [[ ${COMP_WORDS[i+1]} == '=' ]]; then i=$((i + 2))\n"
	"\t\t\t\telif [[ $takes == *\" ${COMP_WORDS[i]} \"* ]]; then i=$((i + 1)); fi ;;\n"
	"\t\t\t*) break ;;\n"
	"\t\t\tesac\n"
	"\t\tdone\n"
	"\t\tif ((i < COMP_CWORD)); then\n"
	"\t\t\tCOMPREPLY=($(compgen -f -- \"$current\"))\n"
	"\t\t\treturn\n"
	"\t\tfi\n"
	"\tfi\n"
	"\tif [[ -z $taken && $current == -* ]]; then\n"
	"\t\tCOMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
	"\t\treturn\n"
	"\tfi\n"
	"\tcase $values in\n"
	"\tvgpu|device|publication|signal) words=$(virgate complete \"$values\" $simulated 2>/dev/null) ;;\n"
	"\tfile) COMPREPLY=($(compgen -f -- \"$current\")) ;;\n"
	"\tverb) words=${own:-$verbs} ;;\n"
	"\tcommand) COMPREPLY=($(compgen -c -- \"$current\") $(compgen -f -- \"$current\")) ;;\n"
	"\tvalue) return ;;\n"
	"\tesac\n"
	"\t[[ -z $words ]] || COMPREPLY+=($(compgen -W \"$words\" -- \"$current\"))\n"
	"}\n"
	"complete -F _virgate virgate\n";

// The words that `values` of the script may take.
static const char *kind(enum complete complete)
{
	switch (complete) {
	case COMPLETE_VGPU:
		return "vgpu";
	case COMPLETE_DEVICE:
		return "device";
	case COMPLETE_PUBLICATION:
		return "publication";
	case COMPLETE_SIGNAL:
		return "signal";
	case COMPLETE_FILE:
		return "file";
	case COMPLETE_VERB:
		return "verb";
	case COMPLETE_COMMAND:
		return "command";
	case COMPLETE_NOTHING:
		break;
	}
	return "value";
}

// The families, and what their verbs are called.
static void print_families(void)
{
	printf("\tlocal family=$verb\n"
	       "\t[[ $verb != help ]] || family=$previous\n"
	       "\tcase $family in\n");
	for (const struct family *family = families; family->name; family++) {
		printf("\t%s) own='", family->name);
		for (int i = 0; verbs[i]; i++) {
			const char *own = verbs[i]->hidden ? NULL : family_word(family, verbs[i]);
			if (own)
				printf("%s ", own);
		}
		printf("' ;;\n");
	}
	printf("\tesac\n"
	       "\tif [[ -n $own && $verb != help ]]; then\n"
	       "\t\tif ((COMP_CWORD == 2)); then\n"
	       "\t\t\tCOMPREPLY=($(compgen -W \"$own --help\" -- \"$current\"))\n\t\t\treturn\n\t\tfi\n"
	       "\t\tverb=\"$verb ${COMP_WORDS[2]}\" first=3\n"
	       "\tfi\n");
}

static void print_verb(const struct verb *verb)
{
	printf("\t'%s'", verb->name);
	if (verb->alias)
		printf("|'%s'", verb->alias);
	printf(")\n\t\toptions='--help");
	for (const struct option *option = verb->options; option && option->name; option++)
		printf(" --%s", option->name);
	printf("'\n");
	printf("\t\tvalues=%s\n", kind(verb->complete));
	if (verb->command) {
		printf("\t\ttakes=' ");
		for (const struct option *option = verb->options; option && option->name; option++)
			if (option->argument && option->argument[0] != '[') {
				printf("--%s ", option->name);
				if (option->letter)
					printf("-%c ", option->letter);
			}
		printf("'\n");
	}
	printf("\t\tcase $previous in\n");
	for (const struct option *option = verb->options; option && option->name; option++) {
		if (!option->argument || option->argument[0] == '[')
			continue;
		printf("\t\t--%s", option->name);
		if (option->letter)
			printf("|-%c", option->letter);
		printf(") values=%s taken=1 ;;\n", kind(option->complete));
	}
	printf("\t\tesac ;;\n");
}

static int run(const struct arguments *arguments)
{
	fputs(opening, stdout);
	printf("\tlocal verbs='");
	for (int i = 0; verbs[i]; i++) {
		if (!verbs[i]->hidden && !verb_family(verbs[i]))
			printf("%s ", verbs[i]->name);
		if (verbs[i]->alias)
			printf("%s ", verbs[i]->alias);
	}
	for (const struct family *family = families; family->name; family++)
		printf("%s ", family->name);
	printf("'\n\tif ((COMP_CWORD == 1)); then\n"
	       "\t\tCOMPREPLY=($(compgen -W \"$verbs --help --version\" -- \"$current\"))\n\t\treturn\n\tfi\n");
	print_families();
	printf("\tcase $verb in\n");
	for (int i = 0; verbs[i]; i++)
		if (!verbs[i]->hidden)
			print_verb(verbs[i]);
	printf("\tesac\n");
	fputs(closing, stdout);
	return EXIT_OK;
}

const struct verb verb_completion = {
	.name = "completion",
	.synopsis = "",
	.summary = "Print the completion script for bash",
	.details = "For one shell: source <(virgate completion)",
	.run = run,
};
