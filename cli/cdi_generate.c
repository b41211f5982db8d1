// cdi generate: writes a CDI specification with the devices that container engines can give to a container.
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "cdi.h"
#include "node/node.h"
#include "node/paths.h"
#include "options.h"
#include "say.h"
#include "session.h"
#include "virgate/profile.h"

static const char in_container[] = CDI_DIRECTORY "/lib/";

struct generation {
	const struct arguments *arguments;
	struct vg_node *node;
	char simulate[1024], simulate_dir[PATH_MAX]; // specification and directory of the simulated GPU; "": a real GPU
	char program[PATH_MAX];			     // path of this program, which the hooks run
	char libraries[VG_PART_RUNTIME + 1][PATH_MAX];
	bool has_digit; // a device's name begins with a digit, so the specification needs CDI 0.5.0
};

// ---- what all devices have ------------------------------------------------------------------------------------

static void add_text(json_t *array, const char *name, const char *value)
{
	json_array_append_new(array, json_sprintf("%s=%s", name, value));
}

static bool is_library_needed(const struct generation *generation, enum vg_part part)
{
	return *generation->libraries[part] && (part <= VG_PART_NVML || *generation->simulate);
}

static json_t *make_environment(const struct generation *generation)
{
	json_t *array = json_array();
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s%s:%s%s", in_container, vg_paths_file(VG_PART_CUDA), in_container,
		 vg_paths_file(VG_PART_NVML));
	add_text(array, "LD_PRELOAD", path);
	add_text(array, "VIRGATE_LEDGER", CDI_DIRECTORY "/" CDI_LEDGER);
	add_text(array, "VIRGATE_SOCKET", CDI_DIRECTORY "/" CDI_SOCKET);
	if (!*generation->simulate)
		return array;
	add_text(array, "VIRGATE_SIM", generation->simulate);
	add_text(array, "VIRGATE_SIM_DIR", generation->simulate_dir);
	snprintf(path, sizeof path, "%s%s", in_container, vg_paths_file(VG_PART_SIM_CUDA));
	add_text(array, "VIRGATE_DRIVER", path);
	snprintf(path, sizeof path, "%s%s", in_container, vg_paths_file(VG_PART_SIM_NVML));
	add_text(array, "VIRGATE_NVML", path);
	if (is_library_needed(generation, VG_PART_RUNTIME))
		add_text(array, "LD_LIBRARY_PATH", CDI_DIRECTORY "/lib/runtime");
	return array;
}

static json_t *make_bind(const char *host, const char *container, const char *access)
{
	return json_pack("{s:s, s:s, s:[s, s, s, s]}", "hostPath", host, "containerPath", container, "options", access,
			 "nosuid", "nodev", "bind");
}

// Lists the mounts. The file system at CDI_DIRECTORY comes first, because the libraries are mounted inside it.
static json_t *make_mounts(const struct generation *generation)
{
	json_t *array = json_array();
	char path[PATH_MAX];

	json_array_append_new(array, json_pack("{s:s, s:s, s:s, s:[s, s, s, s, s]}", "hostPath", "tmpfs",
					       "containerPath", CDI_DIRECTORY, "type", "tmpfs", "options", "nosuid",
					       "nodev", "noexec", "mode=755", "size=64k"));
	for (enum vg_part part = VG_PART_CUDA; part <= VG_PART_RUNTIME; part++) {
		if (!is_library_needed(generation, part))
			continue;
		snprintf(path, sizeof path, "%s%s", in_container, vg_paths_file(part));
		json_array_append_new(array, make_bind(generation->libraries[part], path, "ro"));
	}
	if (*generation->simulate) // mount it at the same path, because a simulated GPU is identified by its path
		json_array_append_new(array, make_bind(generation->simulate_dir, generation->simulate_dir, "rw"));
	return array;
}

// ---- the devices ----------------------------------------------------------------------------------------------

