#include "daemon/listing.h"

#include "base/clock.h"
#include "daemon/admission.h"
#include "daemon/container.h"
#include "daemon/json_text.h"
#include "daemon/listing_parts.h"
#include "daemon/options.h"
#include "daemon/overhead.h"
#include "daemon/usage.h"
#include "ledger/shared.h"

#include <stdio.h>

enum { FRESH_MS = 200 };

// The memory of the processes on one device, as NVML reports it. NVML is slow, so its answer is used again for
// FRESH_MS.
struct physical {
	bool known;
	uint64_t at_ns;
	size_t count;
	struct vg_system_process processes[VG_SYSTEM_PROCESSES];
};

static const struct physical *read_physical(const struct node *node, size_t device)
{
	static struct physical all[VG_SYSTEM_DEVICES];
	struct physical *one = &all[device];
	uint64_t now = vg_clock_monotonic_ns();

	if (!one->at_ns || now - one->at_ns > FRESH_MS * 1000000ull) {
		one->known = vg_system_processes(node->system, device, one->processes, &one->count) == 0;
		one->at_ns = vg_clock_monotonic_ns();
	}
	return one;
}

// Finds the physical memory of the tenant. A process that is missing in NVML's list has none. Returns false if the
// amount is unknown: the list has no figure for the process, or the daemon does not know the pid of the process.
static bool find_physical(const struct physical *physical, const struct tenant *tenant, uint64_t *ret_bytes)
{
	if (!physical->known || tenant->pid <= 0)
		return false;
	for (size_t i = 0; i < physical->count; i++) {
		if (physical->processes[i].pid != (uint32_t)tenant->pid)
			continue;
		*ret_bytes = physical->processes[i].memory;
		return physical->processes[i].memory_known;
	}
	*ret_bytes = 0;
	return true;
}

// Returns `figure`, but at most `most`. Tenants can set the figures of a ledger to any value, and INT64_MAX is the
// largest integer in JSON.
static json_int_t limit_figure(uint64_t figure, uint64_t most)
{
	figure = figure < most ? figure : most;
	return figure < INT64_MAX ? (json_int_t)figure : INT64_MAX;
}

static json_t *size_or_null(bool known, uint64_t bytes)
{
	return known ? json_integer(limit_figure(bytes, INT64_MAX)) : json_null();
}

// Returns the tenant's name. Tenants write their names into their slots. A guest, a process that has opened memory of
// this vGPU, does not. The daemon reserves its slot, which may still have the name of an earlier tenant.
static json_t *name_tenant(const struct tenant *tenant)
{
	if (!tenant->seen.guest)
		return json_command(tenant->seen.command);
	json_t *command = json_command_of(tenant->is_dead ? 0 : tenant->pid);
	return json_is_null(command) ? json_string("") : command;
}

static void write_container(json_t *listed, const struct launcher *container)
{
	if (!container)
		return;
	json_object_set_new(listed, "container", json_string(container->container));
	json_object_set_new(listed, "image", json_string(container->image));
}

static json_t *list_tenant(const struct node *node, const struct tenant *tenant, bool known, uint64_t bytes)
{
	const struct vg_ledger_tenant *seen = &tenant->seen;
	json_int_t charged = limit_figure(seen->used, tenant->vgpu->memory);

	json_t *listed = json_pack("{s:i, s:o, s:I, s:I, s:o, s:f, s:b, s:b, s:o, s:o}", "pid",
				   tenant->pid > 0 ? (int)tenant->pid : 0, "command", name_tenant(tenant), "charged",
				   charged, "overhead", limit_figure(seen->overhead, (uint64_t)charged), "physical",
				   size_or_null(known, bytes), "started", (double)seen->entered_ns / 1e9, "guest",
				   (int)seen->guest, "ended", (int)tenant->is_dead, "eviction",
				   listing_tenant_eviction(tenant), "deep", listing_deep(tenant));
	write_container(listed, container_find(node, tenant->vgpu, tenant->is_dead ? 0 : tenant->pid));
	return listed;
}

