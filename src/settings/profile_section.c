// Reads the sections [profile NAME].
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/suggest.h"
#include "settings/reading.h"

static const char section_word[] = "profile";

enum { LONGEST_NAME = 63 };

enum profile_key {
	KEY_MEMORY,
	KEY_SHARE,
	KEY_LIMIT,
	KEY_CLASS,
	KEY_SHARING,
	KEY_EVICTABLE,
	KEY_SWAP,
	KEY_FIXED,
	KEY_IDLE_SUSPEND,
	PROFILE_KEYS
};

static const struct {
	const char *key;
	enum config_kind kind;
} rows[PROFILE_KEYS] = {
	[KEY_MEMORY] = {"memory", KIND_SIZE},
	[KEY_SHARE] = {"share", KIND_SHARE},
	[KEY_LIMIT] = {"limit", KIND_SWITCH},
	[KEY_CLASS] = {"class", KIND_CLASS},
	[KEY_SHARING] = {"sharing", KIND_MODE},
	[KEY_EVICTABLE] = {"evictable", KIND_SWITCH},
	[KEY_SWAP] = {"swap", KIND_SIZE},
	[KEY_FIXED] = {"fixed", KIND_SIZE},
	[KEY_IDLE_SUSPEND] = {"idle_suspend", KIND_SECONDS},
};

bool is_profile_section(const struct reading *reading)
{
	char after = reading->section[strlen(section_word)];

	return strncmp(reading->section, section_word, strlen(section_word)) == 0 &&
	       (!after || isspace((unsigned char)after));
}

static const char *get_name(const struct reading *reading)
{
	const char *name = reading->section + strlen(section_word);

	return name + strspn(name, " \t");
}

static bool is_valid_name(const char *name)
{
	size_t length = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

	return !name[length] && length >= 1 && length <= LONGEST_NAME && !strchr("._-", *name);
}

static char *format_origin(const struct reading *reading)
{
	char *origin;

	return asprintf(&origin, "%s:%d", reading->file, reading->line) < 0 ? NULL : origin;
}

// Makes room for one more profile. Returns whether there is memory.
static bool grow_profiles(struct reading *reading)
{
	size_t count = reading->profile_count + 1;
	struct vg_profile *profiles = realloc(reading->profiles, count * sizeof *profiles);

	reading->profiles = profiles ? profiles : reading->profiles;
	int *lines = realloc(reading->profile_lines, count * sizeof *lines);
	reading->profile_lines = lines ? lines : reading->profile_lines;
	return profiles && lines;
}

void begin_profile(struct reading *reading)
{
	const char *name = get_name(reading);

	if (!*name)
		refuse_line(reading, "[profile] has no name: use [profile NAME], such as [profile 8g-25]");
	else if (!is_valid_name(name))
		refuse_line(reading,
			    "[profile %.64s]: the name must have 1 to %d letters, digits, '.', '_' or '-', and begin "
			    "with a letter or a digit",
			    name, LONGEST_NAME);
	for (size_t i = 0; i < reading->profile_count && !reading->refused; i++)
		if (strcmp(reading->profiles[i].name, name) == 0)
			refuse_line(reading, "[profile %s] is there twice: the first is in line %d", name,
				    reading->profile_lines[i]);
	if (reading->refused)
		return;
	struct vg_profile profile = {.name = strdup(name), .origin = format_origin(reading)};
	if (!profile.name || !profile.origin || !grow_profiles(reading)) {
		free_profile(&profile);
		refuse_line(reading, "no memory for [profile %s]", name);
		return;
	}
	reading->profiles[reading->profile_count] = profile;
	reading->profile_lines[reading->profile_count++] = reading->line;
}

