#include "vgpu/lists.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

// What every list begins with in memory, before its public face.
struct block {
	json_t *reply;
	void *items;
	size_t count;
};

struct vgpu_block {
	struct block block;
	struct vg_tenant_info *tenants; // of all vGPUs
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

// Reads fields and remembers whether any was missing or of a wrong kind.
struct fields {
	const json_t *object;
	const char *wrong; // NULL: none
};

static const char *text(struct fields *fields, const char *key)
{
	const json_t *value = json_object_get(fields->object, key);

	if (!json_is_string(value)) {
		fields->wrong = key;
		return "";
	}
	return json_string_value(value);
}

static const char *optional_text(struct fields *fields, const char *key)
{
	const json_t *value = json_object_get(fields->object, key);

	return !value || json_is_null(value) ? "" : text(fields, key);
}

static uint64_t size(struct fields *fields, const char *key)
{
	const json_t *value = json_object_get(fields->object, key);

	if (!json_is_integer(value) || json_integer_value(value) < 0) {
		fields->wrong = key;
		return 0;
	}
	return (uint64_t)json_integer_value(value);
}

static uint64_t known_size(struct fields *fields, const char *key, int *ret_known)
{
	const json_t *value = json_object_get(fields->object, key);

	*ret_known = value && !json_is_null(value);
	return *ret_known ? size(fields, key) : 0;
}

static int truth(struct fields *fields, const char *key)
{
	const json_t *value = json_object_get(fields->object, key);

	if (!json_is_boolean(value))
		fields->wrong = key;
	return json_is_true(value);
}

static double seconds(struct fields *fields, const char *key)
{
	const json_t *value = json_object_get(fields->object, key);

	if (!json_is_number(value))
		fields->wrong = key;
	return json_number_value(value);
}

static enum vg_status refuse(const char *function, const char *wrong)
{
	return vg_fail(
		VG_PROTOCOL, 0, function,
		"the daemon's reply has no proper \"%s\": is it another version's? `virgate shutdown` ends it, and the "
		"next call starts one of this version",
		wrong);
}

// A block of `total` bytes and an array for each element of reply[key].
static struct block *make_block(const char *function, json_t *reply, const char *key, size_t total, size_t item,
				enum vg_status *ret_status)
{
	json_t *array = json_object_get(reply, key);

	if (!json_is_array(array)) {
		*ret_status = refuse(function, key);
		json_decref(reply);
		return NULL;
	}
	struct block *block = calloc(1, total);
	void *items = calloc(json_array_size(array) + 1, item);
	if (!block || !items) {
		*ret_status = vg_fail(VG_NO_MEMORY, ENOMEM, function, "no memory for the list");
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

static const char *read_tenant(const json_t *object, struct vg_tenant_info *tenant)
{
	struct fields fields = {object, NULL};

	tenant->pid = (int64_t)size(&fields, "pid");
	tenant->command = text(&fields, "command");
	tenant->charged = size(&fields, "charged");
	tenant->overhead = size(&fields, "overhead");
	tenant->physical = known_size(&fields, "physical", &tenant->physical_known);
	tenant->started = seconds(&fields, "started");
	return fields.wrong;
}

static const char *read_vgpu(const json_t *object, struct vg_vgpu_info *vgpu, struct vg_tenant_info *tenants)
{
	struct fields fields = {object, NULL};
	json_t *array = json_object_get(object, "tenants"), *one;
	size_t i;

	vgpu->name = text(&fields, "name");
	vgpu->uuid = text(&fields, "uuid");
	vgpu->device = (int)size(&fields, "device");
	vgpu->memory = size(&fields, "memory");
	vgpu->charged = size(&fields, "charged");
	vgpu->overhead = size(&fields, "overhead");
	vgpu->physical = known_size(&fields, "physical", &vgpu->physical_known);
	vgpu->share = (unsigned)size(&fields, "share");
	vgpu->share_enforced = truth(&fields, "share_enforced");
	vgpu->owner = text(&fields, "owner");
	vgpu->group = optional_text(&fields, "group");
	vgpu->ephemeral = truth(&fields, "ephemeral");
	vgpu->damaged = json_is_true(json_object_get(object, "damaged"));
	vgpu->created = seconds(&fields, "created");
	vgpu->refusals = size(&fields, "refusals");
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

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct vg_vgpu_info *)a)->name, ((const struct vg_vgpu_info *)b)->name);
}

