#include "checkpoint/image/image.h"

#include "base/descriptor.h"
#include "base/hint.h"
#include "base/status.h"
#include "checkpoint/image/device_index.h"
#include "checkpoint/image/directory.h"
#include "checkpoint/image/files.h"
#include "checkpoint/image/locked_directory.h"
#include "checkpoint/image/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum vg_status fail_system(int error, const char *path, const char *name)
{
	return vg_fail(VG_SYSTEM, error, "%s%s%s: %s", path, *name ? "/" : "", name, strerror(error));
}

enum vg_status image_open(const char *path, struct image_dir *ret_dir)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return vg_fail(VG_NOT_FOUND, errno, "%.1000s is no image: %s", path, strerror(errno));
	if (fd < 0)
		return fail_system(errno, path, "");
	*ret_dir = (struct image_dir){fd, path};
	return VG_OK;
}

enum vg_status image_open_again(const struct image_dir *dir, struct image_dir *ret_dir)
{
	int fd = fcntl(dir->fd, F_DUPFD_CLOEXEC, 0);

	if (fd < 0)
		return fail_system(errno, dir->path, "");
	*ret_dir = (struct image_dir){fd, dir->path};
	return VG_OK;
}

void image_close(struct image_dir *dir)
{
	if (dir->fd >= 0)
		close(dir->fd);
	dir->fd = -1;
}

struct image_dir image_draft_dir(const struct image_draft *draft)
{
	return (struct image_dir){draft->lock, draft->directory[0] ? draft->directory : draft->final};
}

static enum vg_status make_absolute(const char *path, char ret_path[PATH_MAX])
{
	char here[PATH_MAX] = "";

	if (!*path)
		return vg_fail(VG_INVALID, 0, "the name of the directory is empty");
	if (*path != '/' && !getcwd(here, sizeof here))
		return fail_system(errno, ".", "");
	int length = snprintf(ret_path, PATH_MAX, "%s%s%s", here, *path == '/' ? "" : "/", path);
	while (length > 1 && length < PATH_MAX && ret_path[length - 1] == '/')
		ret_path[--length] = '\0';
	// The temporary name is longer than the final name, so leave room for its suffix.
	if (length >= PATH_MAX - 32)
		return vg_fail(VG_INVALID, 0, "%.60s… is too long a path", path);
	return VG_OK;
}

static enum vg_status fail_exists(const char *path)
{
	return vg_fail(VG_EXISTS, 0, "%s exists: name another directory", path);
}

// Sets the last error with the final path of the image, because the user does not know the temporary one.
static enum vg_status fail_no_directory(int error, const char *path)
{
	const char *advice = error == ENOENT || error == ENOTDIR ? "create its parent directory first"
			     : error == ENAMETOOLONG		 ? "give it a shorter name"
								 : "name another directory";

	return vg_fail(VG_SYSTEM, error, "cannot create directory %s: %s: %s", path, strerror(error), advice);
}

enum vg_status image_begin(const char *path, struct image_draft *ret_draft)
{
	struct stat info;

	*ret_draft = (struct image_draft){.files = json_array()};
	if (!ret_draft->files)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of files");
	enum vg_status status = make_absolute(path, ret_draft->final);
	if (status)
		return status;
	if (strstr(strrchr(ret_draft->final, '/'), IMAGE_PART))
		status = vg_fail(VG_INVALID, 0,
				 "%s: names with " IMAGE_PART
				 " are for images that are being written, and the next dump "
				 "removes those: name another directory",
				 ret_draft->final);
	if (status)
		return status;
	if (lstat(ret_draft->final, &info) == 0)
		status = fail_exists(ret_draft->final);
	if (status)
		return status;
	snprintf(ret_draft->directory, PATH_MAX, "%.*s" IMAGE_PART "XXXXXX", PATH_MAX - 32, ret_draft->final);
	locked_directory_sweep(ret_draft->directory, image_directory_has, 1);
	int r = locked_directory_make(ret_draft->directory, &ret_draft->lock);
	if (r == 0)
		return VG_OK;
	ret_draft->directory[0] = '\0';
	return fail_no_directory(-r, ret_draft->final);
}

void image_sweep(const char *path)
{
	char directory[PATH_MAX];

	if (make_absolute(path, directory))
		return;
	strcat(directory, IMAGE_PART "XXXXXX"); // make_absolute() has left room for this suffix
	locked_directory_sweep(directory, image_directory_has, 1);
}

