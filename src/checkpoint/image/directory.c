#include "checkpoint/image/directory.h"

#include "base/descriptor.h"
#include "checkpoint/image/device_index.h"
#include "checkpoint/image/files.h"
#include "checkpoint/image/image.h"
#include "checkpoint/image/locked_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static _Thread_local int entries_taken; // number of entries that the current scan has accepted

// Accepts entries of a directory until their number exceeds the maximum of an image by one. So the caller of the scan
// notices that there are too many.
static int is_entry(const struct dirent *entry)
{
	return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
	       entries_taken <= IMAGE_MOST_FILES && ++entries_taken;
}

static int open_directory(int directory, const char *name)
{
	int fd = openat(directory, *name ? name : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int image_for_directory(int directory, const char *name, image_each_fn *each, void *user, char ret_name[IMAGE_NAME])
{
	struct dirent **entries = NULL;

	snprintf(ret_name, IMAGE_NAME, "%s", name);
	_cleanup_close_ int inner = open_directory(directory, name);
	if (inner < 0)
		return inner;
	entries_taken = 0;
	int count = scandirat(inner, ".", &entries, is_entry, alphasort);
	int r = count < 0 ? -errno : count > IMAGE_MOST_FILES ? -EFBIG : 0;
	for (int i = 0; i < count; i++) {
		if (r == 0) {
			snprintf(ret_name, IMAGE_NAME, "%s%s%s", name, *name ? "/" : "", entries[i]->d_name);
			r = each(directory, ret_name, user);
		}
		free(entries[i]);
	}
	free(entries);
	return r;
}

int image_open_file(int directory, const char *name)
{
	const char *slash = strchr(name, '/');
	_cleanup_close_ int tree = -1;
	char tree_name[NAME_MAX + 1];
	struct stat info;

	if (slash) { // open the directory separately: open() with the whole path would follow a link
		snprintf(tree_name, sizeof tree_name, "%.*s", (int)(slash - name), name);
		tree = open_directory(directory, tree_name);
		if (tree < 0)
			return tree;
	}
	int fd = openat(slash ? tree : directory, slash ? slash + 1 : name,
			O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)))
		return fd < 0 ? -errno : fd;
	close(fd);
	return -EINVAL;
}

struct walk {
	image_each_fn *each;
	void *user;
	char *name;
	bool empty; // the directory of the current tree is empty
};

static int pass_entry(int directory, const char *name, void *user)
{
	struct walk *walk = user;

	walk->empty = false;
	return walk->each(directory, name, walk->user);
}

static int enter_tree(int directory, const char *name, void *user)
{
	struct walk *walk = user;
	char tree[IMAGE_NAME];
	struct stat info;

	if (strcmp(name, IMAGE_DESCRIPTION) == 0)
		return 0;
	if ((strncmp(name, "tree-", 5) != 0 && strcmp(name, DEVICE_DIRECTORY) != 0) ||
	    fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(info.st_mode))
		return walk->each(directory, name, walk->user);
	snprintf(tree, sizeof tree, "%s", name);
	walk->empty = true;
	int r = image_for_directory(directory, tree, pass_entry, walk, walk->name);
	return r == 0 && walk->empty ? walk->each(directory, tree, walk->user) : r;
}

int image_for_files(int directory, image_each_fn *each, void *user, char ret_name[IMAGE_NAME])
{
	struct walk walk = {.each = each, .user = user, .name = ret_name};

	return image_for_directory(directory, "", enter_tree, &walk, ret_name);
}

bool image_directory_has(const char *name)
{
	unsigned tree;

	// The comparison also matches the temporary name of the description.
	if (strncmp(name, IMAGE_DESCRIPTION, sizeof IMAGE_DESCRIPTION - 1) == 0)
		return true;
	if (strcmp(name, DEVICE_DIRECTORY) == 0)
		return true;
	char whole[IMAGE_NAME];
	snprintf(whole, sizeof whole, "%s/x", name);
	return image_name_is_sound(whole, &tree);
}

void image_remove(const char *path)
{
	locked_directory_remove(path, image_directory_has);
}
