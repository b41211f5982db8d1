// The registry as JSON. What is not known is null, never 0.
#include "base/clock.h"
#include "base/descriptor.h"
#include "daemon/arbiter.h"
#include "daemon/eviction.h"
#include "daemon/names.h"
#include "daemon/terms.h"
#include "ledger/share.h"

#include <stdio.h>
#include <string.h>

enum { FRESH_MS = 200, MOST_NAMES = 256 };

// NVML is slow: one answer serves all listings of a moment.
struct physical {
	bool known;
	uint64_t at_ns;
	size_t count;
	struct vg_system_process processes[VG_SYSTEM_PROCESSES];
};

static const struct physical *physical_of(struct node *node, size_t device)
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

// Who is not on the list has no memory; who is on it without a figure, or is nobody we can
// name, has an unknown amount.
static bool physical_use(const struct physical *physical, const struct tenant *tenant, uint64_t *ret_bytes)
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

// A figure of a ledger may be any: what is more than can be stands for the most, and JSON knows none above INT64_MAX.
static json_int_t bounded(uint64_t figure, uint64_t most)
{
	figure = figure < most ? figure : most;
	return figure < INT64_MAX ? (json_int_t)figure : INT64_MAX;
}

static json_t *size_or_null(bool known, uint64_t bytes)
{
	return known ? json_integer(bounded(bytes, INT64_MAX)) : json_null();
}

json_t *user_name(uid_t uid)
{
	return json_string(names_user(uid));
}

json_t *group_name(gid_t gid)
{
	return gid == (gid_t)-1 ? json_null() : json_string(names_group(gid));
}

// A program may give itself any name; JSON takes UTF-8 only.
json_t *command_text(const char *command)
{
	char plain[VG_LEDGER_COMMAND];
	size_t length = strnlen(command, sizeof plain - 1);

	for (size_t i = 0; i < length; i++)
		plain[i] = command[i] >= ' ' && command[i] < 127 ? command[i] : '?';
	plain[length] = '\0';
	return json_string(plain);
}

static int names_left; // to be looked up for this answer

void listing_begin(void)
{
	names_left = MOST_NAMES;
}

json_t *command_of(pid_t pid)
{
	char path[48], text[64];

	snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
	ssize_t length = pid > 0 && names_left-- > 0 ? vg_file_read(path, text, sizeof text) : -1;
	if (length <= 0)
		return json_null();
	text[strcspn(text, "\n")] = '\0';
	return command_text(text);
}

// Tenants write their names into their slots. A guest's was taken for it, and may have the name of who had it before.
static json_t *name_tenant(const struct tenant *tenant)
{
	if (!tenant->seen.guest)
		return command_text(tenant->seen.command);
	json_t *command = command_of(tenant->dead ? 0 : tenant->pid);
	return json_is_null(command) ? json_string("") : command;
}

static json_t *list_tenant(const struct tenant *tenant, bool known, uint64_t bytes)
{
	const struct vg_ledger_tenant *seen = &tenant->seen;
	json_int_t charged = bounded(seen->used, tenant->vgpu->memory);

	return json_pack("{s:i, s:o, s:I, s:I, s:o, s:f, s:b, s:b, s:o, s:o}", "pid", tenant->pid > 0 ? (int)tenant->pid : 0,
			 "command", name_tenant(tenant), "charged", charged, "overhead",
			 bounded(seen->overhead, (uint64_t)charged), "physical", size_or_null(known, bytes), "started",
			 (double)seen->entered_ns / 1e9, "guest", (int)seen->guest, "ended", (int)tenant->dead,
			 "eviction", eviction_list_tenant(tenant), "deep", eviction_list_deep(tenant));
}

