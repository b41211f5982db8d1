#include "vgpu/visible.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hint.h"
#include "base/status.h"
#include "node/node.h"
#include "system/system.h"
#include "vgpu/lists.h"
#include "vgpu/options.h"

enum { PREFIX = 4, ENTRY = 64 }; // PREFIX: length of "GPU-"; ENTRY: an entry that names a GPU is shorter than this

struct visible {
	struct vg_node *node;
	const char *text; // value of CUDA_VISIBLE_DEVICES
	struct vg_device_list *devices;
	// The GPUs in the order in which CUDA numbers them for this process. They are read only when an entry needs
	// them.
	bool counted;
	size_t count;
	char uuids[VG_SYSTEM_DEVICES][VG_SYSTEM_UUID_TEXT];
	bool shown[VG_SYSTEM_DEVICES]; // which of the daemon's `devices` are visible
};

// Reads the GPUs from NVML in this process, not from the daemon: a device cgroup or a container may hide GPUs from this
// process, and CUDA does not count hidden ones.
static enum vg_status count_real_gpus(struct visible *visible)
{
	struct vg_system *system;
	char problem[256], sim[VG_HINT_SIM];

	if (vg_system_open(&system, problem, sizeof problem))
		return vg_fail(VG_NVML, 0,
			       "CUDA_VISIBLE_DEVICES=\"%.100s\" counts GPUs, and NVML does not say in what order: %s; "
			       "write whole UUIDs (`virgate devices%s`)",
			       visible->text, problem, vg_hint_sim(visible->node->simulate, sim));
	visible->count = vg_system_device_count(system);
	for (size_t i = 0; i < visible->count; i++)
		memcpy(visible->uuids[i], vg_system_device(system, i)->uuid_text, VG_SYSTEM_UUID_TEXT);
	vg_system_close(system);
	return VG_OK;
}

static enum vg_status count_gpus(struct visible *visible)
{
	enum vg_status status = VG_OK;

	if (visible->counted)
		return VG_OK;
	if (!*visible->node->simulate)
		status = count_real_gpus(visible);
	else
		for (size_t i = 0; i < visible->devices->count && i < VG_SYSTEM_DEVICES; i++)
			snprintf(visible->uuids[visible->count++], VG_SYSTEM_UUID_TEXT, "%s",
				 visible->devices->devices[i].uuid);
	visible->counted = status == VG_OK;
	return status;
}

// Returns the index of a GPU in the daemon's list of devices; -1 if the daemon does not serve this GPU.
static int find_device(const struct visible *visible, const char *uuid)
{
	for (size_t i = 0; i < visible->devices->count && i < VG_SYSTEM_DEVICES; i++)
		if (strcasecmp(visible->devices->devices[i].uuid, uuid) == 0)
			return (int)i;
	return -1;
}

// Finds the GPU that an entry names, by an index or the beginning of a UUID, and returns its UUID. NULL: the entry is
// invalid or ambiguous.
static const char *find_counted(const struct visible *visible, const char *entry)
{
	const char *found = NULL;
	char *end;

	if (strncasecmp(entry, "GPU-", PREFIX) != 0) {
		unsigned long index = strtoul(entry, &end, 10);
		return !*end && index < visible->count ? visible->uuids[index] : NULL;
	}
	for (size_t i = 0; i < visible->count; i++) {
		if (strncasecmp(visible->uuids[i], entry, strlen(entry)) != 0)
			continue;
		if (found)
			return NULL;
		found = visible->uuids[i];
	}
	return found;
}

// Marks a device as visible if this entry of CUDA_VISIBLE_DEVICES names it. An invalid entry ends the list: then sets
// *ret_end. A valid entry may name a GPU that the daemon does not serve; no device is marked then.
static enum vg_status mark_entry(struct visible *visible, const char *entry, bool *ret_end)
{
	int device = find_device(visible, entry); // finds a complete UUID; count_gpus() is then not needed

