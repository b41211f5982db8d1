// Writes and reads tenants in virgate.json.
#include "checkpoint/tenant/tenant.h"

#include "base/status.h"
#include "checkpoint/image/image.h"
#include "checkpoint/tenant/image.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Converts a user or group id to JSON. An unknown id, -1, becomes null.
static json_t *number_or_null(uint32_t id)
{
	return id == UINT32_MAX ? json_null() : json_integer(id);
}

static json_t *describe_vgpu(const struct tenant_vgpu *vgpu)
{
	bool known = vgpu->has_terms;

	return json_pack("{s:s, s:s, s:s, s:I, s:i, s:o, s:o, s:b, s:b, s:o, s:o, s:o, s:o}", "name", vgpu->name,
			 "ledger", vgpu->path, "uuid", vgpu->uuid, "memory", (json_int_t)vgpu->memory, "share",
			 (int)vgpu->share, "share_limit", known ? json_boolean(vgpu->share_limit) : json_null(),
			 "class",
			 known ? json_string(vgpu->class == VG_CLASS_LATENCY ? "latency" : "batch") : json_null(),
			 "ephemeral", (int)vgpu->ephemeral, "evictable", (int)vgpu->evictable, "swap",
			 vgpu->evictable ? json_integer((json_int_t)vgpu->swap) : json_null(), "fixed",
			 vgpu->evictable ? json_integer((json_int_t)vgpu->fixed) : json_null(), "owner",
			 number_or_null(vgpu->owner), "group", number_or_null(vgpu->group));
}

static json_t *describe_tenant(const struct tenants *tenants, const struct tenant *tenant)
{
	const struct vg_ledger_tenant *slot = &tenant->slot;
	json_t *charged = json_object();
	char image[40], command[VG_LEDGER_COMMAND];

	for (int kind = 0; kind < VG_LEDGER_KIND_COUNT; kind++)
		if (slot->by_kind[kind])
			json_object_set_new(charged, vg_ledger_kind_text((enum vg_ledger_kind)kind),
					    json_integer((json_int_t)slot->by_kind[kind]));
	// Replace odd bytes: the program chooses its name, which may be any bytes.
	for (size_t i = 0; i < sizeof command; i++)
		command[i] = slot->command[i] & 0x80 || (slot->command[i] && slot->command[i] < ' ') ? '?'
												     : slot->command[i];
	snprintf(image, sizeof image, "%016" PRIx64 "%016" PRIx64, slot->program, slot->image);
	return json_pack("{s:i, s:s, s:I, s:I, s:s, s:s, s:I, s:I, s:b, s:b, s:o}", "pid", (int)tenant->pid, "vgpu",
			 tenants->vgpus[tenant->vgpu].name, "slot", (json_int_t)slot->slot, "address",
			 (json_int_t)slot->process, "command", command, "program", image, "entered",
			 (json_int_t)slot->entered_ns, "undeclared", (json_int_t)slot->undeclared, "first_context",
			 (int)slot->pristine, "host", (int)slot->host, "charged", charged);
}

// Sets the number of contexts to 1 if the ledger says that the tenant has only its first context. Otherwise leaves the
// number out, because the ledger does not count contexts.
static int set_contexts(json_t *gpu, const json_t *tenant)
{
	return json_is_true(json_object_get(tenant, "first_context"))
		       ? json_object_set_new(gpu, "contexts", json_integer(1))
		       : 0;
}

// Adds the memory that the process has charged, by kind, to its description.
static int add_kinds(json_t *description, const json_t *tenant, const char *uuid)
{
	json_t *process, *gpu, *charged = json_object_get(tenant, "charged");
	size_t i, g;
	int r = 0;

	json_array_foreach(json_object_get(description, "processes"), i, process)
		if (json_equal(json_object_get(process, "pid"), json_object_get(tenant, "pid")))
			json_array_foreach(json_object_get(process, "gpus"), g, gpu) {
				const char *text = json_string_value(json_object_get(gpu, "uuid"));
				if (text && strcmp(text, uuid) == 0)
					r |= json_object_set(gpu, "kinds", charged) | set_contexts(gpu, tenant);
			}
	return r;
}

enum vg_status tenants_describe(const struct tenants *tenants, json_t *description)
{
	json_t *vgpus = json_array(), *list = json_array();
	int r = 0;

