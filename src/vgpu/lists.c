#include "vgpu/lists.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "node/fields.h"

// Every list is one allocation, which begins with this struct. The public struct comes after it.
struct block {
	json_t *reply;
	void *items;
	size_t count;
};

struct vgpu_block {
	struct block block;
	struct vg_tenant_info *tenants; // the tenants of all vGPUs, in one array
	struct vg_vgpu_list list;
};

struct device_block {
	struct block block;
	struct vg_device_list list;
};

struct refusal_block {
	struct block block;
	struct vg_refusal_list list;
};

#define BLOCK_OF(type, pointer) ((type *)((char *)(pointer)-offsetof(type, list)))

// Allocates a list: a block of `total` bytes, and an array with one `item` for each element of reply[key]. Consumes
// `reply` on failure.
static struct block *make_block(json_t *reply, const char *key, size_t total, size_t item, enum vg_status *ret_status)
{
	json_t *array = json_object_get(reply, key);

	if (!json_is_array(array)) {
		*ret_status = vg_fields_refuse(key);
		json_decref(reply);
		return NULL;
	}
	struct block *block = calloc(1, total);
	void *items = calloc(json_array_size(array) + 1, item);
	if (!block || !items) {
		*ret_status = vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for the list");
		free(block);
		free(items);
		json_decref(reply);
		return NULL;
	}
	*block = (struct block){reply, items, json_array_size(array)};
	return block;
}

static void free_block(struct block *block)
{
	json_decref(block->reply);
	free(block->items);
	free(block);
}

// Reads the eviction state of a tenant. An older daemon does not send this state, because it has no evictable vGPUs.
static void read_eviction(struct vg_fields *tenant, const json_t *object, struct vg_eviction_info *eviction)
{
	struct vg_fields fields = {object, NULL};
	int unused;

	if (!object || json_is_null(object))
		return;
	eviction->known = 1;
	eviction->state = vg_field_text(&fields, "state");
	eviction->suspended = vg_field_truth(&fields, "suspended");
	eviction->pending = vg_field_truth(&fields, "pending");
	eviction->reason = vg_field_text(&fields, "reason");
	eviction->call = vg_field_optional_text(&fields, "call");
	eviction->error = (unsigned)vg_field_size(&fields, "error");
	eviction->bytes = vg_field_size(&fields, "bytes");
	eviction->host = vg_field_size(&fields, "host");
	eviction->missing = vg_field_size(&fields, "missing");
	eviction->state_ns = vg_field_size(&fields, "state_ns");
	eviction->moved_ns = vg_field_size(&fields, "moved_ns");
	eviction->waited_ns = vg_field_size(&fields, "waited_ns");
	eviction->waiting = (unsigned)vg_field_size(&fields, "waiting");
	eviction->moves = (unsigned)vg_field_size(&fields, "moves");
	// Older daemons do not send "unchanged".
	eviction->unchanged = vg_field_known_size(&fields, "unchanged", &unused);
	eviction->hash_error = (unsigned)vg_field_known_size(&fields, "hash_error", &unused);
	if (fields.wrong)
		tenant->wrong = "eviction";
}

// Reads whether the driver has taken the process off the GPU (`virgate suspend --deep`). An older daemon does not send
// this field.
static enum vg_deep read_deep(struct vg_fields *fields)
{
	const char *text = vg_field_optional_text(fields, "deep");

	return strcmp(text, "done") == 0 ? VG_DEEP_DONE : strcmp(text, "begun") == 0 ? VG_DEEP_BEGUN : VG_DEEP_NONE;
}

