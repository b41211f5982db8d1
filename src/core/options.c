#include "core/options.h"

#include "core/device.h"
#include "core/error.h"
#include "virgate/linker.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void core_arguments_add(struct core_arguments *arguments, const char *format, ...)
{
	char **grown = realloc(arguments->texts, (arguments->count + 2) * sizeof *grown);
	va_list values;
	char *text;

	if (grown)
		arguments->texts = grown;
	va_start(values, format);
	if (!grown || vasprintf(&text, format, values) < 0)
		arguments->failed = true;
	else
		arguments->texts[arguments->count++] = text;
	va_end(values);
	if (grown)
		arguments->texts[arguments->count] = NULL;
}

void core_arguments_copy(struct core_arguments *arguments, const struct core_arguments *from)
{
	for (size_t i = 0; i < from->count; i++)
		core_arguments_add(arguments, "%s", from->texts[i]);
	arguments->failed |= from->failed;
}

void core_arguments_finish(struct core_arguments *arguments)
{
	for (size_t i = 0; i < arguments->count; i++)
		free(arguments->texts[i]);
	free(arguments->texts);
	*arguments = (struct core_arguments){0};
}

static const void *get_value(const struct core_option *option, const void *options)
{
	return (const char *)options + option->offset;
}

bool core_option_given(const struct core_option *option, const void *options)
{
	const void *value = get_value(option, options);

	switch (option->kind) {
	case OPTION_TEXT:
		return *(const char *const *)value != NULL;
	case OPTION_TEXTS:
	case OPTION_MACROS:
		return ((const struct vg_texts *)value)->count != 0;
	case OPTION_NUMBERS:
		return ((const struct vg_numbers *)value)->count != 0;
	default:
		return *(const int *)value != 0;
	}
}

static enum vg_status check_text(const struct core_option *option, const char *text)
{
	if (!text || !*text)
		return vg_fail(VG_INVALID, 0, "option %s: a text is %s", option->field, text ? "empty" : "NULL");
	if (option->kind != OPTION_MACROS)
		return VG_OK;
	size_t name = strcspn(text, "=");
	bool fits = name > 0 && !isdigit((unsigned char)text[0]);
	// A macro can have parameters after its name, as in NAME(x)=VALUE: check only the name.
	for (size_t i = 0; i < name && text[i] != '('; i++)
		fits &= text[i] == '_' || isalnum((unsigned char)text[i]);
	return fits ? VG_OK
		    : vg_fail(VG_INVALID, 0, "option %s: \"%s\" is neither NAME nor NAME=VALUE", option->field, text);
}

static enum vg_status check_number(const struct core_option *option, int value)
{
	bool choice = option->kind == OPTION_CHOICE || option->kind == OPTION_SWITCH;

	if (choice && value != VG_CHOICE_ON && value != VG_CHOICE_OFF)
		return vg_fail(VG_INVALID, 0, "option %s: %d is no enum vg_choice", option->field, value);
	if (choice || (option->kind == OPTION_LEVEL ? value == 3 : value > 0))
		return VG_OK;
	if (value == -1 && (option->kind == OPTION_LEVEL || option->kind == OPTION_THREADS))
		return VG_OK;
	if (option->kind == OPTION_LEVEL)
		return vg_fail(VG_INVALID, 0, "option %s: %d: there are 3 and VG_OPTIMIZE_NOT", option->field, value);
	return vg_fail(VG_INVALID, 0, "option %s: %d: numbers from 1 are meant%s", option->field, value,
		       option->kind == OPTION_THREADS ? ", or VG_SPLIT_ALL" : "");
}

enum vg_status core_option_check(const struct core_option *option, const void *options)
{
	const struct vg_texts *texts = get_value(option, options);
	const struct vg_numbers *numbers = get_value(option, options);
	if (!core_option_given(option, options))
		return VG_OK;
	switch (option->kind) {
	case OPTION_FLAG:
		return VG_OK;
	case OPTION_TEXT:
		return check_text(option, *(const char *const *)get_value(option, options));
	case OPTION_TEXTS:
	case OPTION_MACROS:
		if (!texts->values)
			return vg_fail(VG_INVALID, 0, "option %s: %zu texts at NULL", option->field, texts->count);
		for (size_t i = 0; i < texts->count; i++)
			CORE_TRY(check_text(option, texts->values[i]));
		return VG_OK;
	case OPTION_NUMBERS:
		if (!numbers->values)
			return vg_fail(VG_INVALID, 0, "option %s: %zu numbers at NULL", option->field, numbers->count);
		for (size_t i = 0; i < numbers->count; i++)
			CORE_TRY(check_number(option, numbers->values[i]));
		return VG_OK;
	default:
		return check_number(option, *(const int *)get_value(option, options));
	}
}

