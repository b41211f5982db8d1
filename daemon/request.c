#include "daemon/request.h"

#include "base/parts.h"
#include "daemon/names.h"
#include "daemon/registry.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

json_t *answer_later(const struct request *request)
{
	request->node->is_deferred = true;
	return NULL;
}

const char *request_text(const struct request *request, const char *key)
{
	return json_string_value(json_object_get(request->object, key));
}

static json_t *refuse_peer(const struct request *request, const struct vgpu *vgpu)
{
	static const char *const actions[AUTHORITY_VERBS] = {
		[AUTHORITY_ENTER] = "run programs in it",
		[AUTHORITY_SET] = "change it",
		[AUTHORITY_RM] = "remove it",
		[AUTHORITY_KILL] = "send signals to its programs",
		[AUTHORITY_SUSPEND] = "suspend its programs",
		[AUTHORITY_RESUME] = "resume its programs",
		[AUTHORITY_DUMPED] = "report an image of its programs",
		[AUTHORITY_TENANTS] = "see its programs",
		[AUTHORITY_INSPECT] = "see its programs",
		[AUTHORITY_LOGS] = "see what it refused",
	};
	const char *action = actions[request->verb] ? actions[request->verb] : authority_verb_text(request->verb);
	bool for_group = vgpu->group != (gid_t)-1 && authority_allows(request->verb, AUTHORITY_GROUP);
	char members[96] = "";

	if (for_group)
		snprintf(members, sizeof members, ", members of the group %.60s", names_group(vgpu->group));
	return refuse("denied", "vGPU %s: only its owner (%s)%s and root may %s", vgpu->name, names_user(vgpu->owner),
		      members, action);
}

json_t *request_permit(const struct request *request, const struct vgpu *vgpu)
{
	bool is_allowed = authority_allows(request->verb, authority_classify(request->peer, vgpu->owner, vgpu->group));

	return is_allowed ? NULL : refuse_peer(request, vgpu);
}

struct vgpu *request_vgpu(const struct request *request, const char *key, json_t **ret_refusal)
{
	const char *name = request_text(request, key);

	if (!name || !registry_name_is_valid(name)) {
		*ret_refusal = refuse("invalid", "\"%s\" needs a valid name of a vGPU in \"%s\"",
				      authority_verb_text(request->verb), key);
		return NULL;
	}
	struct vgpu *vgpu = registry_find(request->node, name);
	if (!vgpu) {
		*ret_refusal = refuse("not_found", "there is no vGPU %s: `virgate ps%s` lists them", name, sim_flag());
		return NULL;
	}
	json_t *refusal = request_permit(request, vgpu);
	if (!refusal)
		return vgpu;
	*ret_refusal = refusal;
	return NULL;
}

// Refuses a request that is meant for other GPUs than this daemon's, so that no client uses wrong GPUs unnoticed. The
// field "simulate" says for which simulated GPU the request is; "1" means any simulated GPU. A request without the
// field is for any GPU.
json_t *request_check_gpus(const struct request *request)
{
	const char *wanted = request_text(request, "simulate"), *served = vg_simulation_wanted();
	const struct node *node = request->node;
	char instead[240] = "a real one", way[300] = "";

	if (!wanted || strcmp(wanted, served) == 0 || (strcmp(wanted, "1") == 0 && *served))
		return NULL;
	if (*wanted)
		snprintf(instead, sizeof instead, "\"%.200s\"", wanted);
	if (!*served)
		return refuse("invalid",
			      "the daemon in %.200s serves this machine's GPUs, not the simulated %s: name another "
			      "directory in VIRGATE_RUNTIME_DIR for that",
			      node->runtime_dir, instead);
	if (!node->system_wide) // the option --sim alone would start another daemon
		snprintf(way, sizeof way, " and VIRGATE_RUNTIME_DIR=%.200s", node->runtime_dir);
	return refuse("invalid",
		      "the daemon in %.200s serves the simulated GPU \"%.200s\", not %s: reach it with%s%s (its "
		      "node is in %.200s), or end it with `virgate shutdown%s`",
		      node->runtime_dir, served, instead, sim_flag(), way, vg_system_simulated_directory(node->system),
		      sim_flag());
}

json_t *refuse_lookup(const char *kind, const char *name)
{
	return refuse("busy", "the system cannot be asked for the %s %.60s now: try again", kind, name);
}

json_t *request_read_group(const struct request *request, gid_t *ret_group)
{
	const json_t *value = json_object_get(request->object, "group");
	const char *name = json_string_value(value);
	bool is_member = request->peer->uid == 0;

	if (!value || json_is_null(value))
		return NULL;
	if (!name)
		return refuse("invalid", "\"group\" must be a group's name");
	if (!request->node->system_wide)
		return refuse("invalid", "a group needs the system's daemon: this one serves its own user only");
	gid_t group;
	int r = names_find_group(request->peer->uid, name, &group);
	if (r == -EAGAIN)
		return refuse_lookup("group", name);
	if (r < 0)
		return refuse("not_found", "there is no group %.60s", name);
	for (size_t i = 0; i < request->peer->group_count; i++)
		is_member |= request->peer->groups[i] == group;
	if (!is_member)
		return refuse("denied", "you are not in the group %.60s", name);
	*ret_group = group;
	return NULL;
}
