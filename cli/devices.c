// devices: lists the GPUs of the daemon's machine, how much of their memory the limits of vGPUs reserve, and the
// profiles.
#include <stdio.h>

#include "base/size.h"
#include "list.h"
#include "session.h"
#include "options.h"
#include "profiles.h"
#include "say.h"

static void print_table(const struct vg_device_list *list)
{
	struct table table = {.columns = 8, .right = {[3] = true, [4] = true, [5] = true, [6] = true}};
	char index[CELL_TEXT], memory[CELL_TEXT], used[CELL_TEXT], reserved[CELL_TEXT], vgpus[CELL_TEXT], name[128];

	table_add(&table,
		  (const char *const[]){"DEVICE", "UUID", "NAME", "MEMORY", "USED", "RESERVED", "VGPUS", "DRIVER"});
	for (size_t i = 0; i < list->count; i++) {
		const struct vg_device_info *device = &list->devices[i];
		snprintf(index, sizeof index, "%d", device->index);
		snprintf(vgpus, sizeof vgpus, "%u", device->vgpus);
		snprintf(name, sizeof name, "%.90s%s", device->name, device->simulated ? " (simulated)" : "");
		table_add(&table,
			  (const char *const[]){index, device->uuid, name, vg_size_format(device->memory, memory),
						size_or_unknown(device->memory_used, device->memory_used_known, used),
						vg_size_format(device->reserved, reserved), vgpus, device->driver});
	}
	table_print(&table);
	for (size_t i = 0; i < list->count; i++)
		if (list->devices[i].drained)
			print_line("GPU %d is drained: no new vGPUs and programs start on it", list->devices[i].index);
}

static int print_devices(const struct config *config, const struct vg_device_list *list)
{
	json_t *array = json_array();

	for (size_t i = 0; i < list->count; i++) {
		const struct vg_device_info *device = &list->devices[i];
		json_t *used = device->memory_used_known ? json_integer((json_int_t)device->memory_used) : json_null();
		json_array_append_new(
			array, json_pack("{s:i, s:s, s:s, s:I, s:o, s:I, s:i, s:s, s:s, s:b, s:b, s:i, s:i}", "index",
					 device->index, "uuid", device->uuid, "name", device->name, "memory",
					 (json_int_t)device->memory, "memory_used", used, "reserved",
					 (json_int_t)device->reserved, "vgpus", (int)device->vgpus,
					 "compute_capability", device->compute_capability, "driver", device->driver,
					 "simulated", device->simulated, "drained", device->drained, "in_use",
					 (int)device->in_use, "waiting", (int)device->waiting));
	}
	return print_json(json_pack("{s:o, s:o}", "devices", array, "profiles", profiles_json(config, list)));
}

static int show_devices(const struct session *session, const struct arguments *arguments)
{
	struct vg_device_list *list;
	int r = EXIT_OK;

	if (vg_device_list(session->node, &list))
		return fail_with_last_error(arguments);
	if (option_value(arguments, "json")) {
		r = print_devices(&session->config, list);
	} else {
		print_table(list);
		print_profiles(&session->config, list);
	}
	vg_device_list_free(list);
	return r;
}

static int run_devices(const struct arguments *arguments)
{
	struct session session;

	int r = session_open(&session, arguments);
	if (r)
		return r;
	r = show_devices(&session, arguments);
	session_close(&session);
	return r;
}

static const struct option options[] = {OPTION_JSON, OPTION_SIM, {0}};

const struct verb verb_devices = {
	.name = "devices",
	.synopsis = "[--json] [--sim]",
	.summary = "List the GPUs, what vGPUs reserve on each, and the profiles",
	.options = options,
	.run = run_devices,
};
