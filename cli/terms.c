#include "terms.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/printable.h"
#include "list.h"
#include "options.h"
#include "say.h"
#include "base/suggest.h"

static const char *const classes[] = {[VG_CLASS_BATCH] = "batch", [VG_CLASS_LATENCY] = "latency"};

static const char *const modes[] = {[VG_MODE_TIME] = "time", [VG_MODE_MPS] = "mps"};

// Returns the index of the option's value in `words`, -1 if the option is missing, or -2 after a message.
static int read_word(const struct arguments *arguments, const char *name, const char *const words[2])
{
	const char *text = option_value(arguments, name);
	struct suggestion suggestion;

	if (!text)
		return -1;
	suggestion_init(&suggestion, text);
	for (int i = 0; i < 2; i++) {
		if (strcmp(text, words[i]) == 0)
			return i;
		suggestion_offer(&suggestion, words[i]);
	}
	if (suggestion.best)
		say_usage(arguments->verb, "--%s: \"%s\" is not a %s: did you mean %s?", name, text, name,
			  suggestion.best);
	else
		say_usage(arguments->verb, "--%s: \"%s\" is not a %s: use %s or %s", name, text, name, words[0],
			  words[1]);
	return -2;
}

int read_terms(const struct arguments *arguments, const char *configured, struct vg_vgpu_options *options)
{
	int r = read_share(arguments, &options->share);

	if (r)
		return r;
	int class = read_word(arguments, "class", classes);
	int mode = class < -1 ? class : read_word(arguments, "mode", modes);
	if (mode < -1)
		return verb_usage_code(arguments->verb);
	options->scheduling_class = class < 0 ? VG_CLASS_BATCH : (enum vg_scheduling_class) class;
	options->mode = mode < 0 ? VG_MODE_TIME : (enum vg_sharing_mode)mode;
	if (!options->share && configured)
		options->share = (unsigned)atoi(configured);
	options->share_limit = option_value(arguments, "limit") != NULL;
	if (!options->share_limit || options->share)
		return 0;
	return say_usage(arguments->verb, "--limit needs a share: give --share PERCENT too");
}

static enum vg_sharing_mode configured_mode(const char *text)
{
	return strcmp(text, modes[VG_MODE_MPS]) == 0 ? VG_MODE_MPS : VG_MODE_TIME;
}

static bool is_listed(const struct vg_device_list *list, const char *gpu)
{
	char index[16];

	for (size_t i = 0; i < list->count; i++) {
		snprintf(index, sizeof index, "%d", list->devices[i].index);
		if (strcmp(gpu, index) == 0 || strcasecmp(gpu, list->devices[i].uuid) == 0)
			return true;
	}
	return false;
}

static void say_unknown_device(const struct config_device *device, const struct vg_device_list *list)
{
	char text[4096] = "";
	size_t length = 0;

	for (size_t i = 0; i < list->count && length < sizeof text; i++)
		length += (size_t)snprintf(text + length, sizeof text - length, "%s%d (%s)", i ? ", " : "",
					   list->devices[i].index, list->devices[i].uuid);
	say_error("%s: [device %s]: there is no such GPU: this node has %s", device->origin, device->gpu, text);
}

static int check_devices(const struct arguments *arguments, const struct session *session)
{
	const struct config *config = &session->config;
	struct vg_device_list *list;

	if (vg_device_list(session->node, &list))
		return fail_with_last_error(arguments);
	size_t i = 0;
	while (i < config->device_count && is_listed(list, config->devices[i].gpu))
		i++;
	bool is_good = i == config->device_count;
	if (!is_good)
		say_unknown_device(&config->devices[i], list);
	vg_device_list_free(list);
	return is_good ? 0 : verb_failure_code(arguments->verb);
}

int use_configured_modes(const struct arguments *arguments, struct session *session, struct vg_vgpu_options *options)
{
	const struct config *config = &session->config;
	const char *usual = config->values[CONFIG_SHARING];

	if (option_value(arguments, "mode"))
		return 0;
	if (usual)
		options->mode = configured_mode(usual);
	int r = config->device_count ? check_devices(arguments, session) : 0;
	if (r || !config->device_count)
		return r;
	session->device_modes = calloc(config->device_count, sizeof *session->device_modes);
	if (!session->device_modes) {
		say_error("no memory for the modes of %zu GPUs", config->device_count);
		return verb_failure_code(arguments->verb);
	}
	for (size_t i = 0; i < config->device_count; i++)
		session->device_modes[i] =
			(struct vg_device_mode){config->devices[i].gpu, configured_mode(config->devices[i].sharing)};
	options->device_modes = session->device_modes;
	options->device_mode_count = config->device_count;
	return 0;
}

