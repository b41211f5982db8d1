#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/size.h"

enum { GRANULE = 2 << 20, SLICE_LEAST = 100000 };
#define MEMORY_MOST ((uint64_t)1 << 40)

static bool parse_number(const char *text, unsigned least, unsigned most, unsigned *ret_number)
{
	char *end;
	errno = 0;
	unsigned long number = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || number < least || number > most)
		return false;
	*ret_number = (unsigned)number;
	return true;
}

bool sim_duration_parse(const char *text, uint64_t *ret_ns)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
	char *end;
	double number = strtod(text, &end);

	if (end == text || !(number >= 0))
		return false;
	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		if (strcmp(end, units[i].unit) == 0 && number * units[i].ns < 3.6e12) {
			*ret_ns = (uint64_t)(number * units[i].ns);
			return true;
		}
	}
	return false;
}

static bool parse_slice(const char *text, uint64_t *ret_ns)
{
	uint64_t ns = 0;

	if (strcmp(text, "0") != 0 && (!sim_duration_parse(text, &ns) || ns < SLICE_LEAST))
		return false;
	*ret_ns = ns;
	return true;
}

// Parses the devices' names, separated by colons. If there are fewer names than devices, the other devices get the last
// name.
static bool parse_names(const char *text, struct sim_config *config)
{
	for (unsigned i = 0; i < SIM_DEVICES; i++) {
		size_t length = strcspn(text, ":");
		if (length == 0 || length >= SIM_NAME)
			return false;
		snprintf(config->names[i], SIM_NAME, "%.*s", (int)length, text);
		text += text[length] ? length + 1 : 0;
	}
	return true;
}

static bool parse_mode(const char *text, enum sim_mode *ret_mode)
{
	if (strcmp(text, "default") == 0)
		*ret_mode = SIM_MODE_DEFAULT;
	else if (strcmp(text, "exclusive") == 0)
		*ret_mode = SIM_MODE_EXCLUSIVE;
	else if (strcmp(text, "prohibited") == 0)
		*ret_mode = SIM_MODE_PROHIBITED;
	else
		return false;
	return true;
}

// Sets the value of a key. Returns NULL on success, or a description of the valid values. For an unknown key, returns
// an empty text.
static const char *set_key(struct sim_config *config, const char *key, const char *value)
{
	const struct {
		const char *key;
		unsigned *value;
	} flags[] = {{"peers", &config->peers},	  {"mig", &config->mig},
		     {"mps", &config->mps},	  {"persistence", &config->persistence},
		     {"giveup", &config->giveup}, {"overcommit", &config->overcommit}};

	if (strcmp(key, "devices") == 0)
		return parse_number(value, 1, SIM_DEVICES, &config->devices) ? NULL : "a number from 1 to 16";
	if (strcmp(key, "sms") == 0)
		return parse_number(value, 1, SIM_SMS, &config->sms) ? NULL : "a number from 1 to 256";
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
		if (strcmp(key, flags[i].key) == 0)
			return parse_number(value, 0, 1, flags[i].value) ? NULL : "0 or 1";
	if (strcmp(key, "slice") == 0)
		return parse_slice(value, &config->slice_ns) ? NULL : "0 or a duration from 100us to an hour";
	if (strcmp(key, "switch") == 0)
		return sim_duration_parse(value, &config->switch_ns) ? NULL : "a duration such as 115us";
	if (strcmp(key, "copyengines") == 0)
		return parse_number(value, 1, 2, &config->copy_engines) ? NULL : "1 or 2";
	if (strcmp(key, "names") == 0)
		return parse_names(value, config) ? NULL : "names of at most 31 characters, separated by colons";
	if (strcmp(key, "mode") == 0)
		return parse_mode(value, &config->mode) ? NULL : "default, exclusive or prohibited";
	if (strcmp(key, "driver") == 0)
		return parse_number(value, 12080, 19999, &config->driver) ? NULL : "a CUDA version such as 13000";
	if (strcmp(key, "cc") == 0) {
		char major[8];
		const char *dot = strchr(value, '.');
		if (!dot || (size_t)(dot - value) >= sizeof major)
			return "a compute capability such as 9.0";
		memcpy(major, value, (size_t)(dot - value));
		major[dot - value] = 0;
		return parse_number(major, 7, 12, &config->cc_major) && parse_number(dot + 1, 0, 9, &config->cc_minor)
			       ? NULL
			       : "a compute capability from 7.0 to 12.9";
	}
	if (strcmp(key, "memory") == 0) {
		uint64_t bytes;
		if (vg_size_parse(value, &bytes) != 0 || bytes < 32 * (uint64_t)GRANULE || bytes > MEMORY_MOST)
			return "a size from 64M to 1T";
		config->memory = bytes / GRANULE * GRANULE;
		return NULL;
	}
	if (strcmp(key, "ctx") == 0) {
		uint64_t bytes;
		if (vg_size_parse(value, &bytes) != 0 || bytes > MEMORY_MOST)
			return "a size such as 16M";
		config->context = (bytes + GRANULE - 1) / GRANULE * GRANULE;
		return NULL;
	}
	return "";
}