	for (size_t i = 0; i < tenants->vgpu_count; i++)
		r |= json_array_append_new(vgpus, describe_vgpu(&tenants->vgpus[i]));
	for (size_t i = 0; i < tenants->count; i++) {
		json_t *tenant = describe_tenant(tenants, &tenants->list[i]);
		r |= json_array_append_new(list, tenant);
		r |= tenant ? add_kinds(description, tenant, tenants->vgpus[tenants->list[i].vgpu].uuid) : -1;
	}
	r |= json_object_set_new(description, "vgpus", vgpus);
	r |= json_object_set_new(description, "tenants", list);
	return r ? vg_fail(VG_NO_MEMORY, 0, "no memory for an image's description") : VG_OK;
}

// ---- reading -----------------------------------------------------------------------------------------

// Reads a user or group id. Images of earlier versions do not have one. Returns false if it is out of range.
static bool read_id(const json_t *item, const char *key, uint32_t *ret_id)
{
	const json_t *value = json_object_get(item, key);
	json_int_t id = json_is_integer(value) ? json_integer_value(value) : UINT32_MAX;

	*ret_id = (uint32_t)id;
	return id >= 0 && id <= UINT32_MAX;
}

// Reads the terms of the compute share. Images of earlier versions do not have them. Returns false if they are invalid.
static bool read_terms(const json_t *item, struct tenant_vgpu *vgpu)
{
	const json_t *limit = json_object_get(item, "share_limit");
	const char *class = json_string_value(json_object_get(item, "class"));

	vgpu->has_terms = json_is_boolean(limit) && class;
	if (!vgpu->has_terms)
		return true;
	vgpu->share_limit = json_is_true(limit);
	vgpu->class = strcmp(class, "latency") == 0 ? VG_CLASS_LATENCY : VG_CLASS_BATCH;
	return (vgpu->share || !vgpu->share_limit) && (vgpu->class == VG_CLASS_LATENCY || strcmp(class, "batch") == 0);
}

// Reads the settings for eviction. Images of earlier versions do not have them. Returns false if they are invalid.
static bool read_eviction(const json_t *item, struct tenant_vgpu *vgpu)
{
	json_int_t swap = json_integer_value(json_object_get(item, "swap"));
	json_int_t fixed = json_integer_value(json_object_get(item, "fixed"));

	vgpu->evictable = json_is_true(json_object_get(item, "evictable"));
	vgpu->swap = vgpu->evictable ? (uint64_t)swap : 0;
	vgpu->fixed = vgpu->evictable ? (uint64_t)fixed : 0;
	return !vgpu->evictable || (swap > 0 && fixed > 0);
}

static bool read_vgpu(const json_t *item, struct tenant_vgpu *vgpu)
{
	const char *name, *path, *uuid;
	json_int_t memory, share;

	if (json_unpack((json_t *)item, "{s:s, s:s, s:s, s:I, s:I}", "name", &name, "ledger", &path, "uuid", &uuid,
			"memory", &memory, "share", &share))
		return false;
	vgpu->memory = (uint64_t)memory;
	vgpu->share = (unsigned)share;
	vgpu->ephemeral = json_is_true(json_object_get(item, "ephemeral"));
	return read_terms(item, vgpu) && read_eviction(item, vgpu) && read_id(item, "owner", &vgpu->owner) &&
	       read_id(item, "group", &vgpu->group) &&
	       snprintf(vgpu->name, sizeof vgpu->name, "%s", name) < (int)sizeof vgpu->name &&
	       snprintf(vgpu->old_path, sizeof vgpu->old_path, "%s", path) < (int)sizeof vgpu->old_path &&
	       *path == '/' && snprintf(vgpu->uuid, sizeof vgpu->uuid, "%s", uuid) < (int)sizeof vgpu->uuid &&
	       memory > 0 && share >= 0 && share <= 100;
}

static bool read_charges(const json_t *charged, struct vg_ledger_tenant *slot)
{
	uint64_t sum = 0;
	size_t known = 0;

	for (int kind = 0; kind < VG_LEDGER_KIND_COUNT; kind++) {
		const json_t *item = json_object_get(charged, vg_ledger_kind_text((enum vg_ledger_kind)kind));
		json_int_t bytes = json_integer_value(item);
		known += item != NULL;
		if (bytes < 0 || (uint64_t)bytes > INT64_MAX - sum)
			return false;
		slot->by_kind[kind] = (uint64_t)bytes;
		sum += (uint64_t)bytes;
	}
	slot->used = sum;
	return known == json_object_size(charged);
}