static const char *read_tenant(const json_t *object, struct vg_tenant_info *tenant)
{
	struct vg_fields fields = {object, NULL};

	tenant->pid = (int64_t)vg_field_size(&fields, "pid");
	tenant->command = vg_field_text(&fields, "command");
	tenant->charged = vg_field_size(&fields, "charged");
	tenant->overhead = vg_field_size(&fields, "overhead");
	tenant->physical = vg_field_known_size(&fields, "physical", &tenant->physical_known);
	tenant->started = vg_field_seconds(&fields, "started");
	tenant->guest = json_is_true(json_object_get(object, "guest"));
	tenant->ended = json_is_true(json_object_get(object, "ended"));
	read_eviction(&fields, json_object_get(object, "eviction"), &tenant->eviction);
	tenant->deep = read_deep(&fields);
	tenant->container = vg_field_optional_text(&fields, "container");
	tenant->image = vg_field_optional_text(&fields, "image");
	tenant->outside = json_is_true(json_object_get(object, "outside"));
	return fields.wrong;
}

// Reads a figure that comes from the ledger. For a damaged vGPU the figure is unknown: the daemon omits it or sends
// null.
static uint64_t read_figure(struct vg_fields *fields, const char *key, const struct vg_vgpu_info *vgpu)
{
	return vgpu->damaged ? 0 : vg_field_size(fields, key);
}

static void read_turns(struct vg_fields *vgpu, const json_t *object, struct vg_turns_info *turns)
{
	struct vg_fields fields = {object, NULL};

	if (!object || json_is_null(object))
		return;
	turns->known = 1;
	turns->mode = vg_field_text(&fields, "mode");
	turns->held = vg_field_truth(&fields, "held");
	turns->reason = vg_field_text(&fields, "reason");
	turns->recent = vg_field_seconds(&fields, "recent");
	turns->weight = vg_field_seconds(&fields, "weight");
	turns->gpu_ns = vg_field_size(&fields, "gpu_ns");
	turns->waited_ns = vg_field_size(&fields, "waited_ns");
	turns->turns = vg_field_size(&fields, "turns");
	turns->holder = vg_field_optional_text(&fields, "holder");
	turns->quantum_ns = vg_field_size(&fields, "quantum_ns");
	turns->handovers = vg_field_seconds(&fields, "handovers");
	if (fields.wrong)
		vgpu->wrong = "turns";
}

static enum vg_scheduling_class read_class(struct vg_fields *fields)
{
	const char *text = vg_field_text(fields, "class");
	bool is_latency = strcmp(text, "latency") == 0;

	if (!is_latency && strcmp(text, "batch") != 0)
		fields->wrong = "class";
	return is_latency ? VG_CLASS_LATENCY : VG_CLASS_BATCH;
}

// Reads the sharing mode. An older daemon, which has only one mode, does not send it.
static enum vg_sharing_mode read_mode(struct vg_fields *fields)
{
	const char *text = vg_field_optional_text(fields, "mode");
	bool is_mps = strcmp(text, "mps") == 0;

	if (!is_mps && *text && strcmp(text, "time") != 0)
		fields->wrong = "mode";
	return is_mps ? VG_MODE_MPS : VG_MODE_TIME;
}

static void read_vgpu_eviction(struct vg_fields *vgpu, const json_t *object, struct vg_vgpu_info *info)
{
	const json_t *eviction = json_object_get(object, "eviction");
	struct vg_fields fields = {eviction, NULL};
	int told;

	info->evictable = json_is_true(json_object_get(object, "evictable"));
	info->swap = vg_field_known_size(vgpu, "swap", &told);
	info->fixed = vg_field_known_size(vgpu, "fixed", &told);
	info->idle_suspend = (unsigned)vg_field_known_size(vgpu, "idle_suspend", &told);
	info->eviction_state = "";
	if (!eviction || json_is_null(eviction))
		return;
	info->eviction_state = vg_field_text(&fields, "state");
	info->suspended = vg_field_truth(&fields, "suspended");
	info->on_gpu = vg_field_size(&fields, "on_gpu");
	info->in_host = vg_field_size(&fields, "in_host");
	if (fields.wrong)
		vgpu->wrong = "eviction";
}

