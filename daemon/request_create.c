// Handles the verbs create and enter, which create vGPUs and let programs into them.
#include "base/clock.h"
#include "base/parts.h"
#include "daemon/admission.h"
#include "daemon/job.h"
#include "daemon/journal.h"
#include "daemon/launcher.h"
#include "daemon/allowance.h"
#include "daemon/listing.h"
#include "daemon/measure.h"
#include "daemon/mend.h"
#include "daemon/mps.h"
#include "daemon/names.h"
#include "daemon/options.h"
#include "daemon/registry.h"
#include "daemon/request_parts.h"
#include "daemon/save.h"
#include "daemon/state.h"
#include "daemon/tenant.h"
#include "daemon/user.h"
#include "daemon/vgpu.h"

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

static bool is_valid_name(const char *name)
{
	return !name || (strlen(name) < VG_LEDGER_NAME && registry_name_is_valid(name));
}

// Returns whether the name is reserved for vGPUs of containers, which root creates: by such names, the device plugin of
// Kubernetes recognizes them.
static bool is_reserved_name(const struct request *request, const char *name)
{
	static const char start[] = "k8s.";

	return request->node->system_wide && request->peer->uid != 0 && strncmp(name, start, strlen(start)) == 0;
}

// Reads "name". Returns NULL or a refusal.
static json_t *read_name(const struct request *request, struct vgpu *wanted)
{
	const char *name = request_text(request, "name");

	if (json_object_get(request->object, "name") || !wanted->ephemeral)
		snprintf(wanted->name, sizeof wanted->name, "%s", name ? name : "");
	else
		name_after_process(request, wanted->name);
	if (is_reserved_name(request, wanted->name))
		return refuse("denied",
			      "vGPU %s: names that begin with \"k8s.\" are for containers of Kubernetes, which root "
			      "creates: choose another name",
			      wanted->name);
	if (is_valid_name(name) && registry_name_is_valid(wanted->name))
		return NULL;
	return refuse(
		"invalid",
		"a vGPU's name has 1 to 63 letters, digits, '.', '_' and '-', and begins with a letter or a digit");
}

// Copies the groups of the owner: those of the peer, or those that the system knows of the user whom root names.
static void copy_groups(const struct request *request, struct vgpu *wanted)
{
	if (request->peer->uid != wanted->owner) {
		wanted->owner_group_count =
			names_find_groups(request->peer->uid, request_text(request, "owner"), wanted->owner_groups);
		return;
	}
	for (size_t i = 0; i < request->peer->group_count && i < VGPU_GROUPS; i++)
		wanted->owner_groups[wanted->owner_group_count++] = request->peer->groups[i];
}

// Reads all terms of a new vGPU except its name. Returns NULL or a refusal.
static json_t *read_wanted(const struct request *request, struct vgpu *wanted)
{
	json_t *refusal;

	wanted->evictable = read_evictable(request);
	if ((refusal = read_terms(request, &wanted->terms)) ||
	    (refusal = request_read_group(request, &wanted->group)) || (refusal = read_owner(request, &wanted->owner)))
		return refusal;
	copy_groups(request, wanted);
	if ((refusal = read_job(request, wanted)))
		return refusal;
	if ((refusal = read_device(request, wanted)))
		return refusal;
	refusal = refuse_too_small(request, wanted->device, wanted->owner, wanted->memory);
	return refusal ? refusal : read_eviction(request, wanted);
}

static json_t *check_vgpu_limit(const struct request *request, const struct vgpu *wanted)
{
	unsigned int vgpus = user_total(wanted->owner).vgpus;

	if (!user_is_limited(request->node, wanted->owner) || vgpus < USER_VGPUS)
		return NULL;
	return refuse("limit", "vGPU %s: its owner has %u vGPUs, and %d are the most: remove some", wanted->name, vgpus,
		      USER_VGPUS);
}

// Checks that the new vGPU is admitted. Returns NULL or a refusal. *ret_ready is false if the request must wait for
// room.
static json_t *admit_wanted(const struct request *request, const struct vgpu *wanted, bool *ret_ready)
{
	json_t *refusal = admit_share(request, wanted->device, &wanted->terms, wanted);

	if (!refusal)
		refusal = admit_new(request, wanted);
	*ret_ready = !refusal || !launcher_frees_soon(request->node, wanted->device, wanted->owner);
	if (*ret_ready)
		return refusal;
	json_decref(refusal);
	return NULL;
}

