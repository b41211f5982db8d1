// Reads the sections [user NAME] and [group NAME], which limit what users may have on this machine.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/suggest.h"
#include "settings/reading.h"

static const struct {
	const char *key;
	enum config_kind kind;
} rows[] = {{"memory", KIND_SIZE}, {"share", KIND_SHARES}, {"vgpus", KIND_COUNT}, {"class", KIND_CLASS}};

// Returns the name in a section "user NAME" or "group NAME"; NULL: the section has another kind.
static const char *find_name(const struct reading *reading, const char *word)
{
	size_t length = strlen(word);
	const char *after = reading->section + length;

	if (strncmp(reading->section, word, length) != 0 || (*after && !isspace((unsigned char)*after)))
		return NULL;
	return after + strspn(after, " \t");
}

bool is_limit_section(const struct reading *reading)
{
	return find_name(reading, "user") || find_name(reading, "group");
}

void begin_limit(struct reading *reading)
{
	struct config *config = reading->config;
	const char *user = find_name(reading, "user"), *name = user ? user : find_name(reading, "group");
	struct config_limit limit = {.is_group = !user, .vgpus = -1};

	if (!*name)
		refuse_line(reading, "[%s] has no name: use [%s NAME]%s", reading->section, user ? "user" : "group",
			    user ? ", or [user *] for all users without a section" : "");
	for (size_t i = 0; i < config->limit_count && !reading->refused; i++)
		if (config->limits[i].is_group == limit.is_group && strcmp(config->limits[i].name, name) == 0)
			refuse_line(reading, "[%s] is there twice: the first is in %s", reading->section,
				    config->limits[i].origin);
	if (reading->refused)
		return;
	struct config_limit *limits = realloc(config->limits, (config->limit_count + 1) * sizeof *limits);
	config->limits = limits ? limits : config->limits;
	limit.name = strdup(name);
	if (!limits || !limit.name || asprintf(&limit.origin, "%s:%d", reading->file, reading->line) < 0) {
		free(limit.name);
		refuse_line(reading, "no memory for [%s]", reading->section);
		return;
	}
	limits[config->limit_count++] = limit;
}

static void set_value(struct config_limit *limit, const char *key, const char *value)
{
	if (strcmp(key, "memory") == 0)
		vg_size_parse(value, &limit->memory);
	else if (strcmp(key, "share") == 0)
		limit->share = (unsigned)atoi(value);
	else if (strcmp(key, "vgpus") == 0)
		limit->vgpus = atoi(value);
	else
		limit->only_batch = strcmp(value, "batch") == 0;
}

void store_limit_value(struct reading *reading, const char *key, const char *value)
{
	struct suggestion keys;

	suggestion_init(&keys, key);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		suggestion_offer(&keys, rows[i].key);
		if (strcmp(rows[i].key, key) != 0)
			continue;
		const char *wrong = *value ? config_check(rows[i].kind, value) : "has no value";
		if (wrong)
			refuse_line(reading, "%s: \"%s\" %s", key, value, wrong);
		else
			set_value(&reading->config->limits[reading->config->limit_count - 1], key, value);
		return;
	}
	if (keys.best)
		refuse_line(reading, "unknown key \"%s\" in [%s]: did you mean \"%s\"?", key, reading->section,
			    keys.best);
	else
		refuse_line(reading, "unknown key \"%s\" in [%s]: there are memory, share, vgpus and class", key,
			    reading->section);
}
