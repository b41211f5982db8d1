// Enters a vGPU: interprets the daemon's reply, and makes the environment in which a program is a tenant.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "node/node.h"
#include "node/paths.h"
#include "vgpu/job.h"
#include "vgpu/options.h"
#include "vgpu/visible.h"

enum { MOST_VARIABLES = 12 };

struct vg_entrance {
	json_t *replies[VG_GPUS_MOST]; // one for each vGPU
	unsigned count;
	const char *name, *ledger; // name and ledger of the first vGPU
	// The ledgers of all vGPUs, separated by ':', and the UUIDs of their GPUs, separated by ','.
	char *ledgers, *uuids;
	const char *mps_pipe; // NULL: the vGPU does not use MPS
	// Values of VIRGATE_SIM and VIRGATE_SIM_DIR from the daemon's reply; NULL: the reply does not have the field.
	const char *simulate, *simulate_dir;
	uint64_t memory;
	char parts[VG_PART_RUNTIME + 1][PATH_MAX]; // path of each library, by enum vg_part
	struct vg_node *node;
	char **environment;
	char *own[MOST_VARIABLES];
	size_t own_count;
};

// Finds the path of a library. A missing library must be an error here: the dynamic linker would only print a warning,
// and run the program without it.
static enum vg_status find_part(const struct vg_node *node, enum vg_part part, char ret_path[PATH_MAX])
{
	const char *said = secure_getenv("VIRGATE_LIBDIR"), *libdir = *node->libdir ? node->libdir : said ? said : "";

	bool is_found = vg_paths_find(part, node->libdir, ret_path);
	if (!is_found && part == VG_PART_RUNTIME) { // builds without a CUDA toolkit have no runtime library
		*ret_path = '\0';
		return VG_OK;
	}
	if (!is_found)
		return vg_fail(VG_SYSTEM, ENOENT,
			       "%s is not %s%.200s: reinstall, or name its directory in VIRGATE_LIBDIR",
			       vg_paths_file(part), *libdir ? "in " : "where it was installed", libdir);
	if (part <= VG_PART_NVML && strpbrk(ret_path, " :\t"))
		return vg_fail(VG_SYSTEM, EINVAL,
			       "LD_PRELOAD cannot hold the path \"%.500s\" (a space or a colon): install elsewhere",
			       ret_path);
	if (part == VG_PART_RUNTIME && strpbrk(ret_path, ":;"))
		return vg_fail(
			VG_SYSTEM, EINVAL,
			"LD_LIBRARY_PATH cannot hold the path \"%.500s\" (a colon or a semicolon): install elsewhere",
			ret_path);
	return VG_OK;
}

static const char *reply_text(const struct vg_entrance *entrance, unsigned index, const char *key)
{
	return json_string_value(json_object_get(entrance->replies[index], key));
}

// Returns the directory of the MPS server; NULL: the programs do not use MPS. In a job, only the reply for the vGPU
// that was entered last names the directory.
static const char *find_mps_pipe(const struct vg_entrance *entrance)
{
	const char *pipe = NULL;

	for (unsigned i = 0; i < entrance->count && !pipe; i++)
		pipe = reply_text(entrance, i, "mps_pipe");
	return pipe;
}

// Joins the texts that all replies have under `key`, with `between` between them. Returns NULL if a reply has no such
// text, or if there is no memory.
static char *join_texts(const struct vg_entrance *entrance, const char *key, const char *between)
{
	char *all = strdup(""), *longer;

	for (unsigned i = 0; i < entrance->count && all; i++) {
		const char *text = reply_text(entrance, i, key);
		if (!text || asprintf(&longer, "%s%s%s", all, i ? between : "", text) < 0)
			longer = NULL;
		free(all);
		all = longer;
	}
	return all;
}

static enum vg_status read_reply(struct vg_entrance *entrance)
{
	const json_t *reply = entrance->replies[0], *memory = json_object_get(reply, "memory");

	entrance->name = reply_text(entrance, 0, "name");
	entrance->ledger = reply_text(entrance, 0, "ledger");
	entrance->ledgers = join_texts(entrance, "ledger", ":");
	entrance->uuids = join_texts(entrance, "uuid", ",");
	entrance->mps_pipe = find_mps_pipe(entrance);
	entrance->simulate = reply_text(entrance, 0, "simulate");
	entrance->simulate_dir = reply_text(entrance, 0, "simulate_dir");
	entrance->memory = (uint64_t)json_integer_value(memory);
	if (!entrance->name || !entrance->ledgers || !entrance->uuids || *entrance->ledger != '/' ||
	    !json_is_integer(memory))
		return vg_fail(VG_PROTOCOL, 0, "the daemon's reply lacks the vGPU's name, ledger, GPU or limit");
	if (entrance->count > 1 && strchr(entrance->ledger, ':'))
		return vg_fail(VG_SYSTEM, EINVAL,
			       "VIRGATE_LEDGERS cannot hold the path \"%.500s\" (a colon): choose another runtime "
			       "directory for the daemon",
			       entrance->ledger);
	return VG_OK;
}

