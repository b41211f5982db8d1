#include "node.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <virgate/profile.h>
#include <virgate/vgpu.h>

static enum node_result fail(char ret_text[NODE_TEXT])
{
	const struct vg_error *error = vg_last_error();

	snprintf(ret_text, NODE_TEXT, "%s", *error->text ? error->text : vg_status_text(error->status));
	switch (error->status) {
	case VG_NOT_FOUND:
		return NODE_MISSING;
	case VG_LIMIT:
	case VG_BUSY:
		return NODE_NO_ROOM;
	case VG_INVALID:
	case VG_EXISTS:
	case VG_DENIED:
	case VG_UNSUPPORTED:
		return NODE_REFUSED;
	default:
		return NODE_FAILED;
	}
}

static enum node_result open_node(const struct settings *settings, struct vg_node **ret_node, char ret_text[NODE_TEXT])
{
	const struct vg_node_options options = {
		.size = sizeof options,
		.runtime_dir = settings->runtime_dir,
		.libdir = settings->libdir,
		.simulate = settings->simulate ? settings->simulate : "",
		.no_start = 1,
	};

	// A helper of slurmd has the job's GPUs in this variable, in Slurm's order. The library must ignore it, because
	// the request names the GPU.
	unsetenv("CUDA_VISIBLE_DEVICES");
	return vg_node_open(&options, ret_node) ? fail(ret_text) : NODE_OK;
}

// Returns whether the vGPU belongs to `owner`. The daemon shows the owner's name, or the number if it finds no name.
static bool is_owned_by(const struct vg_vgpu_info *vgpu, uid_t owner)
{
	const struct passwd *user = getpwuid(owner);
	char number[16];

	snprintf(number, sizeof number, "%u", (unsigned)owner);
	return strcmp(vgpu->owner, user ? user->pw_name : number) == 0;
}

static bool is_on_gpu(const struct vg_vgpu_info *vgpu, const char *gpu)
{
	char index[16];

	snprintf(index, sizeof index, "%d", vgpu->device);
	return !gpu || strcmp(gpu, vgpu->uuid) == 0 || strcmp(gpu, index) == 0;
}

// Returns whether an existing vGPU has all properties that node_make() would give it. Any user may have created a vGPU
// of that name, so all properties are compared. If only a share was requested, the memory is unknown here, and the vGPU
// counts as different.
static bool is_same(const struct vg_vgpu_info *vgpu, const struct vg_vgpu_options *options, uid_t owner)
{
	return !vgpu->damaged && vgpu->memory == options->memory && vgpu->share == options->share &&
	       is_owned_by(vgpu, owner) && is_on_gpu(vgpu, options->device) && !*vgpu->group;
}

// Handles a vGPU that exists already with the job's name. An earlier start of the same job has left it, or slurmd runs
// the prolog again, or a user has created it. If it has the right properties, keeps it. Otherwise ends it and creates a
// new one.
static enum vg_status make_again(struct vg_node *node, const struct vg_vgpu_options *options, uid_t owner)
{
	struct vg_vgpu_list *list;

	enum vg_status status = vg_vgpu_inspect(node, options->name, &list);
	if (status == VG_NOT_FOUND)
		return vg_vgpu_create(node, options);
	if (status)
		return status;
	bool is_usable = list->count == 1 && is_same(list->vgpus, options, owner);
	vg_vgpu_list_free(list);
	if (is_usable)
		return VG_OK;
	status = vg_vgpu_end(node, options->name);
	return status ? status : vg_vgpu_create(node, options);
}

static enum node_result create_vgpu(struct vg_node *node, const struct vg_vgpu_options *options, uid_t owner,
				    char ret_text[NODE_TEXT])
{
	enum vg_status status = vg_vgpu_create(node, options);

	if (status == VG_EXISTS)
		status = make_again(node, options, owner);
	return status ? fail(ret_text) : NODE_OK;
}

