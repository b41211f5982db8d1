#include "compute/registry.h"

#include "base/mutex.h"
#include "compute/registry_read.h"
#include "core/kernel.h"
#include "kernels/builtin_fatbin.h"

#include <stdlib.h>
#include <string.h>

struct compute_registry {
	unsigned architecture;
	struct vg_mutex lock;
	struct compute_entry **entries; // sorted by name
	size_t count;
};

void compute_entry_retain(struct compute_entry *entry)
{
	atomic_fetch_add_explicit(&entry->references, 1, memory_order_relaxed);
}

void compute_entry_release(struct compute_entry *entry)
{
	if (!entry || atomic_fetch_sub_explicit(&entry->references, 1, memory_order_acq_rel) != 1)
		return;
	vg_kernel_destroy(entry->kernel);
	free(entry);
}

static enum vg_status add_builtin(struct compute_registry *registry)
{
	static const struct vg_object_code_options options = {.size = sizeof options, .name = "virgate builtin"};
	struct vg_object_code *code;

	enum vg_status status =
		vg_object_code_create(VG_CODE_FATBIN, builtin_fatbin, sizeof builtin_fatbin - 1, &options, &code);
	if (status)
		return status;
	status = compute_registry_add(registry, code);
	vg_object_code_destroy(code);
	return status;
}

enum vg_status compute_registry_create(unsigned architecture, struct compute_registry **ret_registry)
{
	struct compute_registry *registry = calloc(1, sizeof *registry);

	if (!registry)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a table of kernels");
	registry->architecture = architecture;
	enum vg_status status = add_builtin(registry);
	if (status)
		compute_registry_destroy(registry);
	else
		*ret_registry = registry;
	return status;
}

void compute_registry_destroy(struct compute_registry *registry)
{
	if (!registry)
		return;
	for (size_t i = 0; i < registry->count; i++)
		compute_entry_release(registry->entries[i]);
	free(registry->entries);
	free(registry);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp((*(struct compute_entry *const *)a)->name, (*(struct compute_entry *const *)b)->name);
}

// Returns the index of the name in the table. If the table does not have the name, returns the index at which to insert
// it.
static size_t find_place(const struct compute_registry *registry, const char *name, bool *ret_found)
{
	size_t low = 0, high = registry->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (strcmp(registry->entries[middle]->name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*ret_found = low < registry->count && strcmp(registry->entries[low]->name, name) == 0;
	return low;
}

static enum vg_status insert_locked(struct compute_registry *registry, struct compute_entry **entries, size_t count)
{
	bool found;

	for (size_t i = 0; i < count; i++) {
		find_place(registry, entries[i]->name, &found);
		if (found)
			return vg_fail(VG_EXISTS, 0,
				       "there is a kernel \"%s\" already: unregister it first, or give this one "
				       "another name",
				       entries[i]->name);
	}
	struct compute_entry **grown = realloc(registry->entries, (registry->count + count) * sizeof *grown);
	if (!grown)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu kernels", registry->count + count);
	registry->entries = grown;
	memcpy(grown + registry->count, entries, count * sizeof *grown);
	registry->count += count;
	qsort(grown, registry->count, sizeof *grown, compare_names);
	return VG_OK;
}

// Inserts entries into the table, which owns the entries on success.
static enum vg_status insert_entries(struct compute_registry *registry, struct compute_entry **entries, size_t count)
{
	vg_mutex_lock(&registry->lock);
	enum vg_status status = insert_locked(registry, entries, count);
	vg_mutex_unlock(&registry->lock);
	return status;
}

enum vg_status compute_registry_add(struct compute_registry *registry, struct vg_object_code *code)
{
	struct compute_entry **entries;
	size_t count;

	enum vg_status status = core_object_check((const struct core_object *)code, "code");
	if (status)
		return status;
	status = compute_read_code(code, registry->architecture, &entries, &count);
	if (status)
		return status;
	status = insert_entries(registry, entries, count);
	for (size_t i = 0; status && i < count; i++)
		compute_entry_release(entries[i]);
	free(entries);
	return status;
}

enum vg_status compute_registry_add_kernel(struct compute_registry *registry, const char *name,
					   struct vg_kernel *kernel)
{
	struct compute_entry *entry;

	if (!name || !name[0])
		return vg_fail(VG_INVALID, 0, "name is %s", name ? "empty" : "NULL");
	enum vg_status status = core_object_check((const struct core_object *)kernel, "kernel");
	if (status)
		return status;
	status = compute_read_kernel(name, kernel, registry->architecture, &entry);
	if (status)
		return status;
	status = insert_entries(registry, &entry, 1);
	if (status)
		compute_entry_release(entry);
	return status;
}

// Finds the index of a name. Call with the lock held, because the message of a failure lists the names in the table.
static enum vg_status find_locked(struct compute_registry *registry, const char *name, size_t *ret_index)
{
	char close[256];
	bool found;

	size_t index = find_place(registry, name, &found);
	if (found) {
		*ret_index = index;
		return VG_OK;
	}
	if (compute_names_like(name, registry->entries, registry->count, close, sizeof close))
		return vg_fail(VG_NOT_FOUND, 0, "no kernel \"%.128s\" among %zu; close to it: %s", name,
			       registry->count, close);
	return vg_fail(VG_NOT_FOUND, 0,
		       "no kernel \"%.128s\" among %zu, nor one with a similar name: register its code first", name,
		       registry->count);
}

enum vg_status compute_registry_remove(struct compute_registry *registry, const char *name)
{
	struct compute_entry *removed = NULL;
	size_t index = 0;

	if (!name)
		return vg_fail(VG_INVALID, 0, "name is NULL");
	vg_mutex_lock(&registry->lock);
	enum vg_status status = find_locked(registry, name, &index);
	if (status == VG_OK) {
		removed = registry->entries[index];
		registry->count--;
		memmove(&registry->entries[index], &registry->entries[index + 1],
			(registry->count - index) * sizeof removed);
	}
	vg_mutex_unlock(&registry->lock);
	compute_entry_release(removed);
	return status;
}

enum vg_status compute_registry_find(struct compute_registry *registry, const char *name,
				     struct compute_entry **ret_entry)
{
	size_t index = 0;

	if (!name)
		return vg_fail(VG_INVALID, 0, "the name of the kernel is NULL");
	vg_mutex_lock(&registry->lock);
	enum vg_status status = find_locked(registry, name, &index);
	if (status == VG_OK) {
		*ret_entry = registry->entries[index];
		compute_entry_retain(*ret_entry);
	}
	vg_mutex_unlock(&registry->lock);
	return status;
}

size_t compute_registry_count(struct compute_registry *registry)
{
	vg_mutex_lock(&registry->lock);
	size_t count = registry->count;
	vg_mutex_unlock(&registry->lock);
	return count;
}

struct compute_entry *compute_registry_at(struct compute_registry *registry, size_t index)
{
	struct compute_entry *entry = NULL;

	vg_mutex_lock(&registry->lock);
	if (index < registry->count) {
		entry = registry->entries[index];
		compute_entry_retain(entry);
	}
	vg_mutex_unlock(&registry->lock);
	return entry;
}
