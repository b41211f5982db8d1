#include "request.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const struct request_option_text request_options[REQUEST_OPTIONS] = {
	[REQUEST_PROFILE] = {"vgpu", "profile", "run in a vGPU of this profile of virgate.conf"},
	[REQUEST_MEMORY] = {"vgpu-memory", "size", "run in a vGPU with so much device memory, such as 8G"},
	[REQUEST_SHARE] = {"vgpu-share", "percent", "the part of the GPU's time that the job's vGPU is given"},
};

// Returns the factor of a unit such as "", "M", "MB" or "MiB"; 0: it is not a unit.
static double factor_of(const char *unit)
{
	static const char letters[] = "KMGTP";

	while (*unit == ' ')
		unit++;
	if (!*unit || strcasecmp(unit, "B") == 0)
		return 1;
	const char *letter = strchr(letters, toupper((unsigned char)*unit));
	if (!letter || !*letter)
		return 0;
	if (unit[1] && strcasecmp(unit + 1, "B") != 0 && strcasecmp(unit + 1, "iB") != 0)
		return 0;
	return exp2(10.0 * (double)(letter - letters + 1));
}

bool request_parse_size(const char *text, uint64_t *ret_bytes)
{
	char *end;

	if (!isdigit((unsigned char)*text) || strpbrk(text, "xXeE")) // forms that only strtod() knows
		return false;
	double bytes = strtod(text, &end) * factor_of(end);
	if (!(bytes >= 1 && bytes < exp2(63)))
		return false;
	*ret_bytes = (uint64_t)bytes;
	return true;
}

const char *request_format_size(uint64_t bytes, char buffer[REQUEST_SIZE_TEXT])
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	double value = (double)bytes;
	size_t unit = 0;

	for (; value >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++)
		value /= 1024;
	snprintf(buffer, REQUEST_SIZE_TEXT, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
	return buffer;
}

static bool parse_percent(const char *text, unsigned *ret_percent)
{
	if (!*text || strlen(text) > 3 || text[strspn(text, "0123456789")])
		return false;
	unsigned percent = (unsigned)atoi(text);
	if (percent < 1 || percent > 100)
		return false;
	*ret_percent = percent;
	return true;
}

// Copies the name of a profile. Returns false if the text cannot be such a name.
static bool copy_profile(const char *text, char ret_profile[REQUEST_PROFILE_NAME])
{
	size_t length = strlen(text);

	if (!length || length >= REQUEST_PROFILE_NAME)
		return false;
	for (size_t i = 0; i < length; i++)
		if (!isalnum((unsigned char)text[i]) && (i == 0 || !strchr("._-", text[i])))
			return false;
	memcpy(ret_profile, text, length + 1);
	return true;
}

const char *request_add(struct request *request, enum request_option option, const char *value, char *buffer,
			size_t capacity)
{
	if (!value)
		value = "";
	if (option == REQUEST_PROFILE && !copy_profile(value, request->profile)) {
		snprintf(buffer, capacity, "--vgpu: \"%.100s\" is not the name of a profile", value);
		return buffer;
	}
	if (option == REQUEST_MEMORY && !request_parse_size(value, &request->memory)) {
		snprintf(buffer, capacity, "--vgpu-memory: \"%.100s\" is not a size: use 512M or 1.5G", value);
		return buffer;
	}
	if (option == REQUEST_SHARE && !parse_percent(value, &request->share)) {
		snprintf(buffer, capacity, "--vgpu-share: \"%.100s\" is not a number of percent from 1 to 100", value);
		return buffer;
	}
	return NULL;
}

bool request_is_made(const struct request *request)
{
	return *request->profile || request->memory || request->share;
}

const char *request_check(const struct request *request)
{
	if (*request->profile && (request->memory || request->share))
		return "--vgpu names a profile, which has a size: leave out --vgpu-memory and --vgpu-share, or --vgpu";
	return NULL;
}
