#include "daemon/trace.h"

#include "base/clock.h"
#include "daemon/arbiter.h"
#include "daemon/deadline.h"
#include "daemon/eviction.h"
#include "daemon/json_text.h"
#include "turn/page.h"

#include <stdatomic.h>

// The shortest time between two calls of arbiter_cut_phases(), each of which adds records of unfinished phases. All
// clients share the logs, so a client that asks without a pause must not fill them with short records.
enum { CUT_MS = 10 };

static uint64_t until_ns;     // when the recording ends; 0: nothing is recorded
static uint64_t cut_ns;	      // when arbiter_cut_phases() was last called
static uint64_t first_number; // number of the newest record at the time when the recording began

static bool may_see(const struct authority_peer *peer, uid_t owner, gid_t group)
{
	return authority_allows(AUTHORITY_TENANTS, authority_classify(peer, owner, group));
}

// Tenants can set their counters to any value. INT64_MAX is the largest integer in JSON.
static json_int_t limit_counter(uint64_t value)
{
	return value < INT64_MAX ? (json_int_t)value : INT64_MAX;
}

static json_t *list_record(const struct phase_record *record, const struct authority_peer *peer)
{
	bool is_visible = may_see(peer, record->owner, record->group);

	return json_pack("{s:s, s:i, s:s, s:I, s:I, s:I, s:I, s:o}", "vgpu", record->vgpu, "device",
			 (int)record->device, "phase", turn_phase_text(record->phase), "turn", (json_int_t)record->turn,
			 "begin_ns", (json_int_t)record->begin_ns, "end_ns", (json_int_t)record->end_ns, "charged_ns",
			 limit_counter(record->charged_ns), "launches",
			 is_visible ? json_integer(limit_counter(record->launches)) : json_null());
}

static json_t *list_records(const struct phase_range *range, const struct authority_peer *peer, bool *ret_lost)
{
	static struct phase_record records[TRACE_RECORDS];
	size_t count = arbiter_read_phases(range, records, TRACE_RECORDS, ret_lost);
	json_t *array = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(array, list_record(&records[i], peer));
	return array;
}

// Returns where the memory of the process is, and how much of it is in the host; null if it cannot leave the device.
static json_t *list_memory(const struct tenant *tenant)
{
	struct eviction one;

	if (!tenant->vgpu->evictable || !eviction_concerns(tenant))
		return json_null();
	eviction_read_slot(tenant->vgpu, tenant->seen.slot, &one);
	const char *place = one.state == PAGER_LEAVING				  ? "leaves"
			    : one.state == PAGER_COMING				  ? "returns"
			    : one.state == PAGER_OUT || one.state == PAGER_PARKED ? "host"
										  : "device";
	return json_pack("{s:s, s:I, s:I, s:I}", "place", place, "host", (json_int_t)one.host, "since_ns",
			 limit_counter(one.since_ns), "waiting", (json_int_t)one.waiting);
}

static json_t *list_tenant(const struct tenant *tenant)
{
	const struct turn_slot *slot = &vg_ledger_turn_slots(tenant->vgpu->ledger)[tenant->seen.slot];

	return json_pack("{s:i, s:o, s:I, s:I, s:I, s:o}", "pid", tenant->pid > 0 ? (int)tenant->pid : 0, "command",
			 json_command(tenant->seen.command), "launches", limit_counter(atomic_load(&slot->launches)),
			 "gpu_ns", limit_counter(atomic_load(&slot->gpu_ns)), "waiting",
			 (json_int_t)atomic_load(&slot->waiting), "memory", list_memory(tenant));
}

static json_t *list_tenants(const struct vgpu *vgpu, unsigned int *left)
{
	json_t *array = json_array();

	for (const struct tenant *tenant = vgpu->tenants; tenant && *left; tenant = tenant->next) {
		if (tenant->is_dead || tenant->seen.guest)
			continue;
		json_array_append_new(array, list_tenant(tenant));
		--*left;
	}
	return array;
}

