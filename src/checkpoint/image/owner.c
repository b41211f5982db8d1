// Checks who owns an image. A user who can write to the image can choose the code that the restored processes run.
#include "base/status.h"
#include "checkpoint/image/directory.h"
#include "checkpoint/image/image.h"
#include "checkpoint/process/refusal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct look {
	const char *path;
	enum vg_status status;
};

static enum vg_status check_file(const struct look *look, const char *name, const struct stat *info)
{
	const char *slash = *name ? "/" : "";

	if (info->st_uid != geteuid())
		return refuse(
			REFUSE_OWNER, 0,
			"%s%s%s is user %u's, and restoring the image runs what is in it: if you trust that, make all "
			"of it yours (chown -R)",
			look->path, slash, name, (unsigned)info->st_uid);
	// Do not check the mode of links, which has no effect. Images contain no links anyway.
	if (!S_ISLNK(info->st_mode) && info->st_mode & (S_IWGRP | S_IWOTH))
		return refuse(
			REFUSE_OWNER, 0,
			"%s%s%s can be written to by others (mode %03o), and restoring the image runs what is in it: "
			"chmod -R go-w, if you trust that",
			look->path, slash, name, (unsigned)info->st_mode & 0777);
	return VG_OK;
}

static int look_at(int directory, const char *name, void *user)
{
	struct look *look = user;
	char inner[IMAGE_NAME];
	struct stat info;

	if (fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	look->status = check_file(look, name, &info);
	if (look->status)
		return 1;
	// Visit the directories of the image. A directory inside a tree is not part of an image, and is not read.
	return S_ISDIR(info.st_mode) && !strchr(name, '/') ? image_for_directory(directory, name, look_at, look, inner)
							   : 0;
}

enum vg_status image_check_owner(const struct image_dir *dir)
{
	struct look look = {.path = dir->path};
	char name[IMAGE_NAME] = "";
	struct stat info;

	int r = fstat(dir->fd, &info) < 0 ? -errno : 0;
	enum vg_status status = r ? VG_OK : check_file(&look, "", &info);
	if (status)
		return status;
	if (r == 0)
		r = image_for_directory(dir->fd, "", look_at, &look, name);
	return r < 0 ? vg_fail(VG_SYSTEM, -r, "%s/%s: %s", dir->path, name, strerror(-r)) : look.status;
}
