#include "checkpoint/image/consistency.h"

#include "base/status.h"
#include "checkpoint/image/device_index.h"

#include <stdlib.h>

struct check {
	const json_t *description;
	const struct image_files *files;
	const char *name;
};

// Returns whether an object in `list` has the value `value` under `key`.
static bool list_has(const json_t *list, const char *key, const json_t *value)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		if (json_equal(json_object_get(json_array_get(list, i), key), value))
			return true;
	return false;
}

static int by_value(const void *a, const void *b)
{
	const json_int_t *one = a, *other = b;

	return (*one > *other) - (*one < *other);
}

// Checks that no process is listed twice. Sorts the pids first: an image may list too many processes to compare each
// pair.
static enum vg_status check_once(const struct check *check)
{
	const json_t *list = json_object_get(check->description, "processes");
	size_t count = json_array_size(list);
	enum vg_status status = VG_OK;

	json_int_t *pids = malloc((count + 1) * sizeof *pids);
	if (!pids)
		return vg_fail(VG_NO_MEMORY, 0, "%s: no memory for its %zu processes", check->name, count);
	for (size_t i = 0; i < count; i++)
		pids[i] = json_integer_value(json_object_get(json_array_get(list, i), "pid"));
	qsort(pids, count, sizeof *pids, by_value);
	for (size_t i = 1; i < count && status == VG_OK; i++)
		if (pids[i] == pids[i - 1])
			status = vg_fail(VG_INTEGRITY, 0, "%s: process %lld is in \"processes\" twice", check->name,
					 (long long)pids[i]);
	free(pids);
	return status;
}

// Checks that all pids in the description are those of processes in the image. A restore waits for these processes,
// writes to them and kills them.
static enum vg_status check_pids(const struct check *check)
{
	const json_t *roots = json_object_get(check->description, "roots");
	const json_t *tenants = json_object_get(check->description, "tenants");
	const json_t *processes = json_object_get(check->description, "processes"), *stranger = NULL;

	for (size_t i = 0; i < json_array_size(roots); i++)
		if (!list_has(processes, "pid", json_array_get(roots, i)))
			stranger = json_array_get(roots, i);
	for (size_t i = 0; i < json_array_size(tenants); i++) {
		const json_t *pid = json_object_get(json_array_get(tenants, i), "pid");
		if (!list_has(processes, "pid", pid))
			stranger = pid;
	}
	return !stranger ? VG_OK
			 : vg_fail(VG_INTEGRITY, 0, "%s: process %lld is a root or a tenant, and none of \"processes\"",
				   check->name, (long long)json_integer_value(stranger));
}

// Checks that the list has exactly one tree for each root, in the order of the roots.
static enum vg_status check_trees(const struct check *check)
{
	const json_t *roots = json_object_get(check->description, "roots");
	char missing[IMAGE_NAME_TEXT];
	unsigned tree;

	for (size_t i = 0; i < json_array_size(roots); i++) {
		json_int_t root = json_integer_value(json_array_get(roots, i));
		for (size_t before = 0; before < i; before++)
			if (json_integer_value(json_array_get(roots, before)) == root)
				return vg_fail(VG_INTEGRITY, 0, "%s: process %lld is a root twice", check->name,
					       (long long)root);
		if (!image_tree_is_whole(check->files, (unsigned)i, (pid_t)root, missing))
			return vg_fail(VG_INTEGRITY, 0,
				       "%s: %s is missing from \"files\", or empty: without it CRIU does not make "
				       "process %lld",
				       check->name, missing, (long long)root);
	}
	for (size_t i = 0; i < check->files->count; i++)
		if (!image_name_is_sound(check->files->files[i].name, &tree) || tree >= json_array_size(roots))
			return vg_fail(VG_INTEGRITY, 0, "%s: %s is of no root's tree", check->name,
				       check->files->files[i].name);
	return VG_OK;
}

// Checks that an image with packs has an index. Without the index, the contents of a pack are unknown.
static enum vg_status check_packs(const struct check *check)
{
	for (size_t i = 0; i < check->files->count; i++)
		if (check->files->files[i].is_pack && !device_has_index(check->files))
			return vg_fail(VG_INTEGRITY, 0, "%s: " DEVICE_INDEX " is missing from \"files\", which has %s",
				       check->name, check->files->files[i].name);
	return VG_OK;
}

// Checks that each GPU that a process refers to is in the list "gpus".
static enum vg_status check_gpus(const struct check *check)
{
	const json_t *gpus = json_object_get(check->description, "gpus");
	json_t *process, *gpu;
	size_t i, k;

	json_array_foreach(json_object_get(check->description, "processes"), i, process)
		json_array_foreach(json_object_get(process, "gpus"), k, gpu)
			if (!list_has(gpus, "uuid", json_object_get(gpu, "uuid")))
				return vg_fail(VG_INTEGRITY, 0,
					       "%s: process %lld is on %.80s, which is none of \"gpus\"", check->name,
					       (long long)json_integer_value(json_object_get(process, "pid")),
					       json_string_value(json_object_get(gpu, "uuid")));
	return VG_OK;
}

enum vg_status consistency_check(const json_t *description, const struct image_files *files, const char *name)
{
	const struct check check = {description, files, name};

	enum vg_status status = check_once(&check);
	if (status)
		return status;
	status = check_pids(&check);
	if (status)
		return status;
	status = check_trees(&check);
	if (status)
		return status;
	status = check_packs(&check);
	return status ? status : check_gpus(&check);
}
