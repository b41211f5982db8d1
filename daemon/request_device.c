// Chooses the GPU of a new vGPU: the one that the request names, or the best of those that it allows.
#include "daemon/admission.h"
#include "daemon/job.h"
#include "daemon/mps.h"
#include "daemon/request_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODES = 2 * VG_SYSTEM_DEVICES }; // each GPU can be named by its index and by its UUID

json_t *find_device(const struct node *node, const char *text, size_t *ret_device)
{
	size_t count = vg_system_device_count(node->system);
	uint8_t uuid[16];
	char *end;

	errno = 0;
	unsigned long index = strtoul(text, &end, 10);
	if (*text >= '0' && *text <= '9' && !*end && errno == 0 && index < count) {
		*ret_device = index;
		return NULL;
	}
	for (size_t i = 0; vg_system_uuid_parse(text, uuid) && i < count; i++) {
		if (memcmp(vg_system_device(node->system, i)->uuid, uuid, sizeof uuid) == 0) {
			*ret_device = i;
			return NULL;
		}
	}
	return refuse("not_found", "there is no GPU %.60s: this node has %zu, see `virgate devices%s`", text, count,
		      sim_flag());
}

static json_t *allow_device(const struct node *node, const json_t *value, bool allowed[VG_SYSTEM_DEVICES])
{
	const char *text = json_string_value(value);
	char number[24];
	size_t device;

	if (json_is_integer(value)) {
		snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
		text = number;
	}
	if (!text || !*text)
		return refuse("invalid", "\"device\" must be a GPU's index or UUID, or a list of them");
	json_t *refusal = find_device(node, text, &device);
	if (!refusal)
		allowed[device] = true;
	return refusal;
}

// Reads "device": a GPU, or a list of GPUs to choose from. Without "device", all GPUs are allowed.
static json_t *read_allowed(const struct request *request, bool allowed[VG_SYSTEM_DEVICES])
{
	const json_t *value = json_object_get(request->object, "device");
	json_t *refusal = NULL;

	if (!value || json_is_null(value))
		for (size_t i = 0; i < vg_system_device_count(request->node->system); i++)
			allowed[i] = true;
	else if (!json_is_array(value) || json_array_size(value) == 0)
		refusal = allow_device(request->node, value, allowed);
	else
		for (size_t i = 0; i < json_array_size(value) && !refusal; i++)
			refusal = allow_device(request->node, json_array_get(value, i), allowed);
	return refusal;
}

static json_t *read_mode(const json_t *value, bool *ret_is_mps)
{
	const char *text = json_string_value(value);

	if (!text || (strcmp(text, "time") != 0 && strcmp(text, "mps") != 0))
		return refuse("invalid", "\"mode\" must be \"time\" or \"mps\", and so must every value of "
					 "\"device_modes\"");
	*ret_is_mps = strcmp(text, "mps") == 0;
	return NULL;
}

// Reads "mode", the sharing mode, and "device_modes", which has other modes for some GPUs.
static json_t *read_modes(const struct request *request, struct vgpu *wanted)
{
	json_t *mode = json_object_get(request->object, "mode"), *value, *refusal;
	json_t *modes = json_object_get(request->object, "device_modes");
	const char *text;
	bool is_mps;

	wanted->terms.is_mps = false;
	if (mode && !json_is_null(mode) && (refusal = read_mode(mode, &wanted->terms.is_mps)))
		return refusal;
	if (modes && !json_is_null(modes) && !json_is_object(modes))
		return refuse("invalid", "\"device_modes\" must be an object: a mode for each GPU, by index or UUID");
	if (json_object_size(modes) > MODES)
		return refuse("invalid", "\"device_modes\" has %zu GPUs, and %d are the most", json_object_size(modes),
			      MODES);
	json_object_foreach(modes, text, value) {
		size_t device = 0;
		if ((refusal = find_device(request->node, text, &device)) || (refusal = read_mode(value, &is_mps)))
			return refusal;
		if (device == wanted->device)
			wanted->terms.is_mps = is_mps;
	}
	return NULL;
}

// Sets the device and what depends on it. Returns NULL or a refusal.
static json_t *set_device(const struct request *request, size_t device, struct vgpu *wanted)
{
	wanted->device = device;
	json_t *refusal = read_modes(request, wanted);
	return refusal ? refusal : read_memory_or_part(request, wanted);
}

// Returns the first vGPU of the new vGPU's job; NULL: not found.
static const struct vgpu *find_of_job(const struct node *node, const struct vgpu *wanted)
{
	const struct vgpu *vgpu = node->vgpus;

	while (vgpu && !job_is_same(wanted, vgpu))
		vgpu = vgpu->next;
	return vgpu;
}

static json_t *refuse_modes(const struct vgpu *wanted, const struct vgpu *first, const size_t devices[2])
{
	if (first)
		return refuse("invalid",
			      "job %s: its vGPU on GPU %zu has the mode %s, and the settings give the mode %s to all "
			      "other GPUs that it may use: all GPUs of a job have one mode; choose it with --mode",
			      wanted->job, first->device, first->terms.is_mps ? "mps" : "time",
			      first->terms.is_mps ? "time" : "mps");
	return refuse("invalid",
		      "job %s: of the GPUs that it may use, the settings give the mode time to %zu and the mode mps to "
		      "%zu, and all %u GPUs of a job have one mode: choose it with --mode, or other GPUs with --device",
		      wanted->job, devices[0], devices[1], wanted->job_gpus);
}