json_t *listing_vgpu(struct node *node, struct vgpu *vgpu, bool with_tenants)
{
	json_t *tenants = with_tenants ? json_array() : json_null(); // not to be known is not none
	uint64_t limit, charged, sum = 0;

	if (with_tenants)
		tenant_scan(node, vgpu);
	else
		damage_look(node, vgpu); // whose slots these are pays for the look at them
	arbiter_follow(node); // the scan may have found its first program
	bool sound = vgpu->damage != DAMAGE_CONTENTS, all_known = sound;
	for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next) {
		uint64_t bytes = 0;
		// What a guest has on the device is its own vGPU's; what of a host's is this one's cannot be told.
		bool known = !tenant->seen.guest && !tenant->seen.host &&
			     physical_use(physical_of(node, vgpu->device), tenant, &bytes);
		all_known &= known || tenant->seen.guest;
		sum += bytes;
		if (with_tenants)
			json_array_insert_new(tenants, 0, list_tenant(tenant, known, bytes));
	}
	vg_ledger_read(vgpu->ledger, &limit, &charged);
	uint64_t overhead = vg_ledger_overhead(vgpu->ledger), shared = vg_ledger_shared(vgpu->ledger);
	json_t *listed = json_pack(
		"{s:s, s:s, s:i, s:I, s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:f, s:o, s:I, s:I, s:o, s:o}",
		"name", vgpu->name, "uuid", vg_system_device(node->system, vgpu->device)->uuid_text, "device",
		(int)vgpu->device, "memory", (json_int_t)vgpu->limit, "charged", size_or_null(sound, charged),
		"overhead", size_or_null(sound, overhead < charged ? overhead : charged), "physical",
		size_or_null(all_known, sum), "owner",
		user_name(vgpu->owner), "group", group_name(vgpu->group), "ephemeral", (int)vgpu->ephemeral, "damaged",
		(int)(vgpu->damage != DAMAGE_NONE), "created", vgpu->created, "tenants", tenants, "refusals",
		bounded(vg_ledger_refusal_count(vgpu->ledger), INT64_MAX), "context_overhead",
		bounded(vg_ledger_context_overhead(vgpu->ledger), INT64_MAX), "shared",
		size_or_null(sound, shared < charged ? shared : charged), "turns", terms_list_turns(node, vgpu));
	terms_write(listed, &vgpu->terms);
	eviction_write(listed, vgpu);
	json_object_set_new(listed, "eviction", eviction_list_vgpu(vgpu));
	if (with_tenants) // for whoever may enter it
		json_object_set_new(listed, "ledger", json_string(vgpu->path));
	return listed;
}

json_t *listing_vgpus(struct node *node, const struct authority_peer *peer)
{
	json_t *array = json_array();

	for (struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next) {
		enum authority_class class = authority_classify(peer, vgpu->owner, vgpu->group);
		json_array_insert_new(array, 0, listing_vgpu(node, vgpu, authority_allows(AUTHORITY_TENANTS, class)));
	}
	return array;
}

json_t *listing_devices(struct node *node)
{
	json_t *array = json_array();

	for (size_t i = 0; i < vg_system_device_count(node->system); i++) {
		const struct vg_system_device *device = vg_system_device(node->system, i);
		char compute[16];
		uint64_t used = 0;
		int vgpus = 0;
		for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
			vgpus += vgpu->device == i;
		bool known = vg_system_memory_used(node->system, i, &used) == 0;
		snprintf(compute, sizeof compute, "%d.%d", device->compute_major, device->compute_minor);
		json_array_append_new(
			array, json_pack("{s:i, s:s, s:s, s:I, s:o, s:s, s:s, s:b, s:I, s:i}", "index", (int)i, "uuid",
					 device->uuid_text, "name", device->name, "memory", (json_int_t)device->memory,
					 "memory_used", size_or_null(known, used), "compute_capability",
					 device->compute_major ? compute : "unknown", "driver",
					 vg_system_driver_version(node->system), "simulated", (int)node->simulated,
					 "reserved", (json_int_t)admission_promised(node, i), "vgpus", vgpus));
	}
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
		json_array_append_new(array, json_pack("{s:f, s:i, s:s, s:I, s:I, s:I, s:I}", "time",
						       (double)one->time_ns / 1e9, "pid",
						       one->pid > 0 ? (int)one->pid : 0, "entry", entry, "asked",
						       bounded(one->asked, INT64_MAX), "charged",
						       bounded(one->charged, INT64_MAX), "limit",
						       bounded(one->limit, INT64_MAX), "overhead",
						       bounded(one->overhead, INT64_MAX)));
	}
	return array;
}
