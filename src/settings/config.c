
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/descriptor.h"
#include "base/size.h"
#include "base/suggest.h"
#include "settings/reading.h"
#include "system/system.h"

enum { LONGEST_LINE = 190, LONGEST_FILE = 64 * 1024 }; // inih reads lines of up to 200 characters

const struct config_row config_rows[CONFIG_COUNT] = {
#define X(id, section, key, variable, kind) [CONFIG_##id] = {section, key, variable, kind},
	CONFIG_LIST(X)
#undef X
};

static const char device_section[] = "device";

static bool is_whole_number(const char *text, long least, long most)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	long value = strtol(text, &end, 10);
	return errno == 0 && *end == '\0' && value >= least && value <= most;
}

static bool is_one_of(const char *text, const char *const *words)
{
	for (; *words; words++)
		if (strcmp(text, *words) == 0)
			return true;
	return false;
}

const char *config_check(enum config_kind kind, const char *value)
{
	uint64_t bytes;

	switch (kind) {
	case KIND_TEXT:
		return NULL;
	case KIND_SIZE: {
		int r = vg_size_parse(value, &bytes);
		if (r)
			return vg_size_error_text(r);
		return bytes ? NULL : "is zero: use a size such as 512M or 1.5G";
	}
	case KIND_SHARE:
		return is_whole_number(value, 1, 100) ? NULL : "is not a share: use a whole number from 1 to 100";
	case KIND_SECONDS:
		return is_whole_number(value, 1, 3600) ? NULL : "is not a time: use whole seconds from 1 to 3600";
	case KIND_SWITCH:
		return is_one_of(value, (const char *const[]){"yes", "no", NULL}) ? NULL : "is neither yes nor no";
	case KIND_MODE:
		return is_one_of(value, (const char *const[]){"time", "mps", NULL}) ? NULL
										    : "is not a mode: use time or mps";
	case KIND_SHARES:
		return is_whole_number(value, 1, 6400) ? NULL : "is not a sum of shares: use a number from 1 to 6400";
	case KIND_COUNT:
		return is_whole_number(value, 0, 9999) ? NULL : "is not a count: use a whole number from 0 to 9999";
	case KIND_CLASS:
		return is_one_of(value, (const char *const[]){"batch", "latency", NULL})
			       ? NULL
			       : "is not a class: use batch or latency";
	case KIND_LEVEL:
		return is_one_of(value, (const char *const[]){"error", "warning", "info", "debug", NULL})
			       ? NULL
			       : "is not a level: use error, warning, info or debug";
	}
	return NULL;
}

void refuse_line(struct reading *reading, const char *format, ...)
{
	char words[400];
	va_list arguments;

	if (reading->refused) // report only the first mistake
		return;
	reading->refused = true;
	va_start(arguments, format);
	vsnprintf(words, sizeof words, format, arguments);
	va_end(arguments);
	snprintf(reading->error->text, sizeof reading->error->text, "%.100s:%d: %s", reading->file, reading->line,
		 words);
}

// Reports why a line is invalid. The parser (inih) reports only the number of an invalid line.
static void check_line(struct reading *reading, const char *line, size_t length)
{
	while (length && isspace((unsigned char)line[0])) {
		line++;
		length--;
	}
	if (memchr(line, '\0', length))
		refuse_line(reading, "the line has a zero byte");
	else if (length >= LONGEST_LINE)
		refuse_line(reading, "the line is longer than %d characters", LONGEST_LINE);
	else if (length == 0 || line[0] == ';' || line[0] == '#')
		return;
	else if (line[0] == '[' && !memchr(line, ']', length))
		refuse_line(reading, "\"%.*s\" has no closing bracket", (int)length, line);
	else if (line[0] != '[' && !memchr(line, '=', length) && !memchr(line, ':', length))
		refuse_line(reading, "\"%.*s\" is neither [section] nor key = value", (int)length, line);
}

// Keeps the name of the section that a line begins.
static void begin_section(struct reading *reading, const char *line, size_t length)
{
	const char *end = memchr(line, ']', length);

	snprintf(reading->section, sizeof reading->section, "%.*s", (int)(end - line - 1), line + 1);
	if (is_profile_section(reading))
		begin_profile(reading);
	else if (is_limit_section(reading))
		begin_limit(reading);
}

static char *read_line(char *buffer, int capacity, void *stream)
{
	struct reading *reading = stream;

	if (reading->refused || reading->text == reading->end)
		return NULL;
	const char *newline = memchr(reading->text, '\n', (size_t)(reading->end - reading->text));
	size_t length = (size_t)((newline ? newline : reading->end) - reading->text);
	const char *line = reading->text;
	reading->text = newline ? newline + 1 : reading->end;
	reading->line++;
	if (length && line[length - 1] == '\r')
		length--;
	check_line(reading, line, length);
	if (reading->refused || (int)length + 2 > capacity)
		return NULL;
	// Remove the indentation, because inih takes an indented line as a continuation of the value in the previous
	// line.
	while (length && isspace((unsigned char)line[0])) {
		line++;
		length--;
	}
	if (length && line[0] == '[')
		begin_section(reading, line, length);
	memcpy(buffer, line, length);
	memcpy(buffer + length, "\n", 2);
	return buffer;
}

