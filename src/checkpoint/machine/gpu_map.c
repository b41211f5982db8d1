#include "checkpoint/machine/gpu_map.h"

#include "base/hint.h"
#include "base/status.h"
#include "checkpoint/image/image.h"
#include "checkpoint/process/refusal.h"
#include "virgate/gpu.h"
#include "virgate/system.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// Returns whether two UUIDs are equal, even if they are written differently.
static bool is_same_uuid(const char *one, const char *other)
{
	one += strncmp(one, "GPU-", 4) == 0 ? 4 : 0;
	other += strncmp(other, "GPU-", 4) == 0 ? 4 : 0;
	for (;; one++, other++) {
		while (*one == '-')
			one++;
		while (*other == '-')
			other++;
		if (tolower((unsigned char)*one) != tolower((unsigned char)*other))
			return false;
		if (!*one)
			return true;
	}
}

// Parses the index of a GPU. Returns -1 if the text is a UUID.
static long read_index(const char *text)
{
	size_t digits = strspn(text, "0123456789");

	return digits > 0 && digits < 5 && !text[digits] ? strtol(text, NULL, 10) : -1;
}

struct image_gpu {
	const char *uuid, *name;
};

static enum vg_status find_old(const json_t *gpus, const char *text, size_t *ret_at)
{
	long index = read_index(text);
	json_t *gpu;
	size_t i;

	json_array_foreach((json_t *)gpus, i, gpu) {
		const char *uuid = json_string_value(json_object_get(gpu, "uuid"));
		if (index >= 0 ? (size_t)index != i : !uuid || !is_same_uuid(uuid, text))
			continue;
		*ret_at = i;
		return VG_OK;
	}
	return vg_fail(VG_INVALID, 0,
		       "the image knows no GPU \"%.48s\": it has %zu, as `virgate image inspect` shows them", text,
		       json_array_size(gpus));
}

static enum vg_status find_new(const char *text, struct vg_gpu **ret_gpu)
{
	struct vg_gpu *gpus[GPU_MAP_MOST];
	long index = read_index(text);
	size_t count;

	enum vg_status status = vg_gpu_all(gpus, GPU_MAP_MOST, &count);
	if (status)
		return status;
	for (size_t i = 0; i < count; i++)
		if (index >= 0 ? (size_t)index == i : is_same_uuid(vg_gpu_uuid(gpus[i]), text)) {
			*ret_gpu = gpus[i];
			return VG_OK;
		}
	return refuse(REFUSE_GPU_MISSING, 0,
		      "there is no GPU \"%.48s\" here: there are %zu (`virgate devices%s` lists them)", text, count,
		      vg_hint_own_sim());
}

static enum vg_status add_pair(struct gpu_map *map, const json_t *gpus, const struct vg_process_gpu_pair *asked)
{
	char(*texts)[GPU_MAP_UUID] = map->uuids[map->count];
	struct image_gpu old;
	struct vg_gpu *here = NULL;
	size_t at = 0;

	if (!asked->old_uuid || !asked->new_uuid)
		return vg_fail(VG_INVALID, 0, "pair %zu of the map names no GPU", map->count);
	enum vg_status status = find_old(gpus, asked->old_uuid, &at);
	if (status == VG_OK)
		status = find_new(asked->new_uuid, &here);
	if (status)
		return status;
	if (json_unpack(json_array_get(gpus, at), "{s:s, s:s}", "uuid", &old.uuid, "name", &old.name) ||
	    strlen(old.uuid) >= GPU_MAP_UUID)
		return vg_fail(VG_INTEGRITY, 0, IMAGE_DESCRIPTION " describes GPU %zu by halves", at);
	if (strcmp(old.name, vg_gpu_name(here)) != 0)
		return refuse(
			REFUSE_GPU_MODEL, 0,
			"%s is a %s, and %s of the image a %s: the driver moves work only between GPUs of one model",
			vg_gpu_uuid(here), vg_gpu_name(here), old.uuid, old.name);
	for (size_t i = 0; i < map->count; i++) {
		bool twice = strcmp(map->uuids[i][0], old.uuid) == 0;
		if (twice || strcmp(map->uuids[i][1], vg_gpu_uuid(here)) == 0)
			return vg_fail(VG_INVALID, 0, "the map names %s twice", twice ? old.uuid : vg_gpu_uuid(here));
	}
	strcpy(texts[0], old.uuid);
	strcpy(texts[1], vg_gpu_uuid(here));
	map->pairs[map->count++] = (struct vg_process_gpu_pair){texts[0], texts[1]};
	return VG_OK;
}

// Checks that the map has every GPU of the image. The driver needs a pair for every GPU that a process could see, even
// for an unused one.
static enum vg_status check_whole(const struct gpu_map *map, const json_t *gpus)
{
	json_t *gpu;
	size_t i;

	json_array_foreach((json_t *)gpus, i, gpu) {
		const char *uuid = json_string_value(json_object_get(gpu, "uuid"));
		bool found = false;
		for (size_t j = 0; j < map->count && uuid; j++)
			found |= strcmp(map->uuids[j][0], uuid) == 0;
		if (!found)
			return vg_fail(
				VG_INVALID, 0,
				"the map leaves out GPU %zu of the image, %s: it must name every one of the %zu, also "
				"those that stay where they are",
				i, uuid ? uuid : "(no UUID)", json_array_size(gpus));
	}
	return VG_OK;
}

static enum vg_status check_driver(void)
{
	int major, minor;

	enum vg_status status = vg_system_user_driver_version(&major, &minor);
	if (status == VG_OK && major < 13)
		status = vg_fail(VG_UNSUPPORTED, 0,
				 "a map of GPUs takes a driver with CUDA 13.0 (580 or later), and this one has %d.%d",
				 major, minor);
	return status;
}

enum vg_status gpu_map_make(const json_t *description, const struct vg_process_gpu_pair *asked, size_t count,
			    struct gpu_map *ret_map)
{
	const json_t *gpus = json_object_get(description, "gpus");

	ret_map->count = 0;
	if (count == 0)
		return VG_OK;
	if (!asked)
		return vg_fail(VG_INVALID, 0, "gpus is NULL, and gpu_count is %zu", count);
	if (count > GPU_MAP_MOST)
		return vg_fail(VG_INVALID, 0, "a map of %zu GPUs: no machine has more than %d", count, GPU_MAP_MOST);
	enum vg_status status = check_driver();
	for (size_t i = 0; i < count && status == VG_OK; i++)
		status = add_pair(ret_map, gpus, &asked[i]);
	return status ? status : check_whole(ret_map, gpus);
}