static bool find_vgpu(const struct tenants *tenants, const char *name, size_t *ret_index)
{
	for (size_t i = 0; i < tenants->vgpu_count; i++)
		if (strcmp(tenants->vgpus[i].name, name) == 0) {
			*ret_index = i;
			return true;
		}
	return false;
}

static bool read_tenant(const json_t *item, const struct tenants *tenants, struct tenant *tenant)
{
	struct vg_ledger_tenant *slot = &tenant->slot;
	const char *vgpu, *command, *program;
	json_int_t number, address, entered, undeclared;
	int pristine, host, end = 0;
	json_t *charged;

	if (json_unpack((json_t *)item, "{s:i, s:s, s:I, s:I, s:s, s:s, s:I, s:I, s:b, s:b, s:o}", "pid", &tenant->pid,
			"vgpu", &vgpu, "slot", &number, "address", &address, "command", &command, "program", &program,
			"entered", &entered, "undeclared", &undeclared, "first_context", &pristine, "host", &host,
			"charged", &charged) ||
	    number < 0 || number >= VG_LEDGER_SLOTS || undeclared < 0 || !find_vgpu(tenants, vgpu, &tenant->vgpu) ||
	    sscanf(program, "%16" SCNx64 "%16" SCNx64 "%n", &slot->program, &slot->image, &end) != 2 || program[end])
		return false;
	slot->slot = (unsigned int)number;
	slot->process = (uint64_t)address;
	slot->entered_ns = (uint64_t)entered;
	slot->undeclared = (uint64_t)undeclared;
	slot->pristine = pristine;
	slot->host = host;
	snprintf(slot->command, sizeof slot->command, "%s", command);
	return read_charges(charged, slot);
}

static int by_place(const void *a, const void *b)
{
	const struct tenant *one = *(const struct tenant *const *)a, *other = *(const struct tenant *const *)b;

	if (one->vgpu != other->vgpu)
		return one->vgpu < other->vgpu ? -1 : 1;
	return (one->slot.slot > other->slot.slot) - (one->slot.slot < other->slot.slot);
}

static int by_process(const void *a, const void *b)
{
	const struct tenant *one = *(const struct tenant *const *)a, *other = *(const struct tenant *const *)b;

	if (one->vgpu != other->vgpu)
		return one->vgpu < other->vgpu ? -1 : 1;
	return (one->pid > other->pid) - (one->pid < other->pid);
}

// Returns whether each process has at most one slot in each vGPU, and no slot is listed twice.
static bool have_slots(const struct tenants *tenants)
{
	int (*const orders[])(const void *, const void *) = {by_place, by_process};
	const struct tenant **sorted = calloc(tenants->count + 1, sizeof *sorted);
	bool sound = sorted != NULL;

	for (size_t i = 0; i < tenants->count && sorted; i++)
		sorted[i] = &tenants->list[i];
	for (int order = 0; order < 2 && sound; order++) {
		qsort(sorted, tenants->count, sizeof *sorted, orders[order]);
		for (size_t i = 1; i < tenants->count && sound; i++)
			sound = orders[order](&sorted[i - 1], &sorted[i]) != 0;
	}
	free(sorted);
	return sound;
}

enum vg_status tenants_read(const json_t *description, struct tenants *ret_tenants)
{
	const json_t *vgpus = json_object_get(description, "vgpus"), *list = json_object_get(description, "tenants");
	struct tenants tenants = {0};
	bool sound = true;

	tenants.vgpus = calloc(json_array_size(vgpus) + 1, sizeof *tenants.vgpus);
	tenants.list = calloc(json_array_size(list) + 1, sizeof *tenants.list);
	if (!tenants.vgpus || !tenants.list) {
		tenants_free(&tenants);
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu tenants", json_array_size(list));
	}
	for (; sound && tenants.vgpu_count < json_array_size(vgpus); tenants.vgpu_count++)
		sound = read_vgpu(json_array_get(vgpus, tenants.vgpu_count), &tenants.vgpus[tenants.vgpu_count]);
	for (; sound && tenants.count < json_array_size(list); tenants.count++)
		sound = read_tenant(json_array_get(list, tenants.count), &tenants, &tenants.list[tenants.count]);
	if (!sound || !have_slots(&tenants)) {
		tenants_free(&tenants);
		return vg_fail(VG_INTEGRITY, 0,
			       IMAGE_DESCRIPTION " describes vGPUs or tenants by halves, or some of them twice");
	}
	*ret_tenants = tenants;
	return VG_OK;
}
