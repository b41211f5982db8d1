// Handles the verbs suspend and resume. A request of a user to suspend or resume is called a wish. The daemon writes
// the wish into the ledger of an evictable vGPU and wakes its pagers (pager/page.h). The wish stays in the ledger until
// the opposite one replaces it, also while no daemon runs.
#include "daemon/eviction.h"
#include "daemon/journal.h"
#include "daemon/json_text.h"
#include "daemon/request_parts.h"
#include "daemon/residence.h"
#include "daemon/say.h"
#include "daemon/tenant.h"

#include <limits.h>

static const json_int_t drain_most_ms = 3600000;

struct wish {
	struct vgpu *vgpu;
	pid_t pid; // the process to which the wish is limited; 0: it is for the whole vGPU
	bool is_out;
	uint32_t drain_ms;
};

static json_t *read_drain(const struct request *request, uint32_t *ret_drain_ms)
{
	const json_t *value = json_object_get(request->object, "drain_ms");
	json_int_t drain_ms = json_integer_value(value);

	if (value && (!json_is_integer(value) || drain_ms < 0 || drain_ms > drain_most_ms))
		return refuse("invalid", "\"drain_ms\" must be a number from 0 to %d", (int)drain_most_ms);
	*ret_drain_ms = (uint32_t)drain_ms;
	return NULL;
}

// ---- vGPU and process ------------------------------------------------------------------------------------

// Returns whether the tenant is the process `pid`. A slot can name any process, so the daemon must have a pidfd of it.
// It opens a pidfd only of a process that runs for the vGPU's owner or group, or that maps the ledger.
static bool is_process(const struct tenant *tenant, pid_t pid)
{
	return eviction_concerns(tenant) && tenant->pid == pid && tenant->source.fd >= 0;
}

static bool has_process(const struct vgpu *vgpu, pid_t pid)
{
	for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
		if (is_process(tenant, pid))
			return true;
	return false;
}

// Finds the vGPU of the process, among the vGPUs whose programs the peer may see. Prefers an evictable one.
static struct vgpu *find_vgpu_of_process(const struct request *request, pid_t pid, bool scan)
{
	struct vgpu *found = NULL;

	for (struct vgpu *vgpu = request->node->vgpus; vgpu; vgpu = vgpu->next) {
		if (!authority_allows(AUTHORITY_TENANTS, authority_classify(request->peer, vgpu->owner, vgpu->group)))
			continue;
		if (scan)
			tenant_scan(request->node, vgpu);
		if (has_process(vgpu, pid) && (!found || vgpu->evictable))
			found = vgpu;
	}
	return found;
}

static json_t *refuse_process(json_int_t pid)
{
	return refuse(
		"not_found",
		"process %lld does not run in a vGPU of yours, or has not used CUDA yet: `virgate ps%s` lists those "
		"that do",
		(long long)pid, sim_flag());
}

static json_t *read_process(const struct request *request, struct wish *wish)
{
	const json_t *value = json_object_get(request->object, "pid");
	json_int_t pid = json_integer_value(value);

	if (!json_is_integer(value) || pid <= 0 || pid > INT_MAX)
		return refuse("invalid", "\"pid\" must be the number of a process");
	wish->pid = (pid_t)pid;
	wish->vgpu = find_vgpu_of_process(request, wish->pid, false);
	if (!wish->vgpu)
		wish->vgpu = find_vgpu_of_process(request, wish->pid, true);
	return wish->vgpu ? request_permit(request, wish->vgpu) : refuse_process(pid);
}

// Returns whether the vGPU accepts the wish now. A wish to resume is always accepted, even if the ledger was removed or
// the vGPU is being removed.
static bool accepts_wish(const struct request *request, const struct wish *wish, json_t **ret_answer)
{
	if (wish->is_out)
		return can_be_used(request, wish->vgpu, ret_answer);
	tenant_scan(request->node, wish->vgpu);
	*ret_answer = wish->vgpu->damage == DAMAGE_CONTENTS ? refuse_damaged(wish->vgpu) : NULL;
	return !*ret_answer;
}