static const char *read_vgpu(const json_t *object, struct vg_vgpu_info *vgpu, struct vg_tenant_info *tenants)
{
	struct vg_fields fields = {object, NULL};
	json_t *array = json_object_get(object, "tenants"), *one;
	int told;
	size_t i;

	vgpu->name = vg_field_text(&fields, "name");
	vgpu->uuid = vg_field_text(&fields, "uuid");
	vgpu->device = (int)vg_field_size(&fields, "device");
	vgpu->memory = vg_field_size(&fields, "memory");
	vgpu->damaged = json_is_true(json_object_get(object, "damaged"));
	vgpu->charged = read_figure(&fields, "charged", vgpu);
	vgpu->overhead = read_figure(&fields, "overhead", vgpu);
	vgpu->physical = vg_field_known_size(&fields, "physical", &vgpu->physical_known);
	vgpu->share = (unsigned)vg_field_size(&fields, "share");
	vgpu->share_limit = vg_field_truth(&fields, "share_limit");
	vgpu->scheduling_class = read_class(&fields);
	vgpu->mode = read_mode(&fields);
	read_turns(&fields, json_object_get(object, "turns"), &vgpu->turns);
	vgpu->owner = vg_field_text(&fields, "owner");
	vgpu->group = vg_field_optional_text(&fields, "group");
	vgpu->ephemeral = vg_field_truth(&fields, "ephemeral");
	vgpu->created = vg_field_seconds(&fields, "created");
	vgpu->refusals = read_figure(&fields, "refusals", vgpu);
	// If the field is missing, the value is 0.
	vgpu->shared = vgpu->damaged ? 0 : vg_field_known_size(&fields, "shared", &told);
	vgpu->most_charged = vg_field_known_size(&fields, "most_charged", &told);
	vgpu->gpu_ns = vg_field_known_size(&fields, "gpu_ns", &vgpu->gpu_ns_known);
	read_vgpu_eviction(&fields, object, vgpu);
	vgpu->drained = json_is_true(json_object_get(object, "drained"));
	// An older daemon does not send this field and the next two.
	vgpu->suspends = vg_field_known_size(&fields, "suspends", &told);
	vgpu->checkpoints = vg_field_known_size(&fields, "checkpoints", &told);
	vgpu->evictions = vg_field_known_size(&fields, "evictions", &told);
	vgpu->job = vg_field_optional_text(&fields, "job");
	vgpu->tenants = tenants;
	vgpu->tenant_count = json_array_size(array);
	vgpu->tenants_known = json_is_array(array);
	if (!json_is_array(array) && !json_is_null(array))
		fields.wrong = "tenants";
	json_array_foreach(array, i, one) {
		const char *wrong = read_tenant(one, &tenants[i]);
		if (wrong)
			return wrong;
	}
	return fields.wrong;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct vg_vgpu_info *)a)->name, ((const struct vg_vgpu_info *)b)->name);
}

enum vg_status vg_lists_vgpus(json_t *reply, struct vg_vgpu_list **ret_list)
{
	size_t tenants = 0, i;
	enum vg_status status;
	json_t *one;

	struct vgpu_block *block =
		(struct vgpu_block *)make_block(reply, "vgpus", sizeof *block, sizeof(struct vg_vgpu_info), &status);
	if (!block)
		return status;
	json_t *array = json_object_get(reply, "vgpus");
	json_array_foreach(array, i, one)
		tenants += json_array_size(json_object_get(one, "tenants"));
	block->tenants = calloc(tenants + 1, sizeof *block->tenants);
	if (!block->tenants) {
		free_block(&block->block);
		return vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for the list");
	}
	struct vg_vgpu_info *items = block->block.items;
	block->list = (struct vg_vgpu_list){block->block.count, items};
	tenants = 0;
	json_array_foreach(array, i, one) {
		const char *wrong = read_vgpu(one, &items[i], block->tenants + tenants);
		tenants += items[i].tenant_count;
		if (wrong) {
			status = vg_fields_refuse(wrong);
			vg_vgpu_list_free(&block->list);
			return status;
		}
	}
	qsort(items, block->block.count, sizeof *items, compare_names);
	*ret_list = &block->list;
	return VG_OK;
}

void vg_vgpu_list_free(struct vg_vgpu_list *list)
{
	if (!list)
		return;
	struct vgpu_block *block = BLOCK_OF(struct vgpu_block, list);
	free(block->tenants);
	free_block(&block->block);
}