// Appends the names of all profiles to the sentence in `text`.
static void list_profiles(const struct vg_profile_list *list, char text[NODE_TEXT])
{
	size_t length = strlen(text);

	for (size_t i = 0; i < list->count && length < NODE_TEXT; i++)
		length += (size_t)snprintf(text + length, NODE_TEXT - length, "%s %s", i ? "," : "; the profiles are",
					   list->profiles[i].name);
}

// Reads the profiles, and finds the one that the request names. After NODE_OK, the caller frees *ret_list.
static enum node_result read_profile(const struct settings *settings, const struct request *request,
				     struct vg_profile_list **ret_list, const struct vg_profile **ret_profile,
				     char ret_text[NODE_TEXT])
{
	struct vg_profile_list *list;

	if (settings->config)
		setenv("VIRGATE_SYSTEM_CONFIG", settings->config, 1);
	if (vg_profile_list_read(&list)) {
		fail(ret_text);
		return NODE_FAILED;
	}
	*ret_profile = vg_profile_find(list, request->profile);
	if (*ret_profile) {
		*ret_list = list;
		return NODE_OK;
	}
	snprintf(ret_text, NODE_TEXT, "--vgpu: there is no profile \"%s\" on this machine", request->profile);
	list_profiles(list, ret_text);
	enum node_result result = list->count ? NODE_REFUSED : NODE_MISSING;
	vg_profile_list_free(list);
	return result;
}

enum node_result node_find_profile(const struct settings *settings, struct request *request, char ret_text[NODE_TEXT])
{
	const struct vg_profile *profile;
	struct vg_profile_list *list;

	enum node_result result = read_profile(settings, request, &list, &profile, ret_text);
	if (result)
		return result;
	request->memory = profile->memory;
	request->share = profile->share;
	vg_profile_list_free(list);
	return NODE_OK;
}

enum node_result node_make(const struct settings *settings, uint32_t job, uid_t owner, const struct request *request,
			   const char *gpu, char ret_text[NODE_TEXT])
{
	struct vg_profile_list *profiles = NULL;
	const struct vg_profile *profile = NULL;
	char name[JOB_NAME], user[16];
	struct vg_node *node;

	enum node_result result = open_node(settings, &node, ret_text);
	if (result)
		return result;
	job_vgpu_name(job, name);
	snprintf(user, sizeof user, "%u", (unsigned)owner);
	struct vg_vgpu_options options = {
		.size = sizeof options,
		.name = name,
		.memory = request->memory,
		.share = request->share,
		.device = gpu,
		.owner = user,
	};
	if (*request->profile)
		result = read_profile(settings, request, &profiles, &profile, ret_text);
	if (profile)
		vg_profile_apply(profile, &options);
	if (result == NODE_OK)
		result = create_vgpu(node, &options, owner, ret_text);
	vg_profile_list_free(profiles);
	vg_node_close(node);
	return result;
}

enum node_result node_end(const struct settings *settings, uint32_t job, char ret_text[NODE_TEXT])
{
	struct vg_node *node;
	char name[JOB_NAME];

	enum node_result result = open_node(settings, &node, ret_text);
	if (result)
		return result;
	job_vgpu_name(job, name);
	if (vg_vgpu_end(node, name))
		result = fail(ret_text);
	vg_node_close(node);
	return result;
}

enum node_result node_inspect(const struct settings *settings, uint32_t job, struct vg_vgpu_list **ret_list,
			      char ret_text[NODE_TEXT])
{
	struct vg_node *node;
	char name[JOB_NAME];

	enum node_result result = open_node(settings, &node, ret_text);
	if (result)
		return result;
	job_vgpu_name(job, name);
	if (vg_vgpu_inspect(node, name, ret_list))
		result = fail(ret_text);
	vg_node_close(node);
	return result;
}

enum node_result node_list(const struct settings *settings, struct vg_vgpu_list **ret_list, char ret_text[NODE_TEXT])
{
	struct vg_node *node;

