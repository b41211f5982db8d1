#include "profiles.h"

#include <stdio.h>
#include <string.h>

#include "base/printable.h"
#include "base/size.h"
#include "base/suggest.h"
#include "list.h"
#include "options.h"
#include "say.h"
#include "terms.h"

static struct vg_profile_list list_of(const struct config *config)
{
	return (struct vg_profile_list){config->profile_count, config->profiles};
}

static int refuse_unknown(const struct arguments *arguments, const struct config *config, const char *name)
{
	char names[1024] = "";
	size_t length = 0;
	struct suggestion suggestion;

	if (config->profile_count == 0)
		return say_usage(arguments->verb,
				 "--profile: there is no profile \"%s\", since virgate.conf has no section [profile "
				 "NAME]: add one, or give --memory and --share",
				 name);
	suggestion_init(&suggestion, name);
	for (size_t i = 0; i < config->profile_count; i++) {
		suggestion_offer(&suggestion, config->profiles[i].name);
		if (length < sizeof names)
			length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", i ? ", " : "",
						   config->profiles[i].name);
	}
	if (suggestion.best)
		return say_usage(arguments->verb,
				 "--profile: there is no profile \"%s\": did you mean %s? virgate.conf has %s", name,
				 suggestion.best, names);
	return say_usage(arguments->verb, "--profile: there is no profile \"%s\": virgate.conf has %s", name, names);
}

static int refuse_other_options(const struct arguments *arguments, const char *name)
{
	static const char *const sizes[] = {"memory",	 "share", "limit", "class",	  "mode",
					    "evictable", "swap",  "fixed", "idle-suspend"};

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		if (option_value(arguments, sizes[i]))
			return say_usage(arguments->verb,
					 "--profile %s describes the whole size, and so does --%s: give one of them, "
					 "or add another profile to virgate.conf",
					 name, sizes[i]);
	return 0;
}

int read_profile(const struct arguments *arguments, const struct session *session, struct vg_vgpu_options *options,
		 const struct vg_profile **ret_profile)
{
	const char *name = option_value(arguments, "profile");
	const struct vg_profile_list list = list_of(&session->config);

	if (!name) {
		*ret_profile = NULL;
		return 0;
	}
	int r = refuse_other_options(arguments, name);
	const struct vg_profile *profile = vg_profile_find(&list, name);
	if (r == 0 && !profile)
		r = refuse_unknown(arguments, &session->config, name);
	if (r)
		return r;
	vg_profile_apply(profile, options);
	*ret_profile = profile;
	return 0;
}

static void say_fit(struct vg_node *node, const struct vg_profile *profile)
{
	struct vg_device_list *devices;
	struct vg_profile_fit fit;

	if (vg_device_list(node, &devices))
		return;
	for (size_t i = 0; i < devices->count; i++) {
		vg_profile_count_fit(profile, &devices->devices[i], &fit);
		say_error("GPU %d has room for %u more of profile %s, and for %u when it is empty",
			  devices->devices[i].index, fit.now, profile->name, fit.empty);
	}
	vg_device_list_free(devices);
}

int fail_with_profile(const struct arguments *arguments, struct vg_node *node, const struct vg_profile *profile)
{
	bool is_full = vg_last_error()->status == VG_LIMIT;
	int r = fail_with_last_error(arguments);

	if (profile && is_full)
		say_fit(node, profile);
	return r;
}

static const char *memory_text(const struct vg_profile *profile, char buffer[CELL_TEXT])
{
	if (profile->memory)
		return vg_size_format(profile->memory, buffer);
	snprintf(buffer, CELL_TEXT, "%u %% of it", profile->share);
	return buffer;
}

void print_profiles(const struct config *config, const struct vg_device_list *devices)
{
	struct table table = {.columns = 7, .right = {[1] = true, [5] = true, [6] = true}};
	char memory[CELL_TEXT], index[CELL_TEXT], now[CELL_TEXT], empty[CELL_TEXT], terms[TERMS_TEXT];
	struct vg_profile_fit fit;

	if (config->profile_count == 0)
		return;
	table_add(&table, (const char *const[]){"PROFILE", "MEMORY", "SHARE", "EVICTABLE", "DEVICE", "FIT", "OF"});
	for (size_t i = 0; i < config->profile_count; i++) {
		const struct vg_profile *profile = &config->profiles[i];
		for (size_t j = 0; j < devices->count; j++) {
			vg_profile_count_fit(profile, &devices->devices[j], &fit);
			snprintf(index, sizeof index, "%d", devices->devices[j].index);
			snprintf(now, sizeof now, "%u", fit.now);
			snprintf(empty, sizeof empty, "%u", fit.empty);
			table_add(&table, (const char *const[]){profile->name, memory_text(profile, memory),
								terms_text(profile->share, profile->share_limit,
									   profile->scheduling_class, terms),
								profile->evictable ? "yes" : "no", index, now, empty});
		}
	}
	putchar('\n');
	table_print(&table);
}

static json_t *fits_json(const struct vg_profile *profile, const struct vg_device_list *devices)
{
	json_t *array = json_array();
	struct vg_profile_fit fit;

	for (size_t i = 0; i < devices->count; i++) {
		vg_profile_count_fit(profile, &devices->devices[i], &fit);
		json_array_append_new(array,
				      json_pack("{s:i, s:s, s:i, s:i}", "index", devices->devices[i].index, "uuid",
						devices->devices[i].uuid, "fit", (int)fit.now, "of", (int)fit.empty));
	}
	return array;
}

json_t *profiles_json(const struct config *config, const struct vg_device_list *devices)
{
	json_t *array = json_array();

	for (size_t i = 0; i < config->profile_count; i++) {
		const struct vg_profile *profile = &config->profiles[i];
		const char *class = profile->scheduling_class == VG_CLASS_LATENCY ? "latency" : "batch";
		json_array_append_new(
			array,
			json_pack("{s:s, s:o, s:i, s:b, s:s, s:o, s:b, s:o, s:o, s:i, s:o, s:o}", "name", profile->name,
				  "memory", profile->memory ? json_integer((json_int_t)profile->memory) : json_null(),
				  "share", (int)profile->share, "share_limit", profile->share_limit, "class", class,
				  "mode", profile->mode_given ? json_string(mode_text(profile->mode)) : json_null(),
				  "evictable", profile->evictable, "swap",
				  profile->swap ? json_integer((json_int_t)profile->swap) : json_null(), "fixed",
				  profile->fixed ? json_integer((json_int_t)profile->fixed) : json_null(),
				  "idle_suspend", (int)profile->idle_suspend, "origin", text_json(profile->origin),
				  "devices", fits_json(profile, devices)));
	}
	return array;
}
