// create and enter: make vGPUs, and let programs into them.
#include "base/clock.h"
#include "base/parts.h"
#include "daemon/eviction.h"
#include "daemon/mps.h"
#include "daemon/request_parts.h"
#include "daemon/terms.h"
#include "daemon/user.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static void name_after_process(const struct request *request, char name[VG_LEDGER_NAME])
{
	snprintf(name, VG_LEDGER_NAME, "v-%d", (int)request->peer->pid);
	for (int more = 2; registry_find(request->node, name); more++)
		snprintf(name, VG_LEDGER_NAME, "v-%d-%d", (int)request->peer->pid, more);
}

// Reads, admits and makes a vGPU as `create` or an `enter` without a name has it. NULL and no vGPU: the answer comes
// later.
static json_t *make_vgpu(const struct request *request, bool ephemeral, struct vgpu **ret_vgpu)
{
	struct vgpu wanted = {.ephemeral = ephemeral, .owner = request->peer->uid, .group = (gid_t)-1};
	const char *name = text_of(request, "name");
	bool named = json_object_get(request->object, "name") != NULL;
	json_t *refusal;

	if (named || !ephemeral)
		snprintf(wanted.name, sizeof wanted.name, "%s", name ? name : "");
	else
		name_after_process(request, wanted.name);
	if ((name && strlen(name) >= sizeof wanted.name) || !registry_name_is_valid(wanted.name))
		return refuse(
			"invalid",
			"a vGPU's name has 1 to 63 letters, digits, '.', '_' and '-', and begins with a letter or "
			"a digit");
	struct vgpu *namesake = registry_find(request->node, wanted.name);
	if (namesake && namesake->owner == request->peer->uid && launcher_goes_soon(request->node, namesake))
		return answer_later(request);
	if (namesake)
		return refuse("exists", "there is a vGPU %s already: enter it with `--vgpu %s`, or choose another name",
			      wanted.name, wanted.name);
	wanted.evictable = eviction_is_asked(request);
	if ((refusal = terms_take(request, &wanted.terms)) || (refusal = take_group(request, &wanted.group)) ||
	    (refusal = take_owner(request, &wanted.owner)) || (refusal = take_device(request, &wanted)))
		return refusal;
	if ((refusal = too_small(request, wanted.device, wanted.owner, wanted.memory)) ||
	    (refusal = eviction_take(request, &wanted)))
		return refusal;
	unsigned int vgpus = user_total(wanted.owner).vgpus;
	if (user_is_limited(request->node, wanted.owner) && vgpus >= USER_VGPUS)
		return refuse("limit", "vGPU %s: its owner has %u vGPUs, and %d are the most: remove some", wanted.name,
			      vgpus, USER_VGPUS);
	bool ready = true;
	refusal = ephemeral ? mps_enter(request, &wanted, &ready) : mps_admit(request, &wanted);
	if (refusal || !ready)
		return refusal;
	wanted.created = (double)vg_clock_realtime_ns() / 1e9;
	if ((refusal = terms_admit(request, wanted.device, &wanted.terms, NULL)) ||
	    (refusal = admit_new(request, &wanted))) {
		if (!launcher_frees_soon(request->node, wanted.device, wanted.owner))
			return refusal;
		json_decref(refusal);
		return answer_later(request);
	}
	int r = registry_add(request->node, &wanted, ret_vgpu);
	if (r < 0) {
		admission_publish(request->node);
		return refuse("system", "the ledger of vGPU %s cannot be made: %s", wanted.name, strerror(-r));
	}
	return NULL;
}

// Whoever entered keeps the vGPU, so it must be watched: NULL, or why it cannot be. One made for it goes again.
static json_t *add_launcher(const struct request *request, struct vgpu *vgpu)
{
	pid_t pid = request->peer->pid;
	int r = pid > 0 ? launcher_add(request->node, vgpu, request->peer) : 0;
	struct rlimit files = {0};

	if (r != -EMFILE && r != -ENFILE && r != -ENOMEM)
		return NULL;
	getrlimit(RLIMIT_NOFILE, &files);
	json_t *refusal = refuse("system",
				 "vGPU %s: the daemon cannot watch process %d (%s; it may open %llu files): end some "
				 "programs, or raise its limit (LimitNOFILE, ulimit -Hn where it was started)",
				 vgpu->name, (int)pid, strerror(-r), (unsigned long long)files.rlim_cur);
	if (vgpu->ephemeral && !vgpu->launchers && !vgpu->tenants)
		registry_drop(request->node, vgpu);
	admission_publish(request->node);
	return refusal;
}