// Marks GPUs as not allowed whose sharing mode the new vGPU's job cannot have. A job has one mode on all of its GPUs:
// that of its first vGPU, or else a mode of at least as many GPUs as the job asks for. Returns NULL, or a refusal if no
// GPU is left.
static json_t *exclude_modes(const struct request *request, struct vgpu *wanted, bool allowed[VG_SYSTEM_DEVICES])
{
	const struct vgpu *first = find_of_job(request->node, wanted);
	size_t devices[2] = {0}; // how many GPUs have the modes time and mps
	bool is_mps[VG_SYSTEM_DEVICES] = {false}, fits[2];
	json_t *refusal;

	for (size_t i = 0; i < VG_SYSTEM_DEVICES; i++) {
		wanted->device = i;
		if (allowed[i] && (refusal = read_modes(request, wanted)))
			return refusal;
		is_mps[i] = wanted->terms.is_mps;
		devices[is_mps[i]] += allowed[i];
	}
	for (int mode = 0; mode < 2; mode++)
		fits[mode] = first ? first->terms.is_mps == mode : devices[mode] >= wanted->job_gpus;
	if (!first && devices[0] + devices[1] < wanted->job_gpus) // exclude_job() refuses a later vGPU
		return NULL;
	if ((!fits[0] || !devices[0]) && (!fits[1] || !devices[1]))
		return refuse_modes(wanted, first, devices);
	for (size_t i = 0; i < VG_SYSTEM_DEVICES; i++)
		allowed[i] = allowed[i] && fits[is_mps[i]];
	return NULL;
}

struct rating {
	enum {
		SUITS_NEVER,
		SUITS_NOT,
		SUITS_LATER,
		SUITS_NOW
	} suits; // NEVER: the device is drained; LATER: the vGPU fits, but no program can enter it now
	uint64_t room;
};

// Checks whether the vGPU fits on the device and can be entered. Returns NULL or a refusal.
static json_t *check_device(const struct request *request, size_t device, const struct vgpu *wanted)
{
	json_t *refusal = refuse_drained(request, device);

	if (!refusal)
		refusal = refuse_queued(request, device);
	if (!refusal)
		refusal = refuse_too_small(request, device, wanted->owner, wanted->memory);
	if (!refusal)
		refusal = admit_share(request, device, &wanted->terms, wanted);
	return refusal ? refusal : mps_admit(wanted);
}

static struct rating rate_device(const struct request *request, size_t device, struct vgpu *wanted)
{
	struct rating rating = {request->node->drains[device].is_set ? SUITS_NEVER : SUITS_NOT, 0};
	json_t *refusal = set_device(request, device, wanted);

	rating.room = admission_room(request->node, device, &wanted->terms, wanted->evictable);
	if (!refusal)
		refusal = check_device(request, device, wanted);
	if (!refusal && wanted->memory <= rating.room) {
		refusal = mps_check(request->node, wanted);
		rating.suits = refusal ? SUITS_LATER : SUITS_NOW;
	}
	json_decref(refusal);
	return rating;
}

static bool is_better(const struct rating *rating, const struct rating *than)
{
	return rating->suits != than->suits ? rating->suits > than->suits : rating->room > than->room;
}

json_t *refuse_queued(const struct request *request, size_t device)
{
	if (!is_queueing(request) || !(request->node->queue.blocked >> device & 1))
		return NULL;
	return refuse("busy", "GPU %zu: %u requests for room wait, and earlier ones come first", device,
		      request->node->waiting[device]);
}

uint64_t find_possible(const struct request *request, const struct vgpu *wanted)
{
	bool allowed[VG_SYSTEM_DEVICES] = {false};
	json_t *refusal = read_allowed(request, allowed);
	uint64_t possible = 0;

	for (size_t i = 0; !refusal && i < vg_system_device_count(request->node->system); i++) {
		struct vgpu empty = *wanted;
		if (!allowed[i])
			continue;
		json_t *wrong = set_device(request, i, &empty);
		if (!wrong)
			wrong = refuse_too_small(request, i, empty.owner, empty.memory);
		if (!wrong)
			wrong = read_eviction(request, &empty);
		if (!wrong && empty.memory <= vg_system_device(request->node->system, i)->memory)
			possible |= UINT64_C(1) << i;
		json_decref(wrong);
	}
	json_decref(refusal);
	return possible;
}

json_t *read_device(const struct request *request, struct vgpu *wanted)
{
	struct rating best = {SUITS_NEVER, 0};
	bool allowed[VG_SYSTEM_DEVICES] = {false}, found = false;
	size_t device = 0;
	json_t *refusal = read_allowed(request, allowed);

	if (!refusal)
		refusal = exclude_job(request, wanted, allowed);
	if (!refusal && *wanted->job)
		refusal = exclude_modes(request, wanted, allowed);
	for (size_t i = 0; !refusal && i < vg_system_device_count(request->node->system); i++) {
		if (!allowed[i])
			continue;
		struct rating rating = rate_device(request, i, wanted);
		if (found && !is_better(&rating, &best))
			continue;
		found = true;
		best = rating;
		device = i;
	}
	if (!refusal)
		refusal = set_device(request, device, wanted);
	if (!refusal && *wanted->job && wanted->terms.is_mps && !wanted->job_gpus)
		refusal = refuse("invalid", "job %s: in the mode mps, \"job_gpus\" must be the number of its GPUs",
				 wanted->job);
	if (!refusal)
		refusal = refuse_drained(request, device);
	return refusal ? refusal : refuse_queued(request, device);
}