	enum node_result result = open_node(settings, &node, ret_text);
	if (result)
		return result;
	if (vg_vgpu_list(node, ret_list))
		result = fail(ret_text);
	vg_node_close(node);
	return result;
}

// Returns whether the vGPU is on the first GPU in `list`. Moves *list to the GPU after that one.
static bool is_on_first(const struct vg_vgpu_info *vgpu, const char **list)
{
	char number[16], gpu[JOB_GPU];
	size_t length = strcspn(*list, ",");

	snprintf(number, sizeof number, "%.*s", (int)length, *list);
	*list += length + ((*list)[length] != '\0');
	return job_find_gpu(number, job_driver_directory, gpu) == 0 && is_on_gpu(vgpu, gpu);
}

bool node_find_tenant(const struct settings *settings, const char *list, char ret_name[JOB_NAME])
{
	struct vg_vgpu_list *vgpus;
	char text[NODE_TEXT];
	bool found = false;
	uint32_t job;

	if (node_list(settings, &vgpus, text))
		return false;
	for (size_t i = 0; i < vgpus->count && !found; i++) {
		bool is_of_job = job_of_vgpu(vgpus->vgpus[i].name, &job);
		for (const char *at = list; *at && is_of_job && !found;)
			found = is_on_first(&vgpus->vgpus[i], &at);
		if (found)
			job_vgpu_name(job, ret_name);
	}
	vg_vgpu_list_free(vgpus);
	return found;
}

// Refuses a step that requests another memory or share than the job's vGPU has.
static enum node_result compare(struct vg_node *node, const char *name, const struct request *request,
				char ret_text[NODE_TEXT])
{
	char size[REQUEST_SIZE_TEXT];
	struct vg_vgpu_list *list;

	if (!request_is_made(request))
		return NODE_OK;
	if (vg_vgpu_inspect(node, name, &list))
		return fail(ret_text);
	enum node_result result = NODE_OK;
	const struct vg_vgpu_info *vgpu = list->vgpus;
	if (list->count == 1 && ((request->memory && request->memory != vgpu->memory) ||
				 (request->share && request->share != vgpu->share))) {
		snprintf(ret_text, NODE_TEXT,
			 "the job's vGPU has %s and a share of %u %%, and a step cannot change it: leave out the "
			 "options --vgpu of the step, or give them to sbatch or salloc",
			 request_format_size(vgpu->memory, size), vgpu->share);
		result = NODE_REFUSED;
	}
	vg_vgpu_list_free(list);
	return result;
}

static bool has_variable(char **base, const char *variable)
{
	for (; base && *base; base++)
		if (strcmp(*base, variable) == 0)
			return true;
	return false;
}

static void set_variables(char **environment, char **base, void (*set)(void *user, const char *name, const char *value),
			  void *user)
{
	for (; *environment; environment++) {
		const char *equals = strchr(*environment, '=');
		if (!equals || has_variable(base, *environment))
			continue;
		char *name = strndup(*environment, (size_t)(equals - *environment));
		if (name)
			set(user, name, equals + 1);
		free(name);
	}
}

enum node_result node_enter(const struct settings *settings, uint32_t job, const struct request *request, char **base,
			    void (*set)(void *user, const char *name, const char *value), void *user,
			    char ret_text[NODE_TEXT])
{
	struct vg_entrance *entrance = NULL;
	struct vg_node *node;
	char name[JOB_NAME];

	enum node_result result = open_node(settings, &node, ret_text);
	if (result)
		return result;
	job_vgpu_name(job, name);
	if (vg_vgpu_enter(node, name, NULL, &entrance))
		result = fail(ret_text);
	if (result == NODE_OK)
		result = compare(node, name, request, ret_text);
	char **environment = result == NODE_OK ? vg_entrance_environment(entrance, base) : NULL;
	if (environment)
		set_variables(environment, base, set, user);
	else if (result == NODE_OK)
		result = fail(ret_text);
	vg_entrance_free(entrance);
	vg_node_close(node);
	return result;
}