// Lists the environment variables of the hooks, which get no others. Without this list they would get the container's
// variables, among them LD_PRELOAD.
static json_t *make_hook_environment(const struct generation *generation)
{
	static const char *const passed[] = {"VIRGATE_SYSTEM_CONFIG", "XDG_CONFIG_HOME", "HOME", "VIRGATE_SYSTEM_DIR"};
	json_t *array = json_array();

	add_text(array, "PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
	for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
		if (getenv(passed[i]) && *getenv(passed[i]))
			add_text(array, passed[i], getenv(passed[i]));
	if (generation->node->own)
		add_text(array, "VIRGATE_RUNTIME_DIR", generation->node->runtime_dir);
	if (*generation->simulate) {
		add_text(array, "VIRGATE_SIM", generation->simulate);
		add_text(array, "VIRGATE_SIM_DIR", generation->simulate_dir);
	}
	return array;
}

static json_t *make_hook(const struct generation *generation, const char *when, const char *what, const char *option,
			 const char *name)
{
	json_t *arguments = json_pack("[s, s, s, s, s]", "virgate", "cdi", "hook", what, option);

	json_array_append_new(arguments, json_string(name));
	json_array_append_new(arguments, json_string("--runtime-dir"));
	json_array_append_new(arguments, json_string(generation->node->runtime_dir));
	if (option_value(generation->arguments, "kill-outside"))
		json_array_append_new(arguments, json_string("--kill-outside"));
	return json_pack("{s:s, s:s, s:o, s:o}", "hookName", when, "path", generation->program, "args", arguments,
			 "env", make_hook_environment(generation));
}

static json_t *make_device(struct generation *generation, const char *device, const char *option, const char *name)
{
	json_t *hooks = json_pack("[o, o]", make_hook(generation, "createRuntime", "create", option, name),
				  make_hook(generation, "createContainer", "mount", option, name));

	generation->has_digit |= isdigit((unsigned char)*device);
	return json_pack("{s:s, s:{s:[o], s:o}}", "name", device, "containerEdits", "env",
			 json_sprintf("VIRGATE_VGPU=%s", name), "hooks", hooks);
}

static bool is_chosen(const struct arguments *arguments, const char *name)
{
	for (int i = 0; i < arguments->count; i++)
		if (strcmp(arguments->words[i], name) == 0)
			return true;
	return arguments->count == 0;
}

// Returns whether a CDI device may have this name: it must end with a letter or a digit.
static bool can_be_device(const char *name)
{
	if (isalnum((unsigned char)name[strlen(name) - 1]))
		return true;
	say_warning("\"%s\" is left out: the name of a CDI device ends with a letter or a digit", name);
	return false;
}

// Adds the created vGPUs that this user may enter. Returns EXIT_OK or EXIT_FAILED.
static int add_vgpus(struct generation *generation, json_t *devices)
{
	struct vg_vgpu_list *list;

	if (vg_vgpu_list(generation->node, &list))
		return fail_with_last_error(generation->arguments);
	for (size_t i = 0; i < list->count; i++) {
		const struct vg_vgpu_info *vgpu = &list->vgpus[i];
		if (!vgpu->ephemeral && vgpu->tenants_known && is_chosen(generation->arguments, vgpu->name) &&
		    can_be_device(vgpu->name))
			json_array_append_new(devices, make_device(generation, vgpu->name, "--vgpu", vgpu->name));
	}
	vg_vgpu_list_free(list);
	return EXIT_OK;
}

// Adds a device for each profile of the configuration files. Returns EXIT_OK or EXIT_FAILED.
static int add_profiles(struct generation *generation, json_t *devices)
{
	struct vg_profile_list *list;
	char device[128];

	if (vg_profile_list_read(&list))
		return fail_with_last_error(generation->arguments);
	for (size_t i = 0; i < list->count; i++) {
		const char *name = list->profiles[i].name;
		snprintf(device, sizeof device, CDI_PROFILE "%s", name);
		if (is_chosen(generation->arguments, device) && can_be_device(device))
			json_array_append_new(devices, make_device(generation, device, "--profile", name));
	}
	vg_profile_list_free(list);
	return EXIT_OK;
}

// Reports each name on the command line that no device has. Returns EXIT_OK if there is a device for every name.
static int check_names(const struct arguments *arguments, const json_t *devices)
{
	int r = EXIT_OK;

	for (int i = 0; i < arguments->count; i++) {
		bool found = false;
		for (size_t at = 0; at < json_array_size(devices); at++) {
			const json_t *device = json_array_get(devices, at);
			found |= strcmp(json_string_value(json_object_get(device, "name")), arguments->words[i]) == 0;
		}
		if (found)
			continue;
		say_error("there is no vGPU \"%s\" that you may enter: `virgate ps` lists the vGPUs; the device of a "
			  "profile is called " CDI_PROFILE "NAME",
			  arguments->words[i]);
		r = EXIT_FAILED;
	}
	return r;
}

// ---- the file -------------------------------------------------------------------------------------------------

static int write_file(const struct generation *generation, json_t *specification)
{
	const char *path = option_value(generation->arguments, "output");
	char *text = json_dumps(specification, JSON_INDENT(2));
	int r = EXIT_OK;

	if (!text) {
		say_error("no memory for the CDI specification");
		return EXIT_FAILED;
	}
	if (!path) {
		puts(text);
		r = fflush(stdout) ? EXIT_FAILED : EXIT_OK;
	} else {
		int error = vg_file_write_atomic(path, text, strlen(text), 0644);
		if (error)
			say_error("%s cannot be written: %s", path, strerror(-error));
		r = error ? EXIT_FAILED : EXIT_OK;
	}
	free(text);
	return r;
}

// Asks the daemon which simulated GPU it serves.
static int read_simulation(struct generation *generation)
{
	json_t *reply;

	if (vg_node_request(generation->node, json_pack("{s:s}", "op", "ping"), &reply))
		return fail_with_last_error(generation->arguments);
	const char *simulate = json_string_value(json_object_get(reply, "simulate"));
	const char *directory = json_string_value(json_object_get(reply, "simulate_dir"));
	snprintf(generation->simulate, sizeof generation->simulate, "%s", simulate ? simulate : "");
	snprintf(generation->simulate_dir, sizeof generation->simulate_dir, "%s", directory ? directory : "");
	json_decref(reply);
	return EXIT_OK;
}

static int find_files(struct generation *generation)
{
	if (!realpath("/proc/self/exe", generation->program)) {
		say_error("the path of virgate cannot be read: %s", strerror(errno));
		return EXIT_FAILED;
	}
	for (enum vg_part part = VG_PART_CUDA; part <= VG_PART_RUNTIME; part++) {
		bool needed = part <= VG_PART_NVML || (*generation->simulate && part != VG_PART_RUNTIME);
		if (vg_paths_find(part, generation->node->libdir, generation->libraries[part]))
			continue;
		*generation->libraries[part] = '\0';
		if (!needed)
			continue;
		say_error("%s is not where it was installed: reinstall, or name its directory in VIRGATE_LIBDIR",
			  vg_paths_file(part));
		return EXIT_FAILED;
	}
	return EXIT_OK;
}

static int generate(struct vg_node *node, const struct arguments *arguments)
{
	struct generation generation = {.arguments = arguments, .node = node};
	json_t *devices = json_array();

	int r = read_simulation(&generation);
	if (r == EXIT_OK)
		r = find_files(&generation);
	if (r == EXIT_OK)
		r = add_vgpus(&generation, devices);
	if (r == EXIT_OK)
		r = add_profiles(&generation, devices);
	if (r == EXIT_OK)
		r = check_names(arguments, devices);
	if (r == EXIT_OK && !json_array_size(devices)) {
		say_error("there is nothing to give to a container: create a vGPU with `virgate create`, or write a "
			  "section [profile NAME] in virgate.conf");
		r = EXIT_FAILED;
	}
	if (r == EXIT_OK) {
		json_t *specification = json_pack("{s:s, s:s, s:O, s:{s:o, s:o}}", "cdiVersion",
						  generation.has_digit ? "0.5.0" : "0.4.0", "kind", CDI_KIND, "devices",
						  devices, "containerEdits", "env", make_environment(&generation),
						  "mounts", make_mounts(&generation));
		r = write_file(&generation, specification);
		json_decref(specification);
	}
	json_decref(devices);
	return r;
}

static int run_generate(const struct arguments *arguments)
{
	return run_in_session(arguments, generate);
}

static const struct option options[] = {
	{"output", 'o', "FILE", "write this file, instead of standard output", COMPLETE_FILE},
	{"kill-outside", 'k', NULL, "kill programs of these containers that use the GPU without Virgate's library", 0},
	OPTION_SIM,
	{0},
};

const struct verb verb_cdi_generate = {
	.name = "cdi generate",
	.synopsis = "[NAME...] [--output FILE] [--kill-outside] [--sim]",
	.summary = "Write a CDI specification, so that containers can have vGPUs",
	.details = "Container engines read it from /etc/cdi: virgate cdi generate -o /etc/cdi/virgate.json. Then\n"
		   "podman run --device " CDI_KIND "=NAME starts a container inside the vGPU NAME.",
	.options = options,
	.most = -1,
	.complete = COMPLETE_VGPU,
	.run = run_generate,
};
