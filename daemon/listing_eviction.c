#include "daemon/listing_parts.h"

#include "base/size.h"
#include "daemon/arbiter.h"
#include "daemon/eviction.h"

// Returns whether the process waits for room on the device.
static bool is_waiting(const struct eviction *one)
{
	if (one->is_evicted)
		return one->state == PAGER_OUT && one->waiting;
	return !one->is_out && one->reason == PAGER_DEVICE && (one->state == PAGER_OUT || one->state == PAGER_COMING);
}

static const char *name_state(const struct eviction *one)
{
	if (is_waiting(one))
		return "waiting";
	switch (one->state) {
	case PAGER_NONE:
		return "none";
	case PAGER_RUNNING:
		return one->is_out && one->is_pending ? "asked" : "running";
	case PAGER_CLOSING:
		return "draining";
	case PAGER_LEAVING:
		return "leaving";
	case PAGER_OUT:
	case PAGER_PARKED:
		return one->is_evicted ? "out" : "suspended";
	case PAGER_COMING:
		return "returning";
	case PAGER_BROKEN:
		return "broken";
	case PAGER_PREPARING:
		return "preparing";
	case PAGER_STATE_COUNT:
		break;
	}
	return "unknown";
}

static const char *name_reason(enum pager_reason reason)
{
	static const char *const texts[] = {[PAGER_DONE] = "",		 [PAGER_THREAD] = "thread",
					    [PAGER_GPU] = "gpu",	 [PAGER_CAPTURE] = "capture",
					    [PAGER_HOST] = "host",	 [PAGER_DEVICE] = "device",
					    [PAGER_DRIVER] = "driver",	 [PAGER_FILE] = "file",
					    [PAGER_RESTORE] = "restore", [PAGER_REASON_COUNT] = "unknown"};

	return texts[reason];
}

// Returns the name of the driver call that a thread of the process has not left yet; JSON null if it is unknown.
static json_t *name_call(const struct eviction *one)
{
	static const char *const entries[] = {
#define ENTRY(abi, api, version, stream, family, need) #abi,
#include "abi/entries.def"
	};

	if (one->reason != PAGER_THREAD || one->row >= sizeof entries / sizeof *entries)
		return json_null();
	return json_string(entries[one->row]);
}

static bool has_readable_words(const struct vgpu *vgpu)
{
	return vgpu->evictable && vgpu->damage != DAMAGE_CONTENTS;
}

json_t *listing_tenant_eviction(const struct tenant *tenant)
{
	uint64_t now = arbiter_now();
	struct eviction one;

	if (!has_readable_words(tenant->vgpu) || !eviction_concerns(tenant))
		return json_null();
	eviction_read_slot(tenant->vgpu, tenant->seen.slot, &one);
	uint64_t state_ns = one.since_ns && one.since_ns < now ? now - one.since_ns : 0;
	bool has_error = one.reason == PAGER_DRIVER || one.reason == PAGER_FILE;
	return json_pack("{s:s, s:b, s:b, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "state",
			 name_state(&one), "suspended", (int)(one.is_out && !one.is_evicted), "pending",
			 (int)one.is_pending, "reason", name_reason(one.reason), "call", name_call(&one), "error",
			 (json_int_t)(has_error ? one.row : 0), "bytes", (json_int_t)one.bytes, "host",
			 (json_int_t)one.host, "missing", (json_int_t)one.missing, "state_ns", (json_int_t)state_ns,
			 "moved_ns", (json_int_t)one.moved_ns, "waited_ns", (json_int_t)one.waited_ns, "waiting",
			 (json_int_t)one.waiting, "moves", (json_int_t)one.moves, "unchanged",
			 (json_int_t)one.unchanged, "hash_error", (json_int_t)one.hash_result);
}

json_t *listing_deep(const struct tenant *tenant)
{
	if (tenant->vgpu->damage == DAMAGE_CONTENTS || !eviction_concerns(tenant) || !eviction_is_deep(tenant))
		return json_null();
	uint32_t park = atomic_load_explicit(&vg_ledger_pager_slots(tenant->vgpu->ledger)[tenant->seen.slot].park,
					     memory_order_relaxed);
	return json_string(park & PAGER_PARK_DEEP_DONE ? "done" : "begun");
}

// Counts the processes of a vGPU by where their memory is.
struct summary {
	unsigned int on_device, out, moving, waiting;
	uint64_t bytes, host;
};

static void add_process(struct summary *summary, const struct eviction *one)
{
	summary->bytes += one->bytes;
	summary->host += one->host;
	if (is_waiting(one))
		summary->waiting++;
	else if (one->state == PAGER_OUT || one->state == PAGER_PARKED)
		summary->out++;
	else if (one->state == PAGER_PREPARING || one->state == PAGER_CLOSING || one->state == PAGER_LEAVING ||
		 one->state == PAGER_COMING)
		summary->moving++;
	else if (one->state == PAGER_RUNNING && one->is_out && one->is_pending)
		summary->moving++;
	else if (one->state != PAGER_NONE)
		summary->on_device++;
}

static const char *name_summary(const struct summary *summary, const struct residence *residence, bool is_suspended)
{
	bool is_evicted = residence->is_evicted;

	if (residence->is_doubted && (is_suspended || is_evicted || summary->out))
		return "contradicted";
	if (summary->moving)
		return "moving";
	if (summary->waiting)
		return "waiting";
	if (is_evicted && !is_suspended && !summary->on_device)
		return "out";
	if (!is_suspended && !summary->out)
		return "running";
	return summary->on_device ? "partly suspended" : "suspended";
}

json_t *listing_eviction(const struct vgpu *vgpu)
{
	struct summary summary = {0};
	struct eviction one;

	if (!has_readable_words(vgpu))
		return json_null();
	for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next) {
		if (!eviction_concerns(tenant))
			continue;
		eviction_read_slot(vgpu, tenant->seen.slot, &one);
		add_process(&summary, &one);
	}
	uint64_t bytes = vg_size_min(summary.bytes, vgpu->memory), host = vg_size_min(summary.host, bytes);
	host = vgpu->residence.is_doubted ? 0 : host;
	bool is_suspended = eviction_is_suspended(vgpu);
	return json_pack("{s:s, s:b, s:I, s:I}", "state", name_summary(&summary, &vgpu->residence, is_suspended),
			 "suspended", (int)is_suspended, "on_gpu", (json_int_t)(bytes - host), "in_host",
			 (json_int_t)host);
}
