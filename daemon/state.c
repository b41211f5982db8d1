// What survives the daemon. Created vGPUs and, of a user's own daemon, measured overheads: a file on disk, synced.
// Ephemeral vGPUs and launchers: a file in the runtime folder, gone with a reboot as they are.
#include "base/descriptor.h"
#include "daemon/eviction.h"
#include "daemon/terms.h"
#include "daemon/node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STATE_SCHEMA = 1, STATE_MOST = 16 << 20 };

static json_t *vgpu_state(const struct node *node, const struct vgpu *vgpu)
{
	json_t *state =
		json_pack("{s:s, s:s, s:I, s:I, s:f}", "name", vgpu->name, "uuid",
			  vg_system_device(node->system, vgpu->device)->uuid_text, "memory", (json_int_t)vgpu->memory,
			  "owner", (json_int_t)vgpu->owner, "created", vgpu->created);

	terms_write(state, &vgpu->terms);
	eviction_write(state, vgpu);
	if (vgpu->group != (gid_t)-1)
		json_object_set_new(state, "group", json_integer(vgpu->group));
	return state;
}

static json_t *overheads_state(const struct node *node)
{
	json_t *array = json_array();

	for (const struct overhead *one = node->overheads; one && !node->system_wide; one = one->next)
		json_array_append_new(array, json_pack("{s:s, s:s, s:I}", "gpu", one->gpu, "driver", one->driver,
						       "bytes", (json_int_t)one->bytes));
	return array;
}

// Read anew and kept: vGPUs of a GPU that is not there today come back with it.
static json_t *unknown_vgpus;

char *state_text(const struct node *node)
{
	json_t *vgpus = unknown_vgpus ? json_copy(unknown_vgpus) : json_array();

	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		if (!vgpu->ephemeral)
			json_array_append_new(vgpus, vgpu_state(node, vgpu));
	json_t *state = json_pack("{s:i, s:o, s:o}", "schema", STATE_SCHEMA, "vgpus", vgpus, "overheads",
				  overheads_state(node));
	char *text = state ? json_dumps(state, JSON_INDENT(1)) : NULL;
	json_decref(state);
	return text;
}

static json_t *launchers_state(const struct vgpu *vgpu)
{
	json_t *array = json_array();

	for (const struct launcher *launcher = vgpu->launchers; launcher; launcher = launcher->next)
		json_array_append_new(array, json_pack("[i, I]", (int)launcher->pid, (json_int_t)launcher->start_time));
	return array;
}

void state_save_runtime(struct node *node)
{
	char path[PATH_MAX];
	json_t *vgpus = json_array();

	node->runtime_is_stale = false;
	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next) {
		if (!vgpu->ephemeral && !vgpu->launchers)
			continue;
		json_t *state = vgpu_state(node, vgpu);
		json_object_set_new(state, "ephemeral", json_boolean(vgpu->ephemeral));
		json_object_set_new(state, "launchers", launchers_state(vgpu));
		json_array_append_new(vgpus, state);
	}
	json_t *state = json_pack("{s:i, s:o}", "schema", STATE_SCHEMA, "vgpus", vgpus);
	char *text = state ? json_dumps(state, JSON_COMPACT) : NULL;
	place_path(node, path, "vgpus.json");
	int r = text ? place_write(path, text, 0600) : -ENOMEM;
	if (r < 0)
		say("%s/vgpus.json cannot be written: %s", node->runtime_dir, strerror(-r));
	free(text);
	json_decref(state);
}

static bool find_device(const struct node *node, const char *uuid, size_t *ret_device)
{
	for (size_t i = 0; uuid && i < vg_system_device_count(node->system); i++) {
		if (strcmp(vg_system_device(node->system, i)->uuid_text, uuid) == 0) {
			*ret_device = i;
			return true;
		}
	}
	return false;
}