int sim_config_parse(const char *spec, struct sim_config *ret_config, char *problem, size_t capacity)
{
	struct sim_config config = {.devices = 1,
				    .sms = 132,
				    .cc_major = 9,
				    .cc_minor = 0,
				    .driver = 13000,
				    .peers = 1,
				    .persistence = 1,
				    .switch_ns = 115000,
				    .copy_engines = 2,
				    .memory = (uint64_t)8 << 30,
				    .context = 16 << 20};
	char text[256], *rest = text, *item;

	parse_names(SIM_DEVICE_NAME, &config);
	if (strlen(spec) >= sizeof text) {
		snprintf(problem, capacity, "VIRGATE_SIM is longer than %zu characters", sizeof text - 1);
		return SIM_CONFIG_BAD;
	}
	strcpy(text, spec);
	while (strcmp(spec, "1") != 0 && (item = strsep(&rest, ","))) {
		char *value = strchr(item, '=');
		if (!value) {
			snprintf(problem, capacity, "VIRGATE_SIM: \"%s\" is not key=value", item);
			return SIM_CONFIG_BAD;
		}
		*value++ = 0;
		const char *want = set_key(&config, item, value);
		if (want && !*want) {
			snprintf(problem, capacity,
				 "VIRGATE_SIM: unknown key \"%s\" (there are devices, memory, sms, cc, driver, ctx, "
				 "peers, names, mode, mig, mps, persistence, giveup, overcommit, slice, switch, "
				 "copyengines)",
				 item);
			return SIM_CONFIG_BAD;
		}
		if (want) {
			snprintf(problem, capacity, "VIRGATE_SIM: %s=%s must be %s", item, value, want);
			return SIM_CONFIG_BAD;
		}
	}
	if (config.context > config.memory) {
		snprintf(problem, capacity, "VIRGATE_SIM: a context (ctx=) does not fit the device (memory=)");
		return SIM_CONFIG_BAD;
	}
	*ret_config = config;
	return 0;
}

// Returns a hash of the configuration and of its text. The hash is part of the directory's name, so each text has a
// simulated node and a daemon of its own. If two texts had one node, their daemons would admit vGPUs to the same
// memory.
static uint64_t hash_config(const struct sim_config *config, const char *spec)
{
	char text[512];

	snprintf(text, sizeof text, "%u %u %u.%u %u %" PRIu64 " %" PRIu64 " %s", config->devices, config->sms,
		 config->cc_major, config->cc_minor, config->driver, config->memory, config->context, spec);
	return vg_hash_text(text);
}

int sim_config_read(struct sim_config *ret_config, char *problem, size_t capacity)
{
	struct sim_config config;
	const char *spec = getenv("VIRGATE_SIM"), *directory = getenv("VIRGATE_SIM_DIR");
	int length;

	if (!spec || !*spec || strcmp(spec, "0") == 0)
		return SIM_CONFIG_UNSET;
	int status = sim_config_parse(spec, &config, problem, capacity);
	if (status != 0)
		return status;
	if (directory && *directory)
		length = snprintf(config.directory, sizeof config.directory, "%s", directory);
	else
		length = snprintf(config.directory, sizeof config.directory, "/var/tmp/virgate-sim-%u-%016" PRIx64,
				  (unsigned)geteuid(), hash_config(&config, spec));
	if (length < 0 || (size_t)length >= sizeof config.directory - 32) {
		snprintf(problem, capacity, "VIRGATE_SIM_DIR is too long");
		return SIM_CONFIG_BAD;
	}
	*ret_config = config;
	return 0;
}