static void set_value(struct vg_profile *profile, enum profile_key key, const char *value)
{
	switch (key) {
	case KEY_MEMORY:
		vg_size_parse(value, &profile->memory);
		break;
	case KEY_SHARE:
		profile->share = (unsigned)atoi(value);
		break;
	case KEY_LIMIT:
		profile->share_limit = strcmp(value, "yes") == 0;
		break;
	case KEY_CLASS:
		profile->scheduling_class = strcmp(value, "latency") == 0 ? VG_CLASS_LATENCY : VG_CLASS_BATCH;
		break;
	case KEY_SHARING:
		profile->mode_given = 1;
		profile->mode = strcmp(value, "mps") == 0 ? VG_MODE_MPS : VG_MODE_TIME;
		break;
	case KEY_EVICTABLE:
		profile->evictable = strcmp(value, "yes") == 0;
		break;
	case KEY_SWAP:
		vg_size_parse(value, &profile->swap);
		break;
	case KEY_FIXED:
		vg_size_parse(value, &profile->fixed);
		break;
	case KEY_IDLE_SUSPEND:
		profile->idle_suspend = (unsigned)atoi(value);
		break;
	case PROFILE_KEYS:
		break;
	}
}

void store_profile_value(struct reading *reading, const char *key, const char *value)
{
	struct suggestion keys;

	suggestion_init(&keys, key);
	for (int i = 0; i < PROFILE_KEYS; i++) {
		suggestion_offer(&keys, rows[i].key);
		if (strcmp(rows[i].key, key) != 0)
			continue;
		const char *wrong = *value ? config_check(rows[i].kind, value) : "has no value";
		if (wrong)
			refuse_line(reading, "%s: \"%s\" %s", key, value, wrong);
		else
			set_value(&reading->profiles[reading->profile_count - 1], (enum profile_key)i, value);
		return;
	}
	if (keys.best)
		refuse_line(reading, "unknown key \"%s\" in [%s]: did you mean \"%s\"?", key, reading->section,
			    keys.best);
	else
		refuse_line(reading, "unknown key \"%s\" in [%s]: man virgate.conf lists the keys", key,
			    reading->section);
}

// Checks whether the values of a profile fit together. Returns NULL if they do, and otherwise the text of an error.
static const char *check_profile(const struct vg_profile *profile)
{
	if (!profile->memory && !profile->share)
		return "has neither memory nor share: add memory = SIZE, share = PERCENT, or both";
	if (profile->share_limit && !profile->share)
		return "has limit = yes and no share: add share = PERCENT";
	if (profile->swap && !profile->evictable)
		return "has swap, which is for evictable vGPUs: add evictable = yes";
	if (profile->fixed && !profile->evictable)
		return "has fixed, which is for evictable vGPUs: add evictable = yes";
	if (profile->idle_suspend && !profile->evictable)
		return "has idle_suspend, which is for evictable vGPUs: add evictable = yes";
	if (profile->memory && profile->fixed > profile->memory)
		return "has more fixed than memory: lower fixed";
	return NULL;
}

void free_profile(struct vg_profile *profile)
{
	free((char *)profile->name);
	free((char *)profile->origin);
}

// Moves a profile to the configuration, where it replaces a profile with the same name from an earlier file.
static void move_profile(struct reading *reading, struct vg_profile *profile)
{
	struct config *config = reading->config;

	for (size_t i = 0; i < config->profile_count; i++)
		if (strcmp(config->profiles[i].name, profile->name) == 0) {
			free_profile(&config->profiles[i]);
			config->profiles[i] = *profile;
			return;
		}
	config->profiles[config->profile_count++] = *profile;
}

static void move_profiles(struct reading *reading)
{
	struct config *config = reading->config;
	size_t most = config->profile_count + reading->profile_count;
	struct vg_profile *profiles =
		reading->profile_count ? realloc(config->profiles, most * sizeof *profiles) : NULL;

	if (reading->profile_count && !profiles) {
		refuse_line(reading, "no memory for %zu profiles", most);
		return;
	}
	if (profiles)
		config->profiles = profiles;
	for (size_t i = 0; i < reading->profile_count; i++)
		move_profile(reading, &reading->profiles[i]);
	reading->profile_count = 0;
}

void finish_profiles(struct reading *reading)
{
	for (size_t i = 0; i < reading->profile_count && !reading->refused; i++) {
		const char *wrong = check_profile(&reading->profiles[i]);
		reading->line = wrong ? reading->profile_lines[i] : reading->line;
		if (wrong)
			refuse_line(reading, "[profile %s] %s", reading->profiles[i].name, wrong);
	}
	if (!reading->refused)
		move_profiles(reading);
	for (size_t i = 0; i < reading->profile_count; i++)
		free_profile(&reading->profiles[i]);
	free(reading->profiles);
	free(reading->profile_lines);
}