enum vg_status vg_lists_vgpus(const char *function, json_t *reply, struct vg_vgpu_list **ret_list)
{
	size_t tenants = 0, i;
	enum vg_status status;
	json_t *one;

	struct vgpu_block *block = (struct vgpu_block *)make_block(function, reply, "vgpus", sizeof *block,
								   sizeof(struct vg_vgpu_info), &status);
	if (!block)
		return status;
	json_t *array = json_object_get(reply, "vgpus");
	json_array_foreach(array, i, one)
		tenants += json_array_size(json_object_get(one, "tenants"));
	block->tenants = calloc(tenants + 1, sizeof *block->tenants);
	if (!block->tenants) {
		free_block(&block->block);
		return vg_fail(VG_NO_MEMORY, ENOMEM, function, "no memory for the list");
	}
	struct vg_vgpu_info *items = block->block.items;
	block->list = (struct vg_vgpu_list){block->block.count, items};
	tenants = 0;
	json_array_foreach(array, i, one) {
		const char *wrong = read_vgpu(one, &items[i], block->tenants + tenants);
		tenants += items[i].tenant_count;
		if (wrong) {
			status = refuse(function, wrong);
			vg_vgpu_list_free(&block->list);
			return status;
		}
	}
	qsort(items, block->block.count, sizeof *items, by_name);
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
	struct fields fields = {object, NULL};

	device->index = (int)size(&fields, "index");
	device->uuid = text(&fields, "uuid");
	device->name = text(&fields, "name");
	device->memory = size(&fields, "memory");
	device->memory_used = known_size(&fields, "memory_used", &device->memory_used_known);
	device->reserved = size(&fields, "reserved");
	device->compute_capability = text(&fields, "compute_capability");
	device->driver = text(&fields, "driver");
	device->simulated = truth(&fields, "simulated");
	device->vgpus = (unsigned)size(&fields, "vgpus");
	return fields.wrong;
}

enum vg_status vg_lists_devices(const char *function, json_t *reply, struct vg_device_list **ret_list)
{
	enum vg_status status;
	size_t i;
	json_t *one;

	struct device_block *block = (struct device_block *)make_block(function, reply, "devices", sizeof *block,
								       sizeof(struct vg_device_info), &status);
	if (!block)
		return status;
	struct vg_device_info *items = block->block.items;
	block->list = (struct vg_device_list){block->block.count, items};
	json_array_foreach(json_object_get(reply, "devices"), i, one) {
		const char *wrong = read_device(one, &items[i]);
		if (wrong) {
			status = refuse(function, wrong);
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
	struct fields fields = {object, NULL};

	refusal->time = seconds(&fields, "time");
	refusal->pid = (int64_t)size(&fields, "pid");
	refusal->entry = text(&fields, "entry");
	refusal->asked = size(&fields, "asked");
	refusal->charged = size(&fields, "charged");
	refusal->limit = size(&fields, "limit");
	refusal->overhead = size(&fields, "overhead");
	return fields.wrong;
}

enum vg_status vg_lists_refusals(const char *function, json_t *reply, struct vg_refusal_list **ret_list)
{
	enum vg_status status;
	size_t i;
	json_t *one;

	struct refusal_block *block = (struct refusal_block *)make_block(function, reply, "refusals", sizeof *block,
									 sizeof(struct vg_refusal_info), &status);
	if (!block)
		return status;
	struct vg_refusal_info *items = block->block.items;
	block->list = (struct vg_refusal_list){block->block.count, items};
	json_array_foreach(json_object_get(reply, "refusals"), i, one) {
		const char *wrong = read_refusal(one, &items[i]);
		if (wrong) {
			status = refuse(function, wrong);
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