static const char *read_device(const json_t *object, struct vg_device_info *device)
{
	struct vg_fields fields = {object, NULL};
	int told;

	device->index = (int)vg_field_size(&fields, "index");
	device->uuid = vg_field_text(&fields, "uuid");
	device->name = vg_field_text(&fields, "name");
	device->memory = vg_field_size(&fields, "memory");
	device->memory_used = vg_field_known_size(&fields, "memory_used", &device->memory_used_known);
	device->reserved = vg_field_size(&fields, "reserved");
	device->compute_capability = vg_field_text(&fields, "compute_capability");
	device->driver = vg_field_text(&fields, "driver");
	device->simulated = vg_field_truth(&fields, "simulated");
	device->vgpus = (unsigned)vg_field_size(&fields, "vgpus");
	// Older daemons do not send the following fields.
	device->share_reserved = (unsigned)vg_field_known_size(&fields, "share_reserved", &told);
	device->shares_elsewhere = json_is_true(json_object_get(object, "shares_elsewhere"));
	device->movable_reserved = vg_field_known_size(&fields, "movable_reserved", &told);
	device->drained = json_is_true(json_object_get(object, "drained"));
	device->in_use = (unsigned)vg_field_known_size(&fields, "in_use", &told);
	device->waiting = (unsigned)vg_field_known_size(&fields, "waiting", &told);
	device->context_memory = vg_field_known_size(&fields, "context_memory", &told);
	return fields.wrong;
}

enum vg_status vg_lists_devices(json_t *reply, struct vg_device_list **ret_list)
{
	enum vg_status status;
	size_t i;
	json_t *one;

	struct device_block *block = (struct device_block *)make_block(reply, "devices", sizeof *block,
								       sizeof(struct vg_device_info), &status);
	if (!block)
		return status;
	struct vg_device_info *items = block->block.items;
	block->list = (struct vg_device_list){block->block.count, items};
	json_array_foreach(json_object_get(reply, "devices"), i, one) {
		const char *wrong = read_device(one, &items[i]);
		if (wrong) {
			status = vg_fields_refuse(wrong);
			free_block(&block->block);
			return status;
		}
	}
	*ret_list = &block->list;
	return VG_OK;
}

void vg_device_list_free(struct vg_device_list *list)
{
	if (list)
		free_block(&BLOCK_OF(struct device_block, list)->block);
}

static const char *read_refusal(const json_t *object, struct vg_refusal_info *refusal)
{
	struct vg_fields fields = {object, NULL};

	refusal->time = vg_field_seconds(&fields, "time");
	refusal->pid = (int64_t)vg_field_size(&fields, "pid");
	refusal->entry = vg_field_text(&fields, "entry");
	refusal->asked = vg_field_size(&fields, "asked");
	refusal->charged = vg_field_size(&fields, "charged");
	refusal->limit = vg_field_size(&fields, "limit");
	refusal->overhead = vg_field_size(&fields, "overhead");
	return fields.wrong;
}

enum vg_status vg_lists_refusals(json_t *reply, struct vg_refusal_list **ret_list)
{
	enum vg_status status;
	size_t i;
	json_t *one;

	struct refusal_block *block = (struct refusal_block *)make_block(reply, "refusals", sizeof *block,
									 sizeof(struct vg_refusal_info), &status);
	if (!block)
		return status;
	struct vg_refusal_info *items = block->block.items;
	block->list = (struct vg_refusal_list){block->block.count, items};
	json_array_foreach(json_object_get(reply, "refusals"), i, one) {
		const char *wrong = read_refusal(one, &items[i]);
		if (wrong) {
			status = vg_fields_refuse(wrong);
			free_block(&block->block);
			return status;
		}
	}
	*ret_list = &block->list;
	return VG_OK;
}

void vg_refusal_list_free(struct vg_refusal_list *list)
{
	if (list)
		free_block(&BLOCK_OF(struct refusal_block, list)->block);
}
