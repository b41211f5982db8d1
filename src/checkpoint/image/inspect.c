#include "checkpoint/image/inspect.h"

#include "base/status.h"
#include "checkpoint/image/consistency.h"
#include "checkpoint/image/files.h"
#include "checkpoint/image/image.h"
#include "checkpoint/image/schema.h"
#include "core/object.h"
#include "virgate/image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_DEPTH = 8 };

// Checks the description, and takes ownership of it.
static enum vg_status check_description(json_t *description, const char *path, const char *name,
					json_t **ret_description, struct image_files *ret_files)
{
	struct image_files files;

	enum vg_status status = schema_check(description, name);
	if (status == VG_OK)
		status = image_files_read(description, path, &files);
	if (status) {
		json_decref(description);
		return status;
	}
	status = consistency_check(description, &files, name);
	if (status) {
		image_files_free(&files);
		json_decref(description);
		return status;
	}
	*ret_description = description;
	if (ret_files)
		*ret_files = files;
	else
		image_files_free(&files);
	return VG_OK;
}

enum vg_status inspect_read(const struct image_dir *dir, json_t **ret_description, struct image_files *ret_files)
{
	json_t *description;
	char name[PATH_MAX];

	enum vg_status status = image_read(dir, &description);
	if (status)
		return status;
	snprintf(name, sizeof name, "%.4000s/" IMAGE_DESCRIPTION, dir->path);
	return check_description(description, dir->path, name, ret_description, ret_files);
}

enum vg_status inspect_parse(const char *text, size_t length, const char *name, json_t **ret_description,
			     struct image_files *ret_files)
{
	json_t *description;

	enum vg_status status = image_parse(text, length, name, &description);
	return status ? status : check_description(description, name, name, ret_description, ret_files);
}

static enum vg_status read_at(const char *path, json_t **ret_description, struct image_files *ret_files)
{
	struct image_dir dir;

	enum vg_status status = image_open(path, &dir);
	if (status)
		return status;
	status = inspect_read(&dir, ret_description, ret_files);
	image_close(&dir);
	return status;
}

enum vg_status vg_image_inspect(const char *dir, char **ret_json)
{
	VG_ENTRY();
	json_t *description;

	CORE_NEEDED(dir);
	CORE_NEEDED(ret_json);
	enum vg_status status = read_at(dir, &description, NULL);
	if (status)
		return status;
	char *text = json_dumps(description, JSON_INDENT(2));
	json_decref(description);
	if (!text)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for what %.1000s says", dir);
	*ret_json = text;
	return VG_OK;
}

const char *vg_image_state_name(enum vg_image_state state)
{
	static const char *const names[] = {"whole", "part", "unreadable"};

	return (unsigned)state < sizeof names / sizeof *names ? names[state] : "unknown";
}

// ---- list ---------------------------------------------------------------------------------------------

struct listing {
	struct vg_image_list *list;
	size_t capacity;
};

static enum vg_status no_memory(const struct listing *listing)
{
	return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of %zu images", listing->list->count + 1);
}

static bool is_in_use(const json_t *gpu)
{
	json_t *held = json_object_get(gpu, "held");

	return !json_is_integer(held) || json_integer_value(held) > 0;
}

static void fill_image(struct vg_image *image, const json_t *description, const struct image_files *files)
{
	json_t *one;
	size_t i;

	image->bytes = files->stored;
	image->raw_bytes = files->raw;
	image->compression = VG_COMPRESSION_NONE;
	for (i = 0; i < files->count; i++)
		if (files->files[i].compression)
			image->compression = files->files[i].compression;
	image->created = json_number_value(json_object_get(description, "created"));
	json_array_foreach(json_object_get(description, "processes"), i, one) {
		image->processes++;
		image->cuda_processes += json_is_true(json_object_get(one, "cuda"));
		if (i == 0)
			image->command = strdup(json_string_value(json_object_get(one, "command")));
	}
	json_array_foreach(json_object_get(description, "vgpus"), i, one)
		if (i == 0)
			image->vgpu = strdup(json_string_value(json_object_get(one, "name")));
	json_array_foreach(json_object_get(description, "gpus"), i, one)
		image->gpus += is_in_use(one);
}

