#include "cdi_state.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "say.h"

// Sets the name of the image: from an annotation of the engine, or from the file in which podman and CRI-O keep their
// containers, two directories above the bundle.
static void read_image(struct cdi_state *state, const json_t *object, const char *bundle)
{
	static const char *const keys[] = {"io.kubernetes.cri-o.ImageName", "io.kubernetes.cri.image-name"};
	const json_t *annotations = json_object_get(object, "annotations");
	char path[PATH_MAX + 32];

	for (size_t i = 0; i < sizeof keys / sizeof *keys && !*state->image; i++) {
		const char *image = json_string_value(json_object_get(annotations, keys[i]));
		snprintf(state->image, sizeof state->image, "%s", image ? image : "");
	}
	snprintf(path, sizeof path, "%s/../../containers.json", bundle);
	json_t *containers = *state->image ? NULL : json_load_file(path, 0, NULL);
	for (size_t i = 0; i < json_array_size(containers); i++) {
		const json_t *one = json_array_get(containers, i);
		const char *id = json_string_value(json_object_get(one, "id"));
		const char *metadata = json_string_value(json_object_get(one, "metadata"));
		json_t *parsed = id && metadata && strcmp(id, state->id) == 0 ? json_loads(metadata, 0, NULL) : NULL;
		const char *image = json_string_value(json_object_get(parsed, "image-name"));
		if (image)
			snprintf(state->image, sizeof state->image, "%s", image);
		json_decref(parsed);
	}
	json_decref(containers);
}

// Reads VIRGATE_ALLOCATION of the container's environment.
static void read_allocation(struct cdi_state *state, const json_t *configuration)
{
	static const char name[] = "VIRGATE_ALLOCATION=";
	const json_t *environment = json_object_get(json_object_get(configuration, "process"), "env");

	for (size_t i = 0; i < json_array_size(environment) && !*state->allocation; i++) {
		const char *variable = json_string_value(json_array_get(environment, i));
		if (variable && strncmp(variable, name, strlen(name)) == 0)
			snprintf(state->allocation, sizeof state->allocation, "%s", variable + strlen(name));
	}
}

// Sets the container's user in this process's user namespace: converts the id by the container's mappings; without a
// mapping, the id is the same.
static void map_user(struct cdi_state *state, const json_t *configuration)
{
	const json_t *user = json_object_get(json_object_get(configuration, "process"), "user");
	const json_t *mappings = json_object_get(json_object_get(configuration, "linux"), "uidMappings");
	json_int_t uid = json_integer_value(json_object_get(user, "uid"));

	state->user = state->outer_user = (uid_t)uid;
	state->user_known = !json_array_size(mappings);
	for (size_t i = 0; i < json_array_size(mappings); i++) {
		const json_t *one = json_array_get(mappings, i);
		json_int_t first = json_integer_value(json_object_get(one, "containerID"));
		if (uid < first || uid - first >= json_integer_value(json_object_get(one, "size")))
			continue;
		state->outer_user = (uid_t)(json_integer_value(json_object_get(one, "hostID")) + uid - first);
		state->user_known = true;
	}
}

static bool read_configuration(struct cdi_state *state, const char *bundle)
{
	char path[PATH_MAX + 16];
	json_error_t error;

	snprintf(path, sizeof path, "%s/config.json", bundle);
	json_t *configuration = json_load_file(path, 0, &error);
	const char *root = json_string_value(json_object_get(json_object_get(configuration, "root"), "path"));
	if (!root) {
		say_error("%s is not the configuration of a container: %s", path,
			  configuration ? "\"root\" has no \"path\"" : error.text);
		json_decref(configuration);
		return false;
	}
	if (*root == '/')
		snprintf(state->root, sizeof state->root, "%s", root);
	else
		snprintf(state->root, sizeof state->root, "%.2000s/%.2000s", bundle, root);
	map_user(state, configuration);
	read_allocation(state, configuration);
	json_decref(configuration);
	return true;
}

bool cdi_state_read(struct cdi_state *ret_state)
{
	struct cdi_state state = {0};
	json_error_t error;
	json_t *object = json_loadf(stdin, JSON_DISABLE_EOF_CHECK, &error);
	const char *id = json_string_value(json_object_get(object, "id"));
	const char *bundle = json_string_value(json_object_get(object, "bundle"));

	if (!id || !*id || !bundle || strlen(id) >= sizeof state.id) {
		say_error("standard input has no state of a container: container runtimes run this command as a hook, "
			  "and it is of no use otherwise");
		json_decref(object);
		return false;
	}
	strcpy(state.id, id);
	state.pid = (pid_t)json_integer_value(json_object_get(object, "pid"));
	bool read = read_configuration(&state, bundle);
	if (read)
		read_image(&state, object, bundle);
	json_decref(object);
	if (read)
		*ret_state = state;
	return read;
}