const char *mode_text(enum vg_sharing_mode mode)
{
	return modes[mode];
}

const char *terms_text(unsigned share, int share_limit, enum vg_scheduling_class class, char buffer[TERMS_TEXT])
{
	const char *class_text = class == VG_CLASS_LATENCY ? ", latency class" : "";

	if (share)
		snprintf(buffer, TERMS_TEXT, "%s%u %%%s", share_limit ? "at most " : "", share, class_text);
	else
		snprintf(buffer, TERMS_TEXT, "none%s", class_text);
	return buffer;
}

const char *share_text(unsigned share, char buffer[TERMS_TEXT])
{
	if (share)
		snprintf(buffer, TERMS_TEXT, "%u %%", share);
	else
		strcpy(buffer, "-");
	return buffer;
}

const char *duration_text(uint64_t ns, int known, char buffer[TERMS_TEXT])
{
	uint64_t tenths = (ns + 50000000) / 100000000;
	unsigned long long seconds = (ns + 500000000) / 1000000000, minutes = seconds / 60, hours = minutes / 60;

	if (!known)
		strcpy(buffer, "-");
	else if (tenths < 600)
		snprintf(buffer, TERMS_TEXT, "%.1f s", (double)tenths / 10);
	else if (hours == 0)
		snprintf(buffer, TERMS_TEXT, "%llum%02llus", minutes, seconds % 60);
	else if (hours < 24)
		snprintf(buffer, TERMS_TEXT, "%lluh%02llum", hours, minutes % 60);
	else
		snprintf(buffer, TERMS_TEXT, "%llud%02lluh", hours / 24, hours % 24);
	return buffer;
}

const char *percent_text(double percent, int known, char buffer[TERMS_TEXT])
{
	if (known)
		snprintf(buffer, TERMS_TEXT, "%.1f %%", percent);
	else
		strcpy(buffer, "-");
	return buffer;
}

void print_missed_share(const struct vg_vgpu_info *vgpu, FILE *out)
{
	char line[512], share[48] = "";

	if (!vgpu->turns.known || vgpu->turns.held)
		return;
	if (vgpu->share)
		snprintf(share, sizeof share, "the share of %u %% is not being held: ", vgpu->share);
	snprintf(line, sizeof line, "%s: %s%s", vgpu->name, share, vgpu->turns.reason);
	fprintf(out, "%s\n", vg_make_printable(line));
}

void print_terms(const struct vg_vgpu_info *vgpu)
{
	const struct vg_turns_info *turns = &vgpu->turns;
	char text[2][TERMS_TEXT];

	print_line("%-11s%s", "share", terms_text(vgpu->share, vgpu->share_limit, vgpu->scheduling_class, text[0]));
	if (vgpu->mode == VG_MODE_MPS)
		print_line("%-11smps: %s", "mode", MPS_COST);
	else
		print_line("%-11s%s", "mode", mode_text(vgpu->mode));
	if (!turns->known)
		return;
	print_line("%-11s%s: %s", "held", turns->held ? "yes" : "no", turns->reason);
	print_line("%-11s%s in the last 10 s, entitled to %s among the vGPUs active now", "measured",
		   percent_text(turns->recent, 1, text[0]), percent_text(turns->weight, 1, text[1]));
	print_line("%-11s%s used, %s waited, %llu turns", "GPU time", duration_text(turns->gpu_ns, 1, text[0]),
		   duration_text(turns->waited_ns, 1, text[1]), (unsigned long long)turns->turns);
	print_line("%-11s%.1f ms, %.1f handovers per second", "quantum", (double)turns->quantum_ns / 1e6,
		   turns->handovers);
	print_line("%-11s%s", "holder", *turns->holder ? turns->holder : "none");
}

json_t *turns_json(const struct vg_turns_info *turns)
{
	if (!turns->known)
		return json_null();
	return json_pack("{s:s, s:b, s:s, s:f, s:f, s:f, s:f, s:I, s:o, s:f, s:f}", "mode", turns->mode, "held",
			 turns->held, "reason", turns->reason, "recent", turns->recent, "weight", turns->weight,
			 "gpu_time", (double)turns->gpu_ns / 1e9, "waited", (double)turns->waited_ns / 1e9, "turns",
			 (json_int_t)turns->turns, "holder", text_or_null(turns->holder), "quantum",
			 (double)turns->quantum_ns / 1e9, "handovers", turns->handovers);
}