static json_t *list_copies(const struct vgpu *vgpu)
{
	static const char *const names[TURN_COPIES] = {
		[TURN_COPY_IN] = "in", [TURN_COPY_OUT] = "out", [TURN_COPY_WITHIN] = "within"};
	const struct turn_page *page = vg_ledger_turn_page(vgpu->ledger);
	json_t *object = json_object();

	for (int i = 0; i < TURN_COPIES; i++)
		json_object_set_new(object, names[i],
				    json_pack("{s:I, s:I}", "count", limit_counter(atomic_load(&page->copies[i].count)),
					      "bytes", limit_counter(atomic_load(&page->copies[i].bytes))));
	return object;
}

static json_t *list_vgpu(const struct vgpu *vgpu, bool is_visible, unsigned int *left)
{
	bool is_sound = vgpu->damage != DAMAGE_CONTENTS;
	uint64_t charged = is_sound ? vg_ledger_charged(vgpu->ledger) : 0;

	is_visible &= is_sound;
	return json_pack("{s:s, s:i, s:o, s:I, s:o, s:o}", "name", vgpu->name, "device", (int)vgpu->device, "charged",
			 is_sound ? json_integer(limit_counter(charged)) : json_null(), "refusals",
			 is_sound ? limit_counter(vg_ledger_refusal_count(vgpu->ledger)) : 0, "copies",
			 is_visible ? list_copies(vgpu) : json_null(), "tenants",
			 is_visible ? list_tenants(vgpu, left) : json_null());
}

static json_t *list_vgpus(const struct node *node, const struct authority_peer *peer, bool *ret_complete)
{
	unsigned int left = TRACE_TENANTS;
	json_t *array = json_array();

	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		json_array_insert_new(array, 0, list_vgpu(vgpu, may_see(peer, vgpu->owner, vgpu->group), &left));
	*ret_complete = left > 0;
	return array;
}

// Begins the recording, or makes it last longer. Includes vGPUs that were created since the last call.
static void extend_recording(struct node *node)
{
	uint64_t now = vg_clock_monotonic_ns();

	if (!until_ns)
		first_number = phase_log_newest();
	until_ns = now + TRACE_LEASE_S * 1000000000ull;
	arbiter_trace(node, true);
	if (now - cut_ns < CUT_MS * 1000000ull)
		return;
	arbiter_cut_phases();
	cut_ns = now;
}

json_t *trace_list(struct node *node, const struct authority_peer *peer, const struct trace_query *query)
{
	bool is_lost = false, is_complete = true;

	extend_recording(node);
	uint64_t newest = phase_log_newest(), now = arbiter_now();
	struct phase_range range = {query->begins || query->after > newest ? newest : query->after, newest};
	if (range.last - range.after > TRACE_RECORDS)
		range.last = range.after + TRACE_RECORDS;
	json_t *records = list_records(&range, peer, &is_lost);
	json_t *vgpus = query->lists_vgpus ? list_vgpus(node, peer, &is_complete) : json_array();
	is_lost = !query->begins && (is_lost || query->after < first_number);
	return json_pack("{s:b, s:f, s:f, s:I, s:I, s:b, s:b, s:b, s:o, s:o}", "ok", 1, "started",
			 (double)node->started_ns / 1e9, "time", (double)vg_clock_realtime_ns() / 1e9, "now_ns",
			 (json_int_t)now, "next", (json_int_t)range.last, "more", (int)(range.last < newest), "lost",
			 (int)is_lost, "complete", (int)is_complete, "records", records, "vgpus", vgpus);
}

void trace_expire(struct node *node, uint64_t now, uint64_t *deadline)
{
	if (until_ns && now >= until_ns) {
		until_ns = 0;
		arbiter_trace(node, false);
	}
	deadline_lower(deadline, until_ns);
}