static json_t *check_limits(const struct request *request, const struct vgpu *wanted)
{
	struct queue *queue = &request->node->queue;
	bool is_final;
	json_t *refusal = allowance_check(
		request, &(struct allowance_wish){wanted, wanted->memory, &wanted->terms, NULL}, &is_final);

	queue->is_held = refusal && !is_final;
	queue->is_final = refusal && is_final;
	return refusal;
}

// Reads the terms of a new vGPU, and checks that there is room for it. Returns NULL or a refusal. If it returns NULL
// and *ret_ready is false, the request must wait.
static json_t *read_and_admit(const struct request *request, struct vgpu *wanted, bool *ret_ready)
{
	json_t *refusal = read_wanted(request, wanted);

	*ret_ready = true;
	if (!refusal)
		refusal = check_vgpu_limit(request, wanted);
	if (!refusal)
		refusal = check_limits(request, wanted);
	if (!refusal)
		refusal = wanted->ephemeral ? mps_enter(request->node, wanted, ret_ready) : mps_admit(wanted);
	if (!refusal && *ret_ready)
		refusal = admit_wanted(request, wanted, ret_ready);
	if (!refusal)
		return NULL;
	refusal = wait_instead(request, wanted, refusal);
	*ret_ready = refusal != NULL;
	return refusal;
}

static void note_creation(const struct request *request, const struct vgpu *vgpu)
{
	const struct journal_note note = {.vgpu = vgpu, .actor = request->peer, .bytes = vgpu->memory};
	char share[32] = "";

	if (vgpu->terms.share)
		snprintf(share, sizeof share, ", share %u %%", vgpu->terms.share);
	journal_add(request->node, JOURNAL_CREATED, &note, "GPU %zu%s%s", vgpu->device, share,
		    vgpu->ephemeral ? ", ephemeral" : "");
}

// Creates the vGPU of a `create`, or of an `enter` without a name. Returns NULL or a refusal. If it returns NULL and
// *ret_vgpu is NULL, the request must wait.
static json_t *create_vgpu(const struct request *request, bool is_ephemeral, struct vgpu **ret_vgpu)
{
	struct vgpu wanted = {.ephemeral = is_ephemeral, .owner = request->peer->uid, .group = (gid_t)-1};
	bool is_ready = true;
	json_t *refusal = read_name(request, &wanted);

	if (refusal || (refusal = check_wait(request)))
		return refusal;
	struct vgpu *namesake = registry_find(request->node, wanted.name);
	if (namesake && namesake->owner == request->peer->uid && launcher_goes_soon(request->node, namesake))
		return answer_later(request);
	if (namesake)
		return refuse("exists", "there is a vGPU %s already: enter it with `--vgpu %s`, or choose another name",
			      wanted.name, wanted.name);
	if (!allowance_is_ready(request))
		return answer_later(request);
	refusal = read_and_admit(request, &wanted, &is_ready);
	if (refusal || !is_ready)
		return refusal ? refusal : answer_later(request);
	wanted.created = (double)vg_clock_realtime_ns() / 1e9;
	int r = vgpu_add(request->node, &wanted, ret_vgpu);
	if (r == 0) {
		job_note_complete(request->node, *ret_vgpu);
		note_creation(request, *ret_vgpu);
		return NULL;
	}
	admission_publish(request->node);
	return refuse("system", "the ledger of vGPU %s cannot be made: %s", wanted.name, strerror(-r));
}

// Watches the process of the peer, or the first process of the container that it starts, which keeps the vGPU in use.
// Returns NULL or a refusal. Before a refusal, removes the vGPU if it was created for this request.
static json_t *add_launcher(const struct request *request, struct vgpu *vgpu)
{
	pid_t pid = request->peer->pid;
	bool is_container = json_object_get(request->object, "container");
	json_t *refusal = is_container ? enter_container(request, vgpu) : NULL;
	int r = is_container ? 0 : pid > 0 ? launcher_add(request->node, vgpu, request->peer) : 0;
	struct rlimit files = {0};

	if (!refusal && r != -EMFILE && r != -ENFILE && r != -ENOMEM)
		return NULL;
	getrlimit(RLIMIT_NOFILE, &files);
	if (!refusal)
		refusal = refuse("system",
				 "vGPU %s: the daemon cannot watch process %d (%s; it may open %llu files): end some "
				 "programs, or raise its limit (LimitNOFILE, ulimit -Hn where it was started)",
				 vgpu->name, (int)pid, strerror(-r), (unsigned long long)files.rlim_cur);
	if (vgpu->ephemeral && !vgpu->launchers && !vgpu->tenants)
		vgpu_drop(request->node, vgpu);
	admission_publish(request->node);
	return refusal;
}

