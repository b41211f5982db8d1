#include "settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <slurm/spank.h>

#include "request.h"

static const char default_state_dir[] = "/run/virgate-slurm";

// Returns the value if `argument` is "NAME=VALUE" with this name, else NULL.
static const char *value_of(const char *argument, const char *name)
{
	size_t length = strlen(name);

	return strncmp(argument, name, length) == 0 && argument[length] == '=' ? argument + length + 1 : NULL;
}

static int refuse(const char *argument, const char *why)
{
	slurm_error("virgate: plugstack.conf: \"%s\": %s", argument, why);
	return -EINVAL;
}

static int read_switch(const char *argument, const char *value, const char *on, const char *off, bool *ret_is_on)
{
	char why[80];

	if (strcmp(value, on) == 0 || strcmp(value, off) == 0) {
		*ret_is_on = strcmp(value, on) == 0;
		return 0;
	}
	snprintf(why, sizeof why, "the value is %s or %s", on, off);
	return refuse(argument, why);
}

// Reads an argument whose value is text. Returns 0; 1: the argument is another one; or -errno.
static int read_text(const char *argument, struct settings *settings)
{
	const struct {
		const char *name;
		char **place;
	} texts[] = {{"runtime_dir", &settings->runtime_dir},
		     {"libdir", &settings->libdir},
		     {"config", &settings->config},
		     {"state_dir", &settings->state_dir},
		     {"simulate", &settings->simulate}};

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		const char *value = value_of(argument, texts[i].name);
		if (!value)
			continue;
		bool is_path = texts[i].place != &settings->simulate;
		if (is_path && *value != '/')
			return refuse(argument, "a path begins with /");
		*texts[i].place = strdup(value);
		return *texts[i].place ? 0 : -ENOMEM;
	}
	return 1;
}

static int read_argument(const char *argument, struct settings *settings)
{
	const char *value;

	int r = read_text(argument, settings);
	if (r <= 0)
		return r;
	if ((value = value_of(argument, "shard_memory")))
		return request_parse_size(value, &settings->shard_memory)
			       ? 0
			       : refuse(argument, "the value is a size, such as 1G");
	if ((value = value_of(argument, "gres")))
		return read_switch(argument, value, "optional", "required", &settings->gres_is_optional);
	if ((value = value_of(argument, "comment")))
		return read_switch(argument, value, "yes", "no", &settings->comment_is_written);
	return refuse(argument, "unknown argument; the known ones are runtime_dir, libdir, config, state_dir, "
				"simulate, shard_memory, gres and comment");
}

int settings_read(int count, char **arguments, struct settings *ret_settings)
{
	struct settings settings = {.comment_is_written = true};

	for (int i = 0; i < count; i++) {
		int r = read_argument(arguments[i], &settings);
		if (r < 0)
			return r;
	}
	if (!settings.state_dir)
		settings.state_dir = strdup(default_state_dir);
	if (!settings.state_dir)
		return -ENOMEM;
	*ret_settings = settings;
	return 0;
}