	if (strncasecmp(entry, "MIG-", PREFIX) == 0)
		return vg_fail(VG_UNSUPPORTED, 0,
			       "CUDA_VISIBLE_DEVICES=\"%.100s\" names a MIG instance, and a vGPU is a part of a whole "
			       "GPU: name the GPU",
			       visible->text);
	if (device < 0 && !isdigit((unsigned char)*entry) && strncasecmp(entry, "GPU-", PREFIX) != 0) {
		*ret_end = true; // an invalid entry, such as "-1" or "NoDevFiles", ends the list
		return VG_OK;
	}
	if (device < 0) {
		enum vg_status status = count_gpus(visible);
		if (status)
			return status;
		const char *uuid = find_counted(visible, entry);
		*ret_end = !uuid;
		device = uuid ? find_device(visible, uuid) : -1;
	}
	if (device < 0)
		return VG_OK;
	if (visible->shown[device]) { // the list names this GPU twice: CUDA then shows no device at all
		memset(visible->shown, 0, sizeof visible->shown);
		*ret_end = true;
		return VG_OK;
	}
	visible->shown[device] = true;
	return VG_OK;
}

static enum vg_status read_entries(struct visible *visible)
{
	const char *at = visible->text;
	enum vg_status status = VG_OK;
	char entry[ENTRY];
	bool end = false;

	while (status == VG_OK && !end) {
		size_t length = strcspn(at, ",");
		const char *next = at[length] ? at + length + 1 : NULL;
		size_t blank = strspn(at, " \t");
		blank = blank < length ? blank : length;
		size_t word = strcspn(at + blank, " \t,");
		if (word == 0 || word >= sizeof entry)
			break; // the entry is invalid
		snprintf(entry, sizeof entry, "%.*s", (int)word, at + blank);
		status = mark_entry(visible, entry, &end);
		if (!next)
			break;
		at = next;
	}
	return status;
}

// Asks the daemon for its GPUs and marks those that are visible. The caller calls close_list(), also after a failure.
static enum vg_status read_list(struct vg_node *node, const char *text, struct visible *visible)
{
	json_t *reply;

	*visible = (struct visible){.node = node, .text = text};
	enum vg_status status = vg_node_request(node, json_pack("{s:s}", "op", "devices"), &reply);
	if (status == VG_OK)
		status = vg_lists_devices(reply, &visible->devices);
	return status ? status : read_entries(visible);
}

static void close_list(struct visible *visible)
{
	vg_device_list_free(visible->devices);
}

// Formats the visible GPUs: "GPU 1", "GPU 0 and 2", "no GPU".
static const char *format_shown(const struct visible *visible, char text[128])
{
	size_t left = 0, length = (size_t)snprintf(text, 128, "GPU");

	for (size_t i = 0; i < VG_SYSTEM_DEVICES; i++)
		left += visible->shown[i];
	if (!left)
		return "no GPU";
	for (size_t i = 0, put = 0; i < visible->devices->count && length < 128; i++)
		if (visible->shown[i]) {
			const char *before = put == 0 ? " " : put == left - 1 ? " and " : ", ";
			length += (size_t)snprintf(text + length, 128 - length, "%s%d", before,
						   visible->devices->devices[i].index);
			put++;
		}
	return text;
}

static enum vg_status fail_hidden(const struct visible *visible, const char *what, int device)
{
	char text[128], sim[VG_HINT_SIM];

	return vg_fail(VG_INVALID, 0,
		       "%s GPU %d (%s), and CUDA_VISIBLE_DEVICES=\"%.100s\" shows this process %s: choose a GPU that "
		       "it shows, or change it (`virgate devices%s` lists the numbers)",
		       what, visible->devices->devices[device].index, visible->devices->devices[device].uuid,
		       visible->text, format_shown(visible, text), vg_hint_sim(visible->node->simulate, sim));
}

// Checks that the GPU named in the options is visible. Accepts the name of an unknown GPU, which the daemon refuses.
static enum vg_status check_named(const struct visible *visible, const char *name)
{
	char *end;
	long index = strtol(name, &end, 10);
	int device = find_device(visible, name);

	bool is_index = device < 0 && end != name && !*end;
	for (size_t i = 0; is_index && i < visible->devices->count && i < VG_SYSTEM_DEVICES; i++)
		if (visible->devices->devices[i].index == index)
			device = (int)i;
	return device < 0 || visible->shown[device] ? VG_OK : fail_hidden(visible, "asked for", device);
}