static enum vg_status request_entrance(struct vg_node *node, const char *name, const struct vg_vgpu_options *options,
				       struct vg_entrance *entrance)
{
	struct vg_vgpu_options all;
	enum vg_status status = name ? VG_OK : vg_options_check(options, &all);

	if (status)
		return status;
	if (name || all.gpus <= 1) {
		entrance->count = 1;
		return vg_enter_request(node, name, options, &entrance->replies[0]);
	}
	status = vg_job_enter(node, &all, entrance->replies);
	entrance->count = status == VG_OK ? all.gpus : 0;
	return status;
}

enum vg_status vg_enter_request(struct vg_node *node, const char *name, const struct vg_vgpu_options *options,
				json_t **ret_reply)
{
	struct vg_vgpu_options all;
	enum vg_status status;

	if (name) {
		status = vg_check_name(name);
		if (status == VG_OK)
			status = vg_visible_check(node, name);
		return status ? status
			      : vg_node_request(node, json_pack("{s:s, s:s}", "op", "enter", "vgpu", name), ret_reply);
	}
	status = vg_options_check(options, &all);
	if (status == VG_OK && all.name)
		status = vg_check_name(all.name);
	return status ? status : vg_visible_request(node, "enter", &all, NULL, ret_reply);
}

enum vg_status vg_vgpu_enter(struct vg_node *node, const char *name, const struct vg_vgpu_options *options,
			     struct vg_entrance **ret_entrance)
{
	VG_ENTRY();
	enum vg_status status = VG_OK;

	VG_NEEDED(node);
	VG_NEEDED(ret_entrance);
	struct vg_entrance *entrance = calloc(1, sizeof *entrance);
	if (!entrance)
		return vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for an entrance");
	entrance->node = node;
	for (enum vg_part part = VG_PART_CUDA; part <= VG_PART_RUNTIME && status == VG_OK; part++)
		if (part <= VG_PART_NVML || *node->simulate)
			status = find_part(node, part, entrance->parts[part]);
	if (status == VG_OK)
		status = request_entrance(node, name, options, entrance);
	if (status == VG_OK)
		status = read_reply(entrance);
	if (status) {
		vg_entrance_free(entrance);
		return status;
	}
	*ret_entrance = entrance;
	return VG_OK;
}

static void free_environment(struct vg_entrance *entrance)
{
	for (size_t i = 0; i < entrance->own_count; i++)
		free(entrance->own[i]);
	entrance->own_count = 0;
	free(entrance->environment);
	entrance->environment = NULL;
}

void vg_entrance_free(struct vg_entrance *entrance)
{
	if (!entrance)
		return;
	free_environment(entrance);
	for (unsigned i = 0; i < entrance->count; i++)
		json_decref(entrance->replies[i]);
	free(entrance->ledgers);
	free(entrance->uuids);
	free(entrance);
}

const char *vg_entrance_name(const struct vg_entrance *entrance)
{
	return entrance ? entrance->name : "";
}

const char *vg_entrance_ledger(const struct vg_entrance *entrance)
{
	return entrance ? entrance->ledger : "";
}

uint64_t vg_entrance_memory(const struct vg_entrance *entrance)
{
	return entrance ? entrance->memory : 0;
}

static const char *find_variable(char *const *base, const char *name)
{
	size_t length = strlen(name);

	for (; base && *base; base++)
		if (strncmp(*base, name, length) == 0 && (*base)[length] == '=')
			return *base + length + 1;
	return "";
}

// Copies the libraries in LD_PRELOAD, each after a colon. Leaves out interposers, because entering a vGPU replaces the
// vGPU that the caller is in.
static void copy_other_preloads(const char *before, char *ret_text)
{
	char *end = ret_text;

	while (*before) {
		size_t length = strcspn(before, ": ");
		const char *name = before;
		for (size_t i = 0; i < length; i++)
			if (before[i] == '/')
				name = before + i + 1;
		if (length && strncmp(name, "libvirgate-", 11) != 0)
			end += sprintf(end, ":%.*s", (int)length, before);
		before += length + (before[length] != '\0');
	}
	*end = '\0';
}