// Reads the fields of the wish. Returns NULL or a refusal.
static json_t *read_fields(const struct request *request, struct wish *wish)
{
	json_t *refusal = read_drain(request, &wish->drain_ms);
	bool has_pid = json_object_get(request->object, "pid") != NULL;

	if (refusal)
		return refusal;
	if (has_pid && json_object_get(request->object, "name"))
		return refuse("invalid", "both a vGPU and a process are named: name one of them");
	if (has_pid)
		refusal = read_process(request, wish);
	else
		wish->vgpu = request_vgpu(request, "name", &refusal);
	if (refusal || wish->vgpu->evictable)
		return refusal;
	return refuse("unsupported",
		      "vGPU %s is not evictable, so memory of its programs cannot move to the host: create it with "
		      "--evictable%s",
		      wish->vgpu->name, wish->is_out ? ", or suspend it with --deep" : "");
}

// Reads the wish, and checks that the vGPU accepts it. If not, returns false, and *ret_answer is the refusal, or NULL
// if the request must wait.
static bool read_wish(const struct request *request, struct wish *wish, json_t **ret_answer)
{
	*ret_answer = read_fields(request, wish);
	if (*ret_answer || !accepts_wish(request, wish, ret_answer))
		return false;
	if (wish->pid && !has_process(wish->vgpu, wish->pid)) // the process has ended
		*ret_answer = refuse_process(wish->pid);
	return !*ret_answer;
}

static bool is_addressed(const struct wish *wish, const struct tenant *tenant)
{
	return wish->pid ? is_process(tenant, wish->pid) : eviction_concerns(tenant);
}

// ---- repeated wishes -------------------------------------------------------------------------------------

// Returns whether the process has carried out the wish, or never can carry it out.
static bool is_carried_out(const struct eviction *one, bool is_out)
{
	switch (one->state) {
	case PAGER_NONE:   // the process has no memory yet; its next allocation obeys the wish
	case PAGER_BROKEN: // the memory of the process is lost
		return true;
	case PAGER_OUT:
	case PAGER_PARKED:
		return is_out && !one->is_pending;
	case PAGER_RUNNING:
		return !is_out && !one->is_pending;
	default:
		return false;
	}
}

// Returns whether the same wish was made before, and all processes that it is for have carried it out. If one of them
// gave up, the wish is no repetition, and the daemon asks that process again.
static bool is_repetition(const struct wish *wish)
{
	bool stands = wish->pid || eviction_is_suspended(wish->vgpu) == wish->is_out;
	struct eviction one;

	for (const struct tenant *tenant = wish->vgpu->tenants; tenant && stands; tenant = tenant->next) {
		if (!is_addressed(wish, tenant))
			continue;
		eviction_read_slot(wish->vgpu, tenant->seen.slot, &one);
		// A process that left to make room for others, without a wish, can still be suspended.
		bool is_out = one.is_out && !(wish->is_out && one.is_evicted);
		stands = is_out == wish->is_out && is_carried_out(&one, wish->is_out);
	}
	return stands;
}

static json_t *refuse_repetition(const struct wish *wish)
{
	const char *name = wish->vgpu->name;

	if (wish->pid && wish->is_out)
		return refuse("busy", "process %d of vGPU %s is suspended already", (int)wish->pid, name);
	if (wish->pid)
		return refuse("busy", "process %d of vGPU %s is not suspended", (int)wish->pid, name);
	if (wish->is_out)
		return refuse("busy", "vGPU %s is suspended already: `virgate resume%s %s` resumes it", name,
			      sim_flag(), name);
	return refuse("busy", "vGPU %s is not suspended", name);
}

static json_t *check_wish(const struct wish *wish)
{
	if (wish->pid && !wish->is_out && eviction_is_suspended(wish->vgpu))
		return refuse("busy",
			      "process %d cannot be resumed alone, because its vGPU %s is suspended: `virgate "
			      "resume%s %s` resumes all of its processes",
			      (int)wish->pid, wish->vgpu->name, sim_flag(), wish->vgpu->name);
	return is_repetition(wish) ? refuse_repetition(wish) : NULL;
}

