#include "verb.h"

#include <string.h>

#include "base/suggest.h"

const struct verb *const verbs[] = {
	&verb_run,
	&verb_create,
	&verb_set,
	&verb_rm,
	&verb_kill,
	&verb_suspend,
	&verb_resume,
	&verb_ps,
	&verb_top,
	&verb_inspect,
	&verb_logs,
	&verb_events,
	&verb_stats,
	&verb_trace,
	&verb_devices,
	&verb_drain,
	&verb_metrics,
	&verb_cdi_generate,
	&verb_cdi_hook,
	&verb_dump,
	&verb_restore,
	&verb_migrate,
	&verb_recover,
	&verb_image_list,
	&verb_image_inspect,
	&verb_image_verify,
	&verb_share_produce,
	&verb_share_consume,
	&verb_share_selftest,
	&verb_share_publish,
	&verb_share_open,
	&verb_share_list,
	&verb_share_revoke,
	&verb_key_create,
	&verb_audit_verify,
	&verb_doctor,
	&verb_shutdown,
	&verb_help,
	&verb_version,
	&verb_completion,
	&verb_complete,
	NULL,
};

// The groups of the table, each with its first verb.
static const struct {
	const struct verb *first;
	const char *heading;
} groups[] = {
	{&verb_run, "Virtual GPUs (vGPUs):"},
	{&verb_dump, "Checkpoint and restore:"},
	{&verb_share_produce, "Shared and sealed memory:"},
	{&verb_doctor, "This machine and this program:"},
};

const char *verb_heading(const struct verb *verb)
{
	for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
		if (groups[i].first == verb)
			return groups[i].heading;
	return NULL;
}

const struct family families[] = {
	{"cdi", "Give vGPUs to containers, by a CDI specification"},
	{"share", "Share device memory between processes"},
	{"key", "Create the key for seals and audit logs"},
	{"image", "List, inspect and verify the images of dumped processes"},
	{"audit", "Verify the audit log of trusted device memory"},
	{0},
};

static bool is_called(const struct verb *verb, const char *word)
{
	return strcmp(verb->name, word) == 0 || (verb->alias && strcmp(verb->alias, word) == 0);
}

const struct family *family_find(const char *name)
{
	for (const struct family *family = families; family->name; family++)
		if (strcmp(family->name, name) == 0)
			return family;
	return NULL;
}

const char *family_word(const struct family *family, const struct verb *verb)
{
	size_t length = strlen(family->name);
	bool own = strncmp(verb->name, family->name, length) == 0 && verb->name[length] == ' ';

	return own ? verb->name + length + 1 : NULL;
}

const struct family *verb_family(const struct verb *verb)
{
	for (const struct family *family = families; family->name; family++)
		if (family_word(family, verb))
			return family;
	return NULL;
}

const struct verb *verb_find(const char *first, const char *second)
{
	const struct family *family = family_find(first);

	for (int i = 0; verbs[i]; i++) {
		const char *word = family ? family_word(family, verbs[i]) : NULL;
		if (word ? second && strcmp(word, second) == 0 : is_called(verbs[i], first))
			return verbs[i];
	}
	return NULL;
}

// Compares the unknown verb also with the second words of two-word verbs, because users forget the first word.
const char *verb_nearest(const char *first, const char *second)
{
	const struct family *family = family_find(first);
	const char *nearest = NULL;
	struct suggestion suggestion;

	if (family && !second)
		return NULL;
	suggestion_init(&suggestion, family ? second : first);
	for (int i = 0; verbs[i]; i++) {
		const struct family *own = verb_family(verbs[i]);
		if (verbs[i]->hidden || (family && own != family))
			continue;
		if (suggestion_offer(&suggestion, own ? family_word(own, verbs[i]) : verbs[i]->name))
			nearest = verbs[i]->name;
		if (verbs[i]->alias && suggestion_offer(&suggestion, verbs[i]->alias))
			nearest = verbs[i]->alias;
	}
	for (const struct family *row = families; row->name && !family; row++)
		if (suggestion_offer(&suggestion, row->name))
			nearest = row->name;
	return nearest;
}