static enum vg_status list_shown(const struct visible *visible, json_t **ret_uuids)
{
	json_t *uuids = json_array();

	for (size_t i = 0; i < visible->devices->count && i < VG_SYSTEM_DEVICES; i++)
		if (visible->shown[i])
			json_array_append_new(uuids, json_string(visible->devices->devices[i].uuid));
	if (json_array_size(uuids) == 0) {
		json_decref(uuids);
		return vg_fail(VG_INVALID, 0,
			       "CUDA_VISIBLE_DEVICES=\"%.100s\" shows this process no GPU, and a vGPU needs one: name "
			       "one there, or unset it",
			       visible->text);
	}
	*ret_uuids = uuids;
	return VG_OK;
}

// Splits a list of GPUs with commas between them.
static json_t *split_devices(const char *list)
{
	json_t *devices = json_array();

	for (size_t length; *list; list += length + (list[length] == ',')) {
		length = strcspn(list, ",");
		json_array_append_new(devices, json_stringn(list, length));
	}
	return devices;
}

// Checks that all GPUs that the options name are visible.
static enum vg_status check_all_named(const struct visible *visible, const json_t *devices)
{
	enum vg_status status = VG_OK;

	for (size_t i = 0; i < json_array_size(devices) && status == VG_OK; i++)
		status = check_named(visible, json_string_value(json_array_get(devices, i)));
	return status;
}

// Adds the members of the request that make the vGPU one of a job. Takes over the reference to `devices`.
static void add_job(json_t *request, const char *job, unsigned gpus, json_t *devices)
{
	json_object_set_new(request, "job", json_string(job));
	json_object_set_new(request, "job_gpus", json_integer(gpus));
	if (devices)
		json_object_set_new(request, "device", devices);
}

enum vg_status vg_visible_request(struct vg_node *node, const char *op, const struct vg_vgpu_options *options,
				  const char *job, json_t **ret_reply)
{
	const char *text = getenv("CUDA_VISIBLE_DEVICES");
	enum vg_status status = VG_OK;
	json_t *shown = NULL, *devices = job && options->device ? split_devices(options->device) : NULL;
	struct visible visible;

	if (text) {
		status = read_list(node, text, &visible);
		if (status == VG_OK && devices)
			status = check_all_named(&visible, devices);
		else if (status == VG_OK)
			status =
				options->device ? check_named(&visible, options->device) : list_shown(&visible, &shown);
		close_list(&visible);
	}
	if (status) {
		json_decref(devices);
		return status;
	}
	json_t *request = vg_options_request(op, options);
	if (job)
		add_job(request, job, options->gpus, devices);
	if (shown)
		json_object_set_new(request, "device", shown);
	return vg_node_request(node, request, ret_reply);
}

static enum vg_status check_vgpu(const struct visible *visible, const char *vgpu, const json_t *vgpus)
{
	const json_t *one;
	char what[128];
	size_t i;

	snprintf(what, sizeof what, "vGPU %s is on", vgpu);
	json_array_foreach((json_t *)vgpus, i, one) {
		const char *name = json_string_value(json_object_get(one, "name"));
		const char *uuid = json_string_value(json_object_get(one, "uuid"));
		int device = name && uuid && strcmp(name, vgpu) == 0 ? find_device(visible, uuid) : -1;
		if (device >= 0 && !visible->shown[device])
			return fail_hidden(visible, what, device);
	}
	return VG_OK;
}

enum vg_status vg_visible_check(struct vg_node *node, const char *vgpu)
{
	const char *text = getenv("CUDA_VISIBLE_DEVICES");
	struct visible visible;
	json_t *reply = NULL;

	if (!text)
		return VG_OK;
	enum vg_status status = read_list(node, text, &visible);
	if (status == VG_OK)
		status = vg_node_request(node, json_pack("{s:s}", "op", "list"), &reply);
	if (status == VG_OK)
		status = check_vgpu(&visible, vgpu, json_object_get(reply, "vgpus"));
	json_decref(reply);
	close_list(&visible);
	return status;
}
