#include "daemon/load.h"

#include "base/descriptor.h"
#include "daemon/container.h"
#include "daemon/drain.h"
#include "daemon/launcher.h"
#include "daemon/options.h"
#include "daemon/overhead.h"
#include "daemon/path.h"
#include "daemon/registry.h"
#include "daemon/say.h"
#include "daemon/state.h"
#include "daemon/vgpu.h"
#include "turn/gang.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STATE_MOST = 16 << 20 }; // the largest state file that is read, in bytes

static void read_groups(struct vgpu *vgpu, const json_t *array)
{
	for (size_t i = 0; i < json_array_size(array) && i < VGPU_GROUPS; i++)
		vgpu->owner_groups[vgpu->owner_group_count++] = (gid_t)json_integer_value(json_array_get(array, i));
}

// Returns how many GPUs the vGPU's job asked for, if the job still lacked some of them; otherwise 0.
static unsigned int read_job_gpus(const json_t *state)
{
	json_int_t gpus = json_integer_value(json_object_get(state, "job_gpus"));

	return json_object_get(state, "job") && gpus >= 2 && gpus <= TURN_PARTS ? (unsigned int)gpus : 0;
}

static bool read_vgpu(const struct node *node, const json_t *state, struct vgpu *ret_vgpu)
{
	const char *name = json_string_value(json_object_get(state, "name"));
	const char *uuid = json_string_value(json_object_get(state, "uuid"));
	const json_t *group = json_object_get(state, "group");
	const char *job = json_string_value(json_object_get(state, "job"));
	json_int_t memory = json_integer_value(json_object_get(state, "memory"));
	struct vgpu vgpu = {.memory = (uint64_t)memory};
	uint8_t bytes[16];

	if (!name || !registry_name_is_valid(name) || memory <= 0 || !options_read_terms(state, &vgpu.terms) ||
	    !options_read_eviction(state, &vgpu))
		return false;
	if (!uuid || !vg_system_uuid_parse(uuid, bytes) || !registry_find_device(node, bytes, &vgpu.device))
		return false;
	snprintf(vgpu.name, sizeof vgpu.name, "%s", name);
	snprintf(vgpu.job, sizeof vgpu.job, "%s", job ? job : "");
	vgpu.job_gpus = read_job_gpus(state);
	vgpu.owner = (uid_t)json_integer_value(json_object_get(state, "owner"));
	vgpu.group = json_is_integer(group) ? (gid_t)json_integer_value(group) : (gid_t)-1;
	vgpu.created = json_number_value(json_object_get(state, "created"));
	vgpu.ephemeral = json_is_true(json_object_get(state, "ephemeral"));
	read_groups(&vgpu, json_object_get(state, "owner_groups"));
	*ret_vgpu = vgpu;
	return true;
}

static void adopt_launchers(struct node *node, struct vgpu *vgpu, const json_t *launchers)
{
	size_t i;
	json_t *one;

	json_array_foreach(launchers, i, one) {
		pid_t pid = (pid_t)json_integer_value(json_array_get(one, 0));
		launcher_adopt(node, vgpu, pid, (uint64_t)json_integer_value(json_array_get(one, 1)), false);
		const json_t *container = json_array_get(one, 2), *user = json_object_get(container, "user");
		container_read(vgpu, pid, container,
			       json_is_integer(user) ? (uid_t)json_integer_value(user) : (uid_t)-1);
	}
}

enum origin { STATE_FILE, RUNTIME_FILE };

// Takes over the vGPU that an entry of the state file describes.
static void adopt_vgpu(struct node *node, json_t *state, enum origin origin)
{
	bool is_created = origin == STATE_FILE;
	struct vgpu wanted, *vgpu = NULL;

	if (!read_vgpu(node, state, &wanted)) {
		const char *name = json_string_value(json_object_get(state, "name"));
		say("vGPU %s cannot be taken over: its GPU is not here, or its entry is damaged",
		    name ? name : "without a name");
		if (is_created)
			state_keep_entry(state);
		return;
	}
	vgpu = registry_find(node, wanted.name);
	int r = vgpu || (!is_created && !wanted.ephemeral) ? 0 : vgpu_adopt(node, &wanted, &vgpu);
	if (r < 0)
		say("vGPU %s cannot be taken over: %s", wanted.name, strerror(-r));
	if (r < 0 && is_created)
		state_keep_entry(state);
	if (r == 0 && vgpu)
		adopt_launchers(node, vgpu, json_object_get(state, "launchers"));
}

// Reads a state file. Returns NULL if it does not exist or is invalid. An invalid file is renamed, so it is not lost.
static json_t *read_state_file(const char *path)
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

void load_state(struct node *node)
{
	char path[PATH_MAX];
	json_t *state = read_state_file(node->state_path), *one;
	size_t i;

	load_overheads(node, json_object_get(state, "overheads"));
	drain_read(node, json_object_get(state, "drained"));
	json_array_foreach(json_object_get(state, "vgpus"), i, one)
		adopt_vgpu(node, one, STATE_FILE);
	json_decref(state);
	path_format(node, path, "vgpus.json");
	state = read_state_file(path);
	json_array_foreach(json_object_get(state, "vgpus"), i, one)
		adopt_vgpu(node, one, RUNTIME_FILE);
	json_decref(state);
	vgpu_adopt_strays(node);
	state_save_runtime(node);
}