// Promised is what survives: a created vGPU that is not on disk goes again.
static json_t *finish_creation(struct node *node, const struct change *change, int error)
{
	json_t *refusal;

	if (!error)
		return agree_with("vgpu", listing_vgpu(node, change->vgpu, true));
	refusal = refuse("system", "vGPU %s cannot be remembered: %s: %s", change->vgpu->name, node->state_path,
			 strerror(-error));
	registry_drop(node, change->vgpu);
	admission_publish(node);
	state_save(node); // what failed may stand there all the same
	return refusal;
}

json_t *answer_create(const struct request *request)
{
	bool ephemeral = json_is_true(json_object_get(request->object, "ephemeral"));
	struct vgpu *vgpu = NULL;
	json_t *refusal = make_vgpu(request, ephemeral, &vgpu);

	if (refusal || !vgpu)
		return refusal;
	if (ephemeral && (refusal = add_launcher(request, vgpu)))
		return refusal;
	admission_publish(request->node);
	state_save_runtime(request->node);
	return save_change(request, &(struct change){.finish = finish_creation, .vgpu = vgpu});
}

bool can_be_used(const struct request *request, struct vgpu *vgpu, json_t **ret_answer)
{
	tenant_scan(request->node, vgpu);
	if (vgpu->change || damage_is_undecided(request->node, vgpu))
		*ret_answer = answer_later(request);
	else if (vgpu->removing)
		*ret_answer = refuse("busy", "vGPU %s is being removed: its programs are ending", vgpu->name);
	else if (vgpu->damage)
		*ret_answer = damage_refuse(vgpu);
	else
		return true;
	return false;
}

json_t *answer_enter(const struct request *request)
{
	struct node *node = request->node;
	bool named = json_object_get(request->object, "vgpu") != NULL;
	struct vgpu *vgpu = NULL;
	json_t *refusal = NULL;

	if (!named && request->peer->pid <= 0) // its vGPU would go at once, as its launcher's end cannot be seen
		return refuse("invalid",
			      "the daemon cannot see your process (it is in another container): create a vGPU and "
			      "enter that");
	if (named)
		vgpu = request_vgpu(request, "vgpu", &refusal);
	else
		refusal = make_vgpu(request, true, &vgpu);
	if (refusal || !vgpu)
		return refusal;
	if (!can_be_used(request, vgpu, &refusal))
		return refusal;
	// The claims of others may have grown while no daemon of ours was there to say ours.
	if (named && (refusal = admit_again(request, vgpu, vgpu->memory, &vgpu->terms)))
		return refusal;
	bool ready = true;
	if (named && ((refusal = mps_enter(request, vgpu, &ready)) || !ready))
		return refusal;
	if ((refusal = add_launcher(request, vgpu)))
		return refusal;
	admission_publish(node);
	state_save_runtime(node);
	json_t *answer = json_pack("{s:b, s:s, s:s, s:s, s:I}", "ok", 1, "name", vgpu->name, "ledger", vgpu->path,
				   "uuid", vg_system_device(node->system, vgpu->device)->uuid_text, "memory",
				   (json_int_t)vgpu->memory);
	terms_write(answer, &vgpu->terms);
	if (vgpu->terms.is_mps)
		json_object_set_new(answer, "mps_pipe", json_string(mps_pipe_directory(node, vgpu)));
	if (*vg_simulation_wanted()) { // the tenant must find the very GPU that we serve
		json_object_set_new(answer, "simulate", json_string(vg_simulation_wanted()));
		json_object_set_new(answer, "simulate_dir", json_string(vg_system_simulated_directory(node->system)));
	}
	return answer;
}