// Answers after the new vGPU was written to disk. Removes the vGPU again if the write failed.
static json_t *finish_creation(struct node *node, const struct change *change, int error)
{
	json_t *refusal;

	if (!error) {
		measure_for_listing(node, change->vgpu);
		return agree_with("vgpu", listing_vgpu(node, change->vgpu, LISTING_FULL));
	}
	refusal = refuse("system", "vGPU %s cannot be saved: %s: %s", change->vgpu->name, node->state_path,
			 strerror(-error));
	journal_add(node, JOURNAL_REMOVED, &(struct journal_note){.vgpu = change->vgpu}, "it cannot be saved: %s",
		    strerror(-error));
	vgpu_drop(node, change->vgpu);
	admission_publish(node);
	save_state(node); // the failed write may have changed the file
	return refusal;
}

json_t *answer_create(const struct request *request)
{
	bool ephemeral = json_is_true(json_object_get(request->object, "ephemeral"));
	struct vgpu *vgpu = NULL;
	json_t *refusal = create_vgpu(request, ephemeral, &vgpu);

	if (refusal || !vgpu)
		return refusal;
	if (ephemeral && (refusal = add_launcher(request, vgpu)))
		return refusal;
	admission_publish(request->node);
	state_save_runtime(request->node);
	return save_change(request->node, &(struct change){.finish = finish_creation, .vgpu = vgpu});
}

json_t *refuse_damaged(const struct vgpu *vgpu)
{
	if (vgpu->damage == DAMAGE_REMOVED)
		return refuse(
			"system",
			"no new program can enter vGPU %s, because %s: its running programs keep its limit; when they "
			"have ended it can be used again (`virgate rm --force %s%s` ends them and removes it)",
			vgpu->name, vgpu->damage_text, vgpu->name, sim_flag());
	return refuse("system",
		      "the ledger of vGPU %s is damaged, %s: remove it with `virgate rm --force %s%s`, which ends its "
		      "programs, and create it again",
		      vgpu->name, vgpu->damage_text, vgpu->name, sim_flag());
}

bool can_be_used(const struct request *request, struct vgpu *vgpu, json_t **ret_answer)
{
	tenant_scan(request->node, vgpu);
	if (vgpu->change || mend_is_undecided(request->node, vgpu))
		*ret_answer = answer_later(request);
	else if (vgpu->is_being_removed)
		*ret_answer = refuse("busy", "vGPU %s is being removed: its programs are ending", vgpu->name);
	else if (vgpu->damage)
		*ret_answer = refuse_damaged(vgpu);
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

	if (!named && request->peer->pid <= 0) // the daemon cannot watch the peer, so it would remove the vGPU at once
		return refuse("invalid",
			      "the daemon cannot see your process (it is in another container): create a vGPU and "
			      "enter that");
	if (named)
		vgpu = request_vgpu(request, "vgpu", &refusal);
	else
		refusal = create_vgpu(request, true, &vgpu);
	if (refusal || !vgpu)
		return refusal;
	if (!can_be_used(request, vgpu, &refusal))
		return refusal;
	if (named && (refusal = refuse_drained(request, vgpu->device)))
		return refusal;
	// Check again that the vGPU fits: while this user's daemon did not run, other daemons may have admitted more
	// vGPUs.
	if (named && (refusal = admit_again(request, vgpu, vgpu->memory, &vgpu->terms)))
		return refusal;
	bool is_ready = true;
	if (named && (refusal = mps_enter(node, vgpu, &is_ready)))
		return refusal;
	if (!is_ready)
		return answer_later(request);
	if ((refusal = add_launcher(request, vgpu)))
		return refusal;
	admission_publish(node);
	state_save_runtime(node);
	json_t *answer =
		json_pack("{s:b, s:s, s:s, s:s, s:I}", "ok", 1, "name", vgpu->name, "ledger", vgpu->path, "uuid",
			  vg_system_device(node->system, vgpu->device)->uuid_text, "memory", (json_int_t)vgpu->memory);
	json_object_set_new(answer, "device", json_integer((json_int_t)vgpu->device));
	options_write_terms(answer, &vgpu->terms);
	if (vgpu->terms.is_mps && !vgpu->job_gpus) // a job's programs start when it has all of its GPUs
		json_object_set_new(answer, "mps_pipe", json_string(mps_pipe_directory(vgpu)));
	if (*vg_simulation_wanted()) { // tell the client, so that the tenant finds the same simulated GPU
		json_object_set_new(answer, "simulate", json_string(vg_simulation_wanted()));
		json_object_set_new(answer, "simulate_dir", json_string(vg_system_simulated_directory(node->system)));
	}
	return answer;
}