// Lists the processes of the vGPU's containers that use the GPU without the interposer.
static void list_outsiders(const struct node *node, const struct vgpu *vgpu, json_t *tenants)
{
	struct outsider outsiders[16];
	const struct physical *physical = vgpu->launchers ? read_physical(node, vgpu->device) : NULL;
	size_t found = physical && physical->known
			       ? container_find_outsiders(node, vgpu, physical->processes, physical->count, outsiders,
							  sizeof outsiders / sizeof *outsiders)
			       : 0;

	for (size_t i = 0; i < found; i++) {
		const struct outsider *one = &outsiders[i];
		json_t *command = json_command_of(one->pid);
		if (json_is_null(command)) {
			json_decref(command);
			command = json_string("");
		}
		json_t *listed = json_pack("{s:i, s:o, s:i, s:i, s:o, s:f, s:b}", "pid", (int)one->pid, "command",
					   command, "charged", 0, "overhead", 0, "physical",
					   size_or_null(one->memory_known, one->memory), "started", 0.0, "outside", 1);
		write_container(listed, one->container);
		json_array_append_new(tenants, listed);
	}
}

// Lists the tenants, unless `tenants` is null, and sums up their physical memory. Returns whether the sum is known.
static bool list_tenants(const struct node *node, const struct vgpu *vgpu, json_t *tenants, uint64_t *ret_physical)
{
	bool all_known = vgpu->damage != DAMAGE_CONTENTS;
	uint64_t sum = 0;

	for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next) {
		uint64_t bytes = 0;
		// A guest is a process that has opened memory of this vGPU; NVML's figure for it counts in its own
		// vGPU. NVML's figure for a host (ledger/ledger.h) covers several vGPUs, and this vGPU's part is
		// unknown.
		bool known = !tenant->seen.guest && !tenant->seen.host &&
			     find_physical(read_physical(node, vgpu->device), tenant, &bytes);
		all_known &= known || tenant->seen.guest;
		sum += bytes;
		if (json_is_array(tenants))
			json_array_insert_new(tenants, 0, list_tenant(node, tenant, known, bytes));
	}
	*ret_physical = sum;
	return all_known;
}

bool listing_physical(const struct node *node, const struct vgpu *vgpu, uint64_t *ret_bytes)
{
	return list_tenants(node, vgpu, NULL, ret_bytes);
}

json_t *listing_vgpu(const struct node *node, const struct vgpu *vgpu, enum listing_detail detail)
{
	json_t *tenants = detail == LISTING_FULL ? json_array() : json_null(); // null: the peer may not see the tenants
	uint64_t limit, charged, physical;
	bool is_known = list_tenants(node, vgpu, tenants, &physical), is_sound = vgpu->damage != DAMAGE_CONTENTS;

	if (json_is_array(tenants))
		list_outsiders(node, vgpu, tenants);
	vg_ledger_read(vgpu->ledger, &limit, &charged);
	uint64_t overhead = vg_ledger_overhead(vgpu->ledger), shared = vg_ledger_shared_charge(vgpu->ledger);
	json_t *listed = json_pack(
		"{s:s, s:s, s:i, s:I, s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:f, s:o, s:I, s:I, s:o, s:o}", "name",
		vgpu->name, "uuid", vg_system_device(node->system, vgpu->device)->uuid_text, "device",
		(int)vgpu->device, "memory", (json_int_t)vgpu->limit, "charged", size_or_null(is_sound, charged),
		"overhead", size_or_null(is_sound, overhead < charged ? overhead : charged), "physical",
		size_or_null(is_known, physical), "owner", json_user(vgpu->owner), "group", json_group(vgpu->group),
		"ephemeral", (int)vgpu->ephemeral, "damaged", (int)(vgpu->damage != DAMAGE_NONE), "created",
		vgpu->created, "tenants", tenants, "refusals",
		limit_figure(vg_ledger_refusal_count(vgpu->ledger), INT64_MAX), "context_overhead",
		limit_figure(vg_ledger_context_overhead(vgpu->ledger), INT64_MAX), "shared",
		size_or_null(is_sound, shared < charged ? shared : charged), "turns", listing_turns(vgpu));
	json_object_set_new(listed, "most_charged", size_or_null(true, vgpu->usage.most_charged));
	json_object_set_new(listed, "gpu_ns", size_or_null(vgpu->usage.has_gpu_time, usage_gpu_ns(vgpu)));
	json_object_set_new(listed, "suspends", json_integer(vgpu->suspends));
	json_object_set_new(listed, "checkpoints", json_integer(vgpu->checkpoints));
	json_object_set_new(listed, "evictions", json_integer(vgpu->residence.evictions));
	if (*vgpu->job)
		json_object_set_new(listed, "job", json_string(vgpu->job));
	options_write_terms(listed, &vgpu->terms);
	options_write_eviction(listed, vgpu);
	json_object_set_new(listed, "eviction", listing_eviction(vgpu));
	json_object_set_new(listed, "drained", json_boolean(node->drains[vgpu->device].is_set));
	if (detail == LISTING_FULL) // the path is only for peers that may enter the vGPU
		json_object_set_new(listed, "ledger", json_string(vgpu->path));
	return listed;
}

