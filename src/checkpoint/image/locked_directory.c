#include "checkpoint/image/locked_directory.h"

#include "base/descriptor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { UNIQUE = 6 }; // the length of XXXXXX in mkdtemp()

static bool is_entry(const char *name)
{
	return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

// Opens another descriptor of the directory for reading its entries. The caller keeps its own descriptor.
static DIR *open_entries(int directory)
{
	int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;

	if (fd >= 0 && !entries)
		close(fd);
	return entries;
}

static int open_directory(int parent, const char *name)
{
	return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

// Removes the entries that `has` accepts: files, links and the like, and directories down to `depth` levels.
static void remove_in(int directory, locked_directory_name_fn *has, int depth)
{
	DIR *entries = open_entries(directory);
	struct dirent *entry;

	while (entries && (entry = readdir(entries))) {
		const char *name = entry->d_name;
		if (!is_entry(name) || (has && !has(name)) || unlinkat(directory, name, 0) == 0 || depth < 1)
			continue;
		_cleanup_close_ int within = open_directory(directory, name);
		if (within >= 0)
			remove_in(within, NULL, depth - 1);
		unlinkat(directory, name, AT_REMOVEDIR);
	}
	if (entries)
		closedir(entries);
}

void locked_directory_remove(const char *path, locked_directory_name_fn *has)
{
	_cleanup_close_ int directory = open_directory(AT_FDCWD, path);

	if (directory >= 0)
		remove_in(directory, has, 1);
	rmdir(path);
}

static bool has_only(int directory, locked_directory_name_fn *has)
{
	DIR *entries = open_entries(directory);
	bool only = entries != NULL;
	struct dirent *entry;

	while (only && (entry = readdir(entries)))
		only = !is_entry(entry->d_name) || has(entry->d_name);
	if (entries)
		closedir(entries);
	return only;
}

static bool is_ours(const struct stat *info)
{
	return info->st_uid == geteuid() && (info->st_mode & 07777) == 0700;
}

static void sweep_one(int parent, const char *name, locked_directory_name_fn *has, int depth)
{
	struct stat info;

	_cleanup_close_ int directory = open_directory(parent, name);
	if (directory < 0 || fstat(directory, &info) < 0 || !is_ours(&info) ||
	    flock(directory, LOCK_EX | LOCK_NB) < 0 || !has_only(directory, has))
		return;
	remove_in(directory, has, depth);
	unlinkat(parent, name, AT_REMOVEDIR);
}

void locked_directory_sweep(const char *path, locked_directory_name_fn *has, int depth)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t length = strlen(name) - UNIQUE;
	char parent[PATH_MAX];
	struct dirent *entry;

	snprintf(parent, sizeof parent, "%.*s/", slash ? (int)(slash - path) : 1, slash ? path : ".");
	DIR *directory = opendir(parent);
	while (directory && (entry = readdir(directory)))
		if (strncmp(entry->d_name, name, length) == 0 && strlen(entry->d_name) == length + UNIQUE)
			sweep_one(dirfd(directory), entry->d_name, has, depth);
	if (directory)
		closedir(directory);
}

int locked_directory_make(char *path, int *ret_lock)
{
	char *unique = path + strlen(path) - UNIQUE;
	struct stat info;

	for (;;) {
		memset(unique, 'X', UNIQUE);
		if (!mkdtemp(path))
			return -errno;
		int fd = open_directory(AT_FDCWD, path);
		if (fd < 0 && errno != ENOENT) {
			int r = -errno;
			rmdir(path);
			return r;
		}
		// If the file system has no locks, the directory stays unlocked. A sweep still does not remove it,
		// because the sweep cannot lock it, either.
		while (fd >= 0 && flock(fd, LOCK_EX) < 0 && errno == EINTR)
			;
		// Before this process locked the directory, another process may have removed or replaced it.
		bool there = fd >= 0 && fstat(fd, &info) == 0 && info.st_nlink > 0;
		if (there && is_ours(&info)) {
			*ret_lock = fd;
			return 0;
		}
		if (fd >= 0)
			close(fd);
		if (there)
			return -EPERM;
	}
}
