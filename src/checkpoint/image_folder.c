#include "checkpoint/image_folder.h"

#include "base/descriptor.h"
#include "checkpoint/image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int is_entry(const struct dirent *entry)
{
	return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

int image_for_folder(const char *path, const char *name, image_each_fn *each, void *user, char ret_name[IMAGE_NAME])
{
	struct dirent **entries = NULL;

	snprintf(ret_name, IMAGE_NAME, "%s", name);
	_cleanup_close_ int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return -errno;
	_cleanup_close_ int inner = openat(folder, *name ? name : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int count = inner < 0 ? -1 : scandirat(inner, ".", &entries, is_entry, alphasort), r = count < 0 ? -errno : 0;
	for (int i = 0; i < count; i++) {
		if (r == 0) {
			snprintf(ret_name, IMAGE_NAME, "%s%s%s", name, *name ? "/" : "", entries[i]->d_name);
			r = each(folder, ret_name, user);
		}
		free(entries[i]);
	}
	free(entries);
	return r;
}

struct walk {
	const char *path;
	image_each_fn *each;
	void *user;
	char *name;
};

static int enter(int folder, const char *name, void *user)
{
	const struct walk *walk = user;
	char tree[IMAGE_NAME];
	struct stat info;

	if (strcmp(name, IMAGE_DESCRIPTION) == 0)
		return 0;
	if (strncmp(name, "tree-", 5) != 0 || fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISDIR(info.st_mode))
		return walk->each(folder, name, walk->user);
	snprintf(tree, sizeof tree, "%s", name);
	return image_for_folder(walk->path, tree, walk->each, walk->user, walk->name);
}

int image_for_files(const char *path, image_each_fn *each, void *user, char ret_name[IMAGE_NAME])
{
	struct walk walk = {.path = path, .each = each, .user = user, .name = ret_name};

	return image_for_folder(path, "", enter, &walk, ret_name);
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *at)
{
	(void)info;
	(void)type;
	(void)at;
	remove(path);
	return 0;
}

void image_remove(const char *path)
{
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}