// ---- notification ----------------------------------------------------------------------------------------

// Writes the wish into the process's slot, and wakes the process's pager. Does not wake the pager of a process that is
// suspended already and shall stay suspended.
static void ask_process(const struct wish *wish, unsigned int number)
{
	struct pager_slot *slot = &vg_ledger_pager_slots(wish->vgpu->ledger)[number];
	struct eviction one;

	eviction_read_slot(wish->vgpu, number, &one);
	atomic_store_explicit(&slot->out, wish->is_out, memory_order_relaxed);
	atomic_store_explicit(&slot->drain_ms, wish->drain_ms, memory_order_relaxed);
	if (!wish->is_out || (one.state != PAGER_OUT && one.state != PAGER_PARKED) || one.is_pending)
		eviction_ring(slot);
}

static json_t *describe_process(const struct tenant *tenant)
{
	struct eviction one;

	eviction_read_slot(tenant->vgpu, tenant->seen.slot, &one);
	return json_pack("{s:i, s:o, s:f, s:I, s:I}", "pid", tenant->pid > 0 ? (int)tenant->pid : 0, "command",
			 json_command(tenant->seen.command), "started", (double)tenant->seen.entered_ns / 1e9, "bytes",
			 (json_int_t)one.bytes, "host", (json_int_t)one.host);
}

// Writes the wish to suspend or resume the whole vGPU into its ledger, and wakes the pagers of all of its processes.
// Looks for processes in the slots of the ledger, since the last scan may have missed one. Such a process may have read
// the old wish just before this function replaced it.
static void ask_vgpu(struct node *node, const struct wish *wish)
{
	struct pager_page *page = vg_ledger_pager_page(wish->vgpu->ledger);
	unsigned int cursor = 0, slot;

	atomic_store(&page->suspended, wish->is_out);
	if (wish->is_out)
		wish->vgpu->residence.is_called = false;
	else
		residence_resume(node, wish->vgpu); // the vGPU returns at once, or when there is room on the device
	atomic_store(&page->out, wish->is_out || wish->vgpu->residence.is_evicted);
	while (eviction_next_slot(wish->vgpu, &cursor, &slot))
		ask_process(wish, slot);
}

static json_t *carry_out_wish(const struct request *request, const struct wish *wish)
{
	json_t *asked = json_array();

	for (const struct tenant *tenant = wish->vgpu->tenants; tenant; tenant = tenant->next) {
		if (!is_addressed(wish, tenant))
			continue;
		json_array_insert_new(asked, 0, describe_process(tenant));
		if (wish->pid)
			ask_process(wish, tenant->seen.slot);
	}
	if (!wish->pid)
		ask_vgpu(request->node, wish);
	say("vGPU %s: process %d of user %u asked %zu process%s to %s", wish->vgpu->name, (int)request->peer->pid,
	    (unsigned int)request->peer->uid, json_array_size(asked), json_array_size(asked) == 1 ? "" : "es",
	    wish->is_out ? "suspend" : "resume");
	wish->vgpu->suspends += wish->is_out;
	const struct journal_note note = {.vgpu = wish->vgpu, .actor = request->peer, .pid = wish->pid};
	journal_add(request->node, wish->is_out ? JOURNAL_SUSPENDED : JOURNAL_RESUMED, &note, "%s",
		    wish->pid ? "one process" : "all of its processes");
	return json_pack("{s:b, s:s, s:o}", "ok", 1, "name", wish->vgpu->name, "asked", asked);
}

static json_t *answer_wish(const struct request *request, bool is_out)
{
	struct wish wish = {.is_out = is_out};
	json_t *refusal;

	if (!read_wish(request, &wish, &refusal))
		return refusal;
	refusal = check_wish(&wish);
	return refusal ? refusal : carry_out_wish(request, &wish);
}

json_t *answer_suspend(const struct request *request)
{
	return answer_wish(request, true);
}

json_t *answer_resume(const struct request *request)
{
	return answer_wish(request, false);
}