static bool add_variable(struct vg_entrance *entrance, const char *name, const char *value)
{
	char *text;

	if (asprintf(&text, "%s=%s", name, value) < 0)
		return false;
	entrance->own[entrance->own_count++] = text;
	return true;
}

// Puts the directory of Virgate's CUDA runtime library first in LD_LIBRARY_PATH, unless it is there already. NVIDIA's
// runtime library does not run on the simulated GPU. Returns false if there is no memory.
static bool add_runtime_directory(struct vg_entrance *entrance, const char *before)
{
	const char *library = entrance->parts[VG_PART_RUNTIME];
	char *value;

	if (!*library)
		return true;
	int length = (int)(strrchr(library, '/') - library);
	while (strncmp(before, library, (size_t)length) == 0 && (before[length] == ':' || !before[length]))
		before += length + (before[length] == ':');
	if (asprintf(&value, "%.*s%s%s", length, library, *before ? ":" : "", before) < 0)
		return false;
	bool added = add_variable(entrance, "LD_LIBRARY_PATH", value);
	free(value);
	return added;
}

static bool make_variables(struct vg_entrance *entrance, char *const *base)
{
	const struct vg_node *node = entrance->node;
	const char *before = find_variable(base, "LD_PRELOAD");
	size_t capacity = 2 * strlen(before) + 2 * PATH_MAX + 4;
	char *preload = malloc(capacity), *others = malloc(2 * strlen(before) + 2);

	bool made = preload && others;
	if (made) {
		copy_other_preloads(before, others);
		snprintf(preload, capacity, "%s:%s%s", entrance->parts[VG_PART_CUDA], entrance->parts[VG_PART_NVML],
			 others);
		made = add_variable(entrance, "LD_PRELOAD", preload) &&
		       add_variable(entrance, "VIRGATE_LEDGER", entrance->ledger) &&
		       add_variable(entrance, "VIRGATE_VGPU", entrance->name) &&
		       add_variable(entrance, "VIRGATE_SOCKET", node->socket) &&
		       add_variable(entrance, "CUDA_VISIBLE_DEVICES", entrance->uuids);
	}
	if (made && entrance->count > 1)
		made = add_variable(entrance, "VIRGATE_LEDGERS", entrance->ledgers);
	if (made && entrance->mps_pipe)
		made = add_variable(entrance, "CUDA_MPS_PIPE_DIRECTORY", entrance->mps_pipe);
	if (made && *node->simulate)
		made = add_variable(entrance, "VIRGATE_SIM",
				    entrance->simulate ? entrance->simulate : node->simulate) &&
		       (!entrance->simulate_dir || add_variable(entrance, "VIRGATE_SIM_DIR", entrance->simulate_dir)) &&
		       add_variable(entrance, "VIRGATE_DRIVER", entrance->parts[VG_PART_SIM_CUDA]) &&
		       add_variable(entrance, "VIRGATE_NVML", entrance->parts[VG_PART_SIM_NVML]) &&
		       add_runtime_directory(entrance, find_variable(base, "LD_LIBRARY_PATH"));
	free(preload);
	free(others);
	return made;
}

static bool is_own(const struct vg_entrance *entrance, const char *variable)
{
	for (size_t i = 0; i < entrance->own_count; i++) {
		size_t length = strcspn(entrance->own[i], "=") + 1;
		if (strncmp(variable, entrance->own[i], length) == 0)
			return true;
	}
	// remove the ledgers of a job in which the caller runs: the new vGPU is not a part of that job
	if (strncmp(variable, "VIRGATE_LEDGERS=", 16) == 0)
		return true;
	// remove an inherited VIRGATE_SIM: a tenant of a real GPU must not use the simulated one
	return !*entrance->node->simulate && strncmp(variable, "VIRGATE_SIM=", 12) == 0;
}

char **vg_entrance_environment(struct vg_entrance *entrance, char *const *base)
{
	VG_ENTRY();
	size_t count = 0, kept = 0;

	if (!entrance) {
		vg_fail(VG_INVALID, 0, "entrance is NULL");
		return NULL;
	}
	free_environment(entrance);
	while (base && base[count])
		count++;
	entrance->environment = calloc(count + MOST_VARIABLES + 1, sizeof *entrance->environment);
	if (!entrance->environment || !make_variables(entrance, base)) {
		vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for the environment");
		return NULL;
	}
	for (size_t i = 0; i < count; i++)
		if (!is_own(entrance, base[i]))
			entrance->environment[kept++] = base[i];
	for (size_t i = 0; i < entrance->own_count; i++)
		entrance->environment[kept++] = entrance->own[i];
	return entrance->environment;
}