static void refuse_unknown(struct reading *reading, const char *section, const char *key)
{
	struct suggestion sections, keys;

	suggestion_init(&sections, section);
	suggestion_init(&keys, key);
	bool known = false;
	for (int i = 0; i < CONFIG_COUNT; i++) {
		suggestion_offer(&sections, config_rows[i].section);
		if (strcmp(config_rows[i].section, section) == 0) {
			known = true;
			suggestion_offer(&keys, config_rows[i].key);
		}
	}
	suggestion_offer(&sections, device_section);
	suggestion_offer(&sections, "profile");
	suggestion_offer(&sections, "user");
	suggestion_offer(&sections, "group");
	if (!*section)
		refuse_line(reading, "\"%s\" is before the first [section]", key);
	else if (!known && sections.best)
		refuse_line(reading, "unknown section [%s]: did you mean [%s]?", section, sections.best);
	else if (!known)
		refuse_line(reading,
			    "unknown section [%s]: there are [run], [profile NAME], [device GPU], [node], [audit], "
			    "[user NAME] and [group NAME]",
			    section);
	else if (keys.best)
		refuse_line(reading, "unknown key \"%s\" in [%s]: did you mean \"%s\"?", key, section, keys.best);
	else
		refuse_line(reading, "unknown key \"%s\" in [%s]: man virgate.conf lists the keys", key, section);
}

// Returns the GPU that the name of a section "device GPU" contains; NULL: the section has another name.
static const char *gpu_of_section(const char *section)
{
	size_t length = strlen(device_section);

	if (strncmp(section, device_section, length) != 0)
		return NULL;
	if (section[length] && !isspace((unsigned char)section[length]))
		return NULL;
	return section + length + strspn(section + length, " \t");
}

static bool names_gpu(const char *text)
{
	uint8_t uuid[16];

	return is_whole_number(text, 0, INT_MAX) || vg_system_uuid_parse(text, uuid);
}

static void add_device(struct reading *reading, const char *gpu, const char *sharing)
{
	struct config *config = reading->config;
	char origin[PATH_MAX + 16];

	struct config_device *devices = realloc(config->devices, (config->device_count + 1) * sizeof *devices);
	if (!devices) {
		refuse_line(reading, "no memory for [device %s]", gpu);
		return;
	}
	snprintf(origin, sizeof origin, "%s:%d", reading->file, reading->line);
	config->devices = devices;
	devices[config->device_count++] = (struct config_device){strdup(gpu), strdup(sharing), strdup(origin)};
}

static void store_device_value(struct reading *reading, const char *gpu, const char *key, const char *value)
{
	const struct config_row *row = &config_rows[CONFIG_SHARING];
	const char *wrong = *value ? config_check(row->kind, value) : "has no value";

	if (!*gpu)
		refuse_line(reading, "[device] names no GPU: use [device INDEX] or [device UUID]");
	else if (!names_gpu(gpu))
		refuse_line(reading,
			    "[device %s]: \"%s\" is neither the index nor the UUID of a GPU, such as 0 or GPU-..., "
			    "see `virgate devices`",
			    gpu, gpu);
	else if (strcmp(key, row->key) != 0)
		refuse_line(reading, "unknown key \"%s\" in [device %s]: there is \"%s\"", key, gpu, row->key);
	else if (wrong)
		refuse_line(reading, "%s: \"%s\" %s", key, value, wrong);
	else
		add_device(reading, gpu, value);
}

static int store_value(void *user, const char *cut_section, const char *key, const char *value)
{
	struct reading *reading = user;
	const char *section = reading->section;
	char origin[PATH_MAX + 16];

	if (reading->refused)
		return 0;
	if (gpu_of_section(section)) {
		store_device_value(reading, gpu_of_section(section), key, value);
		return !reading->refused;
	}
	if (is_profile_section(reading)) {
		store_profile_value(reading, key, value);
		return !reading->refused;
	}
	if (is_limit_section(reading)) {
		store_limit_value(reading, key, value);
		return !reading->refused;
	}
	for (int i = 0; i < CONFIG_COUNT; i++) {
		if (strcmp(config_rows[i].section, section) != 0 || strcmp(config_rows[i].key, key) != 0)
			continue;
		const char *wrong = *value ? config_check(config_rows[i].kind, value) : "has no value";
		if (wrong) {
			refuse_line(reading, "%s: \"%s\" %s", key, value, wrong);
			return 0;
		}
		snprintf(origin, sizeof origin, "%s:%d", reading->file, reading->line);
		free(reading->config->values[i]);
		free(reading->config->origins[i]);
		reading->config->values[i] = strdup(value);
		reading->config->origins[i] = strdup(origin);
		return 1;
	}
	refuse_unknown(reading, section, key);
	return 0;
}

int config_read(struct config *config, const char *file, const char *text, size_t length,
		struct config_error *ret_error)
{
	struct config_error error = {""};
	struct reading reading = {.config = config, .error = &error, .file = file, .text = text, .end = text + length};