// Syncs a file or directory of the draft.
static int sync_entry(int directory, const char *name, void *user)
{
	(void)user;
	_cleanup_close_ int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

// Syncs the parent directory of `path`. Follows links, which a path from the user may contain.
static int sync_parent(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

static int sync_all(const struct image_draft *draft, char ret_name[IMAGE_NAME])
{
	int r = image_for_files(draft->lock, sync_entry, NULL, ret_name);

	for (unsigned i = 0; i < draft->trees && r == 0; i++) {
		snprintf(ret_name, IMAGE_NAME, "tree-%u", i);
		r = sync_entry(draft->lock, ret_name, NULL);
		r = r == -ENOENT ? 0 : r;
	}
	if (r == 0) {
		snprintf(ret_name, IMAGE_NAME, DEVICE_DIRECTORY);
		r = sync_entry(draft->lock, ret_name, NULL);
		r = r == -ENOENT ? 0 : r;
	}
	return r;
}

static int write_description(const struct image_draft *draft, json_t *description)
{
	if (json_object_set(description, "files", draft->files))
		return -ENOMEM;
	char *text = image_text_seal(description);
	int r = text ? image_text_write(draft->lock, text, strlen(text)) : -ENOMEM;
	free(text);
	return r;
}

// Checks that the temporary name still leads to this draft. Users who may write to the parent directory could have
// replaced it.
static int check_name(const struct image_draft *draft)
{
	struct stat ours, there;

	if (fstat(draft->lock, &ours) < 0 || lstat(draft->final, &there) < 0)
		return -errno;
	return ours.st_ino == there.st_ino && ours.st_dev == there.st_dev ? 0 : -ESTALE;
}

static int rename_draft(const struct image_draft *draft)
{
	struct stat info;

	if (renameat2(AT_FDCWD, draft->directory, AT_FDCWD, draft->final, RENAME_NOREPLACE) == 0)
		return 0;
	// Some file systems do not support RENAME_NOREPLACE. Use rename() there, which replaces an empty directory at
	// most.
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	if (lstat(draft->final, &info) == 0)
		return -EEXIST;
	return rename(draft->directory, draft->final) < 0 ? -errno : 0;
}

static int take_name(const struct image_draft *draft)
{
	int r = rename_draft(draft);

	return r ? r : check_name(draft);
}

// Checks that CRIU has written all files of each tree. Its exit status alone is not trusted, because the processes end
// once the image is published.
static enum vg_status check_trees(const struct image_draft *draft, const json_t *description)
{
	const json_t *roots = json_object_get(description, "roots");
	char missing[IMAGE_NAME_TEXT];
	struct image_files files;

	enum vg_status status = image_files_read(description, draft->directory, &files);
	if (status)
		return status;
	for (unsigned i = 0; i < json_array_size(roots) && status == VG_OK; i++) {
		pid_t root = (pid_t)json_integer_value(json_array_get(roots, i));
		if (!image_tree_is_whole(&files, i, root, missing))
			status = vg_fail(
				VG_INTEGRITY, 0,
				"%s of process %d is missing or empty, and CRIU cannot restore without it: check "
				"that the program that wrote the image is CRIU (virgate doctor cuda%s)",
				missing, (int)root, vg_hint_own_sim());
	}
	image_files_free(&files);
	return status;
}

enum vg_status image_publish(struct image_draft *draft, const json_t *description, bool must_sync)
{
	char parent[PATH_MAX], name[IMAGE_NAME] = "";

	enum vg_status status = check_trees(draft, description);
	if (status)
		return status;
	int r = must_sync ? sync_all(draft, name) : 0;
	if (r)
		return fail_system(-r, draft->directory, name);
	r = must_sync && fsync(draft->lock) < 0 ? -errno : 0;
	if (r)
		return fail_system(-r, draft->directory, "");
	r = take_name(draft);
	if (r == -ESTALE)
		return vg_fail(VG_SYSTEM, ESTALE,
			       "the image was replaced while it was written: there is no image at %s; name a directory "
			       "in which others may not write",
			       draft->final);
	if (r)
		return r == -EEXIST ? fail_exists(draft->final) : fail_system(-r, draft->final, "");
	snprintf(parent, sizeof parent, "%s", draft->final);
	*(strrchr(parent, '/') + (strrchr(parent, '/') == parent)) = '\0';
	r = must_sync ? sync_parent(parent) : 0;
	if (r) {
		// Undo the rename: the parent directory was not synced, so after a crash the image could be missing.
		rename(draft->final, draft->directory);
		return fail_system(-r, parent, "");
	}
	draft->directory[0] = '\0';
	return VG_OK;
}

enum vg_status image_commit(struct image_draft *draft, json_t *description)
{
	int r = write_description(draft, description);

	return r ? fail_system(-r, draft->directory, IMAGE_DESCRIPTION) : image_publish(draft, description, true);
}

void image_finish(struct image_draft *draft)
{
	if (draft->directory[0])
		image_remove(draft->directory);
	if (draft->lock > 0)
		close(draft->lock);
	json_decref(draft->files);
	*draft = (struct image_draft){0};
}