static enum vg_status add_image(struct listing *listing, const char *dir, enum vg_image_state state)
{
	struct vg_image_list *list = listing->list;
	struct image_files files;
	json_t *description;

	if (list->count == listing->capacity) {
		size_t capacity = listing->capacity ? 2 * listing->capacity : 16;
		struct vg_image *grown = realloc(list->images, capacity * sizeof *grown);
		if (!grown)
			return no_memory(listing);
		list->images = grown;
		listing->capacity = capacity;
	}
	struct vg_image image = {.dir = strdup(dir), .state = state, .command = NULL};
	if (!image.dir)
		return no_memory(listing);
	if (state == VG_IMAGE_PART) {
		image.problem = strdup("a dump writes it, or was killed while it did");
	} else if (read_at(dir, &description, &files)) {
		image.state = VG_IMAGE_UNREADABLE;
		image.problem = strdup(vg_last_error()->text);
	} else {
		fill_image(&image, description, &files);
		image_files_free(&files);
		json_decref(description);
	}
	list->images[list->count++] = image;
	return VG_OK;
}

static enum vg_status search_directory(struct listing *listing, const char *dir, int depth);

static enum vg_status look_into(struct listing *listing, const char *dir, int depth)
{
	DIR *directory = opendir(dir);
	enum vg_status status = VG_OK;
	struct dirent *entry;

	// Skip a directory that cannot be read, unless it is the one that the user named.
	if (!directory)
		return VG_OK;
	while (status == VG_OK && (entry = readdir(directory))) {
		char path[PATH_MAX];
		struct stat info;
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
		    fstatat(dirfd(directory), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(info.st_mode))
			continue;
		int length = snprintf(path, sizeof path, "%s%s%s", dir, dir[strlen(dir) - 1] == '/' ? "" : "/",
				      entry->d_name);
		if (length < (int)sizeof path - 32)
			status = search_directory(listing, path, depth + 1);
	}
	closedir(directory);
	return status;
}

static enum vg_status search_directory(struct listing *listing, const char *dir, int depth)
{
	const char *name = strrchr(dir, '/');
	char path[PATH_MAX + 32];

	if (strstr(name ? name : dir, IMAGE_PART))
		return add_image(listing, dir, VG_IMAGE_PART);
	snprintf(path, sizeof path, "%s/" IMAGE_DESCRIPTION, dir);
	if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return add_image(listing, dir, VG_IMAGE_WHOLE);
	return depth < MOST_DEPTH ? look_into(listing, dir, depth) : VG_OK;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct vg_image *)a)->dir, ((const struct vg_image *)b)->dir);
}

enum vg_status vg_image_list(const char *root, struct vg_image_list **ret_list)
{
	VG_ENTRY();
	struct listing listing = {0};

	CORE_NEEDED(root);
	CORE_NEEDED(ret_list);
	if (strlen(root) >= PATH_MAX - 32)
		return vg_fail(VG_INVALID, 0, "%.60s… is too long a path", root);
	DIR *directory = opendir(root);
	if (!directory)
		return vg_fail(errno == ENOENT || errno == ENOTDIR ? VG_NOT_FOUND
			       : errno == EACCES		   ? VG_DENIED
								   : VG_SYSTEM,
			       errno, "%.1000s: %s", root, strerror(errno));
	closedir(directory);
	listing.list = calloc(1, sizeof *listing.list);
	if (!listing.list)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a list");
	enum vg_status status = search_directory(&listing, root, 0);
	if (status) {
		vg_image_list_free(listing.list);
		return status;
	}
	if (listing.list->count)
		qsort(listing.list->images, listing.list->count, sizeof *listing.list->images, by_name);
	*ret_list = listing.list;
	return VG_OK;
}

void vg_image_list_free(struct vg_image_list *list)
{
	for (size_t i = 0; list && i < list->count; i++) {
		free((char *)list->images[i].dir);
		free((char *)list->images[i].problem);
		free((char *)list->images[i].command);
		free((char *)list->images[i].vgpu);
	}
	if (list)
		free(list->images);
	free(list);
}