	int line = ini_parse_stream(read_line, &reading, store_value, &reading);
	if (line && !reading.refused) {
		reading.line = line > 0 ? line : reading.line;
		refuse_line(&reading, "the line cannot be read");
	}
	finish_profiles(&reading);
	if (!reading.refused)
		return 0;
	*ret_error = error;
	return 1;
}

static int load_file(struct config *config, const char *path, struct config_error *ret_error)
{
	char *text = malloc(LONGEST_FILE + 1);

	// Open only a regular file: with sudo, root reads the file of another user, who may have replaced it.
	_cleanup_close_ int file = vg_open_regular(path, O_RDONLY);
	ssize_t length = file < 0 ? file : !text ? -ENOMEM : vg_read_all(file, text, LONGEST_FILE + 1, 0);
	int r = 0;
	if (length > LONGEST_FILE)
		length = -EFBIG;
	if (length >= 0) {
		r = config_read(config, path, text, (size_t)length, ret_error);
	} else if (length != -ENOENT && length != -ENOTDIR) {
		snprintf(ret_error->text, sizeof ret_error->text, "%.300s: %s", path,
			 length == -EFBIG    ? "is longer than 64 KiB"
			 : length == -EINVAL ? "is not a regular file"
					     : strerror((int)-length));
		r = 1;
	}
	free(text);
	return r;
}

static void free_devices(struct config *config)
{
	for (size_t i = 0; i < config->device_count; i++) {
		free(config->devices[i].gpu);
		free(config->devices[i].sharing);
		free(config->devices[i].origin);
	}
	free(config->devices);
	config->devices = NULL;
	config->device_count = 0;
}

static void free_profiles(struct config *config)
{
	for (size_t i = 0; i < config->profile_count; i++)
		free_profile(&config->profiles[i]);
	free(config->profiles);
}

static void free_limits(struct config *config)
{
	for (size_t i = 0; i < config->limit_count; i++) {
		free(config->limits[i].name);
		free(config->limits[i].origin);
	}
	free(config->limits);
}

static int load_environment(struct config *config, struct config_error *ret_error)
{
	for (int i = 0; i < CONFIG_COUNT; i++) {
		const char *value = getenv(config_rows[i].variable);
		if (!value || !*value)
			continue;
		const char *wrong = config_check(config_rows[i].kind, value);
		if (wrong) {
			snprintf(ret_error->text, sizeof ret_error->text, "environment variable %s: \"%.200s\" %s",
				 config_rows[i].variable, value, wrong);
			return 1;
		}
		if (i == CONFIG_SHARING)
			free_devices(config);
		free(config->values[i]);
		free(config->origins[i]);
		config->values[i] = strdup(value);
		config->origins[i] = strdup(config_rows[i].variable);
	}
	return 0;
}

const char *config_system_path(void)
{
	const char *system = getenv("VIRGATE_SYSTEM_CONFIG");

	return system && *system ? system : "/etc/virgate/virgate.conf";
}

int config_load_system(struct config *ret_config, struct config_error *ret_error)
{
	struct config config = {0};

	int r = load_file(&config, config_system_path(), ret_error);
	if (r) {
		config_finish(&config);
		return r;
	}
	*ret_config = config;
	return 0;
}

// Reads the user's own file. A section with limits is an error there: limits are valid only in the system's file, which
// users cannot change.
static int load_users_file(struct config *config, struct config_error *ret_error)
{
	const char *user = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	size_t limit_count = config->limit_count;
	char path[PATH_MAX] = "";

	if (user && *user == '/') // the XDG specification ignores relative paths
		snprintf(path, sizeof path, "%s/virgate/virgate.conf", user);
	else if (home && *home)
		snprintf(path, sizeof path, "%s/.config/virgate/virgate.conf", home);
	int r = *path ? load_file(config, path, ret_error) : 0;
	if (r || config->limit_count == limit_count)
		return r;
	const struct config_limit *limit = &config->limits[limit_count];
	snprintf(ret_error->text, sizeof ret_error->text,
		 "%.200s: [%s %.60s] is only for the system's file, %.100s: remove it here", limit->origin,
		 limit->is_group ? "group" : "user", limit->name, config_system_path());
	return 1;
}

int config_load_files(struct config *ret_config, struct config_error *ret_error)
{
	struct config config;

	int r = config_load_system(&config, ret_error);
	if (r)
		return r;
	r = load_users_file(&config, ret_error);
	if (r) {
		config_finish(&config);
		return r;
	}
	*ret_config = config;
	return 0;
}

int config_load(struct config *ret_config, struct config_error *ret_error)
{
	struct config config;

	int r = config_load_files(&config, ret_error);
	if (r)
		return r;
	r = load_environment(&config, ret_error);
	if (r) {
		config_finish(&config);
		return r;
	}
	*ret_config = config;
	return 0;
}

void config_finish(struct config *config)
{
	for (int i = 0; i < CONFIG_COUNT; i++) {
		free(config->values[i]);
		free(config->origins[i]);
	}
	free_devices(config);
	free_profiles(config);
	free_limits(config);
	*config = (struct config){0};
}