void core_option_add(const struct core_option *option, const void *options, struct core_arguments *arguments)
{
	const struct vg_texts *texts = get_value(option, options);
	const struct vg_numbers *numbers = get_value(option, options);

	if (!core_option_given(option, options))
		return;
	switch (option->kind) {
	case OPTION_FLAG:
		core_arguments_add(arguments, "%s", option->argument);
		break;
	case OPTION_CHOICE:
		core_arguments_add(arguments, "%s%s", option->argument,
				   *(const int *)get_value(option, options) == VG_CHOICE_ON ? "true" : "false");
		break;
	case OPTION_SWITCH:
		core_arguments_add(arguments, "%s%d", option->argument,
				   *(const int *)get_value(option, options) == VG_CHOICE_ON);
		break;
	case OPTION_TEXT:
		core_arguments_add(arguments, "%s%s", option->argument,
				   *(const char *const *)get_value(option, options));
		break;
	case OPTION_TEXTS:
	case OPTION_MACROS:
		for (size_t i = 0; i < texts->count; i++)
			core_arguments_add(arguments, "%s%s", option->argument, texts->values[i]);
		break;
	case OPTION_NUMBERS:
		for (size_t i = 0; i < numbers->count; i++)
			core_arguments_add(arguments, "%s%d", option->argument, numbers->values[i]);
		break;
	case OPTION_NUMBER:
	case OPTION_LEVEL:
	case OPTION_THREADS: {
		int value = *(const int *)get_value(option, options);
		core_arguments_add(arguments, "%s%d", option->argument, value < 0 ? 0 : value);
		break;
	}
	}
}

enum vg_status core_options_refuse(const struct core_option *table, size_t count, const void *options, unsigned traits,
				   const char *who)
{
	char fields[600] = "";
	size_t used = 0;

	for (size_t i = 0; i < count && used < sizeof fields; i++)
		if (!(table[i].traits & traits) && core_option_given(&table[i], options))
			used += (size_t)snprintf(fields + used, sizeof fields - used, "%s%s", used ? ", " : "",
						 table[i].field);
	if (!used)
		return VG_OK;
	return vg_fail(VG_INVALID, 0, "the following options are not supported by %s: %s", who, fields);
}

static bool is_architecture(const char *arch)
{
	const char *digits = strncmp(arch, "sm_", 3) == 0	 ? arch + 3
			     : strncmp(arch, "compute_", 8) == 0 ? arch + 8
								 : "";
	size_t count = strspn(digits, "0123456789");

	// As in sm_90a and sm_100f. Code with the suffix "a" runs only on that architecture. Code with the suffix "f"
	// runs on a family of similar architectures.
	if (digits[count] == 'a' || digits[count] == 'f')
		return count >= 2 && count <= 4 && !digits[count + 1];
	return count >= 2 && count <= 4 && !digits[count];
}

enum vg_status core_find_architecture(const char *arch, const struct vg_device *device,
				      char ret_text[CORE_ARCHITECTURE])
{
	struct vg_device *first;
	char problem[512];

	if (arch) {
		if (!is_architecture(arch))
			return vg_fail(
				VG_INVALID, 0,
				"option arch: \"%s\" is none: sm_ or compute_ and a number are meant, as in sm_90",
				arch);
		snprintf(ret_text, CORE_ARCHITECTURE, "%s", arch);
		return VG_OK;
	}
	if (!device) {
		enum vg_status status = vg_device_get(0, &first);
		if (status) {
			snprintf(problem, sizeof problem, "%s", vg_last_error()->text);
			return vg_fail(status, vg_last_error()->code,
				       "no architecture: the option arch is not given, nor is there a device to take "
				       "it from: %s",
				       problem);
		}
		device = first;
	}
	snprintf(ret_text, CORE_ARCHITECTURE, "sm_%d%d", device->compute_major, device->compute_minor);
	return VG_OK;
}
