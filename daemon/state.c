#include "daemon/state.h"

#include "daemon/drain.h"
#include "daemon/options.h"
#include "daemon/overhead.h"
#include "daemon/path.h"
#include "daemon/say.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static json_t *write_groups(const struct vgpu *vgpu)
{
	json_t *array = json_array();

	for (unsigned int i = 0; i < vgpu->owner_group_count; i++)
		json_array_append_new(array, json_integer(vgpu->owner_groups[i]));
	return array;
}

static json_t *write_vgpu(const struct node *node, const struct vgpu *vgpu)
{
	json_t *state = json_pack("{s:s, s:s, s:I, s:I, s:f}", "name", vgpu->name, "uuid",
				  vg_system_device(node->system, vgpu->device)->uuid_text, "memory",
				  (json_int_t)vgpu->memory, "owner", (json_int_t)vgpu->owner, "created", vgpu->created);

	options_write_terms(state, &vgpu->terms);
	options_write_eviction(state, vgpu);
	if (*vgpu->job)
		json_object_set_new(state, "job", json_string(vgpu->job));
	if (vgpu->job_gpus) // the job still lacks GPUs
		json_object_set_new(state, "job_gpus", json_integer(vgpu->job_gpus));
	if (vgpu->owner_group_count)
		json_object_set_new(state, "owner_groups", write_groups(vgpu));
	if (vgpu->group != (gid_t)-1)
		json_object_set_new(state, "group", json_integer(vgpu->group));
	return state;
}

static json_t *write_overheads(const struct node *node)
{
	json_t *array = json_array();

	for (const struct overhead *one = node->overheads; one && !node->system_wide; one = one->next)
		json_array_append_new(array, json_pack("{s:s, s:s, s:I}", "gpu", one->gpu, "driver", one->driver,
						       "bytes", (json_int_t)one->bytes));
	return array;
}

// Entries of vGPUs whose GPU is missing, for the state file.
static json_t *kept_entries;

void state_keep_entry(json_t *entry)
{
	if (!kept_entries)
		kept_entries = json_array();
	json_array_append(kept_entries, entry);
}

char *state_text(const struct node *node)
{
	json_t *vgpus = kept_entries ? json_copy(kept_entries) : json_array();

	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		if (!vgpu->ephemeral)
			json_array_append_new(vgpus, write_vgpu(node, vgpu));
	json_t *state = json_pack("{s:i, s:o, s:o, s:o}", "schema", STATE_SCHEMA, "vgpus", vgpus, "overheads",
				  write_overheads(node), "drained", drain_write(node));
	char *text = state ? json_dumps(state, JSON_INDENT(1)) : NULL;
	json_decref(state);
	return text;
}

// Describes the container whose first process is the launcher. NULL: it is the first process of no container.
static json_t *write_container(const struct launcher *launcher)
{
	if (!*launcher->container)
		return NULL;
	return json_pack("{s:s, s:s, s:b, s:I}", "id", launcher->container, "image", launcher->image, "kill_outside",
			 (int)launcher->kills_outside, "user", (json_int_t)launcher->container_user);
}

static json_t *write_launchers(const struct vgpu *vgpu)
{
	json_t *array = json_array();

	for (const struct launcher *launcher = vgpu->launchers; launcher; launcher = launcher->next)
		json_array_append_new(array, json_pack("[i, I, o*]", (int)launcher->pid,
						       (json_int_t)launcher->start_time, write_container(launcher)));
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
		json_t *state = write_vgpu(node, vgpu);
		json_object_set_new(state, "ephemeral", json_boolean(vgpu->ephemeral));
		json_object_set_new(state, "launchers", write_launchers(vgpu));
		json_array_append_new(vgpus, state);
	}
	json_t *state = json_pack("{s:i, s:o}", "schema", STATE_SCHEMA, "vgpus", vgpus);
	char *text = state ? json_dumps(state, JSON_COMPACT) : NULL;
	path_format(node, path, "vgpus.json");
	int r = text ? path_write(path, text, 0600) : -ENOMEM;
	if (r < 0)
		say("%s/vgpus.json cannot be written: %s", node->runtime_dir, strerror(-r));
	free(text);
	json_decref(state);
}