static bool read_vgpu(const struct node *node, const json_t *state, struct vgpu *ret_vgpu)
{
	const char *name = json_string_value(json_object_get(state, "name"));
	const json_t *group = json_object_get(state, "group");
	json_int_t memory = json_integer_value(json_object_get(state, "memory"));
	struct vgpu vgpu = {.memory = (uint64_t)memory};

	if (!name || !registry_name_is_valid(name) || memory <= 0 || !terms_read(state, &vgpu.terms) ||
	    !eviction_read(state, &vgpu))
		return false;
	if (!find_device(node, json_string_value(json_object_get(state, "uuid")), &vgpu.device))
		return false;
	snprintf(vgpu.name, sizeof vgpu.name, "%s", name);
	vgpu.owner = (uid_t)json_integer_value(json_object_get(state, "owner"));
	vgpu.group = json_is_integer(group) ? (gid_t)json_integer_value(group) : (gid_t)-1;
	vgpu.created = json_number_value(json_object_get(state, "created"));
	vgpu.ephemeral = json_is_true(json_object_get(state, "ephemeral"));
	*ret_vgpu = vgpu;
	return true;
}

static void adopt_launchers(struct node *node, struct vgpu *vgpu, const json_t *launchers)
{
	size_t i;
	json_t *one;

	json_array_foreach(launchers, i, one)
		launcher_adopt(node, vgpu, (pid_t)json_integer_value(json_array_get(one, 0)),
			       (uint64_t)json_integer_value(json_array_get(one, 1)), false);
}

static void adopt(struct node *node, json_t *state, bool created)
{
	struct vgpu wanted, *vgpu = NULL;

	if (!read_vgpu(node, state, &wanted)) {
		const char *name = json_string_value(json_object_get(state, "name"));
		say("vGPU %s cannot be taken over: its GPU is not here, or its entry is damaged",
		    name ? name : "without a name");
		if (created)
			json_array_append(unknown_vgpus, state);
		return;
	}
	vgpu = registry_find(node, wanted.name);
	int r = vgpu || (!created && !wanted.ephemeral) ? 0 : registry_adopt(node, &wanted, &vgpu);
	if (r < 0)
		say("vGPU %s cannot be taken over: %s", wanted.name, strerror(-r));
	if (r < 0 && created)
		json_array_append(unknown_vgpus, state);
	if (r == 0 && vgpu)
		adopt_launchers(node, vgpu, json_object_get(state, "launchers"));
}

// NULL where there is no such file; a file that cannot be understood is kept beside, not lost.
static json_t *read_file(const char *path)
{
	char *text = malloc(STATE_MOST), aside[PATH_MAX + 16];
	json_error_t error;

	ssize_t length = text ? vg_file_read(path, text, STATE_MOST) : -ENOMEM;
	json_t *state = length >= 0 ? json_loads(text, JSON_REJECT_DUPLICATES, &error) : NULL;
	free(text);
	if (length < 0 && length != -ENOENT)
		say("%s cannot be read: %s", path, strerror((int)-length));
	if (length < 0)
		return NULL;
	if (state && json_integer_value(json_object_get(state, "schema")) == STATE_SCHEMA)
		return state;
	snprintf(aside, sizeof aside, "%s.damaged", path);
	say("%s is not a state file (%s): moved to %s", path, state ? "another schema" : error.text, aside);
	rename(path, aside);
	json_decref(state);
	return NULL;
}

static void load_overheads(struct node *node, const json_t *array)
{
	size_t i;
	json_t *one;

	json_array_foreach(array, i, one) {
		const char *gpu = json_string_value(json_object_get(one, "gpu"));
		const char *driver = json_string_value(json_object_get(one, "driver"));
		if (gpu && driver && !node->system_wide)
			overhead_remember(node, geteuid(), gpu, driver,
					  (uint64_t)json_integer_value(json_object_get(one, "bytes")));
	}
}

int state_load(struct node *node)
{
	char path[PATH_MAX];
	json_t *state = read_file(node->state_path), *one;
	size_t i;

	unknown_vgpus = json_array();
	load_overheads(node, json_object_get(state, "overheads"));
	json_array_foreach(json_object_get(state, "vgpus"), i, one)
		adopt(node, one, true);
	json_decref(state);
	place_path(node, path, "vgpus.json");
	state = read_file(path);
	json_array_foreach(json_object_get(state, "vgpus"), i, one)
		adopt(node, one, false);
	json_decref(state);
	registry_adopt_strays(node);
	state_save_runtime(node);
	return 0;
}
