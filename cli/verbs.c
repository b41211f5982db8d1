#include "verb.h"

#include <string.h>

#include "suggest.h"

const struct verb *const verbs[] = {
	&verb_run,
	&verb_create,
	&verb_set,
	&verb_rm,
	&verb_ps,
	&verb_inspect,
	&verb_devices,
	&verb_logs,
	&verb_shutdown,
	&verb_help,
	&verb_version,
	&verb_completion,
	&verb_complete,
	NULL,
};

const struct verb *verb_find(const char *name)
{
	for (int i = 0; verbs[i]; i++)
		if (strcmp(verbs[i]->name, name) == 0)
			return verbs[i];
	return NULL;
}

const struct verb *verb_nearest(const char *name)
{
	struct suggestion suggestion;

	suggestion_init(&suggestion, name);
	for (int i = 0; verbs[i]; i++)
		if (!verbs[i]->hidden)
			suggestion_offer(&suggestion, verbs[i]->name);
	return suggestion.best ? verb_find(suggestion.best) : NULL;
}