json_t *listing_vgpus(const struct node *node, const struct authority_peer *peer)
{
	json_t *array = json_array();

	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next) {
		enum authority_class class = authority_classify(peer, vgpu->owner, vgpu->group);
		bool is_allowed = authority_allows(AUTHORITY_TENANTS, class);
		json_array_insert_new(array, 0, listing_vgpu(node, vgpu, is_allowed ? LISTING_FULL : LISTING_SUMMARY));
	}
	return array;
}

// Returns whether a program runs in the vGPU, or a launcher may start one.
static bool is_in_use(const struct vgpu *vgpu)
{
	if (vgpu->launchers || vgpu->heirs == HEIRS_KNOWN)
		return true;
	for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
		if (!tenant->is_dead && !tenant->seen.guest)
			return true;
	return false;
}

static json_t *device_json(const struct node *node, size_t index, uid_t user)
{
	const struct vg_system_device *device = vg_system_device(node->system, index);
	struct admission_summary summary;
	char compute[16];
	uint64_t used = 0;
	bool measured;
	int vgpus = 0, in_use = 0;

	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next) {
		vgpus += vgpu->device == index;
		in_use += vgpu->device == index && is_in_use(vgpu);
	}
	admission_summarize(node, index, &summary);
	bool known = vg_system_memory_used(node->system, index, &used) == 0;
	snprintf(compute, sizeof compute, "%d.%d", device->compute_major, device->compute_minor);
	return json_pack("{s:i, s:s, s:s, s:I, s:o, s:s, s:s, s:b, s:I, s:i, s:i, s:b, s:I, s:I, s:b, s:i, s:i}",
			 "index", (int)index, "uuid", device->uuid_text, "name", device->name, "memory",
			 (json_int_t)device->memory, "memory_used", size_or_null(known, used), "compute_capability",
			 device->compute_major ? compute : "unknown", "driver", vg_system_driver_version(node->system),
			 "simulated", (int)node->simulated, "reserved", (json_int_t)summary.bytes, "vgpus", vgpus,
			 "share_reserved", (int)summary.share, "shares_elsewhere", (int)summary.others_have_turns,
			 "movable_reserved", (json_int_t)summary.moving, "context_memory",
			 (json_int_t)overhead_estimate(node, index, user, &measured), "drained",
			 (int)node->drains[index].is_set, "in_use", in_use, "waiting", (int)node->waiting[index]);
}

json_t *listing_devices(const struct node *node, uid_t user)
{
	json_t *array = json_array();

	for (size_t i = 0; i < vg_system_device_count(node->system); i++)
		json_array_append_new(array, device_json(node, i, user));
	return array;
}

json_t *listing_refusals(const struct vgpu *vgpu)
{
	static struct vg_ledger_refusal refusals[VG_LEDGER_REFUSALS];
	json_t *array = json_array();
	size_t count = vg_ledger_refusals(vgpu->ledger, refusals);

	for (size_t i = 0; i < count; i++) {
		const struct vg_ledger_refusal *one = &refusals[i];
		char entry[VG_LEDGER_ENTRY];
		for (size_t at = 0; at < sizeof entry; at++)
			entry[at] = !one->entry[at] || (one->entry[at] > ' ' && one->entry[at] < 127) ? one->entry[at]
												      : '?';
		json_array_append_new(array,
				      json_pack("{s:f, s:i, s:s, s:I, s:I, s:I, s:I}", "time",
						(double)one->time_ns / 1e9, "pid", one->pid > 0 ? (int)one->pid : 0,
						"entry", entry, "asked", limit_figure(one->asked, INT64_MAX), "charged",
						limit_figure(one->charged, INT64_MAX), "limit",
						limit_figure(one->limit, INT64_MAX), "overhead",
						limit_figure(one->overhead, INT64_MAX)));
	}
	return array;
}
