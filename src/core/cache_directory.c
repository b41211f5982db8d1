#include "core/cache_directory.h"

#include "core/error.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// `STALE`: seconds after which a temporary file counts as left by a killed process. `SKEW`: seconds by which clocks may
// differ.
enum { STALE = 3600, SKEW = 60 };

char *core_cache_directory_default(void)
{
	const char *root = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
	char *path = NULL;
	int r;

	if (root && *root == '/') // the XDG specification says to ignore relative paths
		r = asprintf(&path, "%s/virgate/programs", root);
	else if (home && *home == '/')
		r = asprintf(&path, "%s/.cache/virgate/programs", home);
	else {
		vg_fail(VG_SYSTEM, ENOENT,
			"no directory for the cache: neither XDG_CACHE_HOME nor HOME is an absolute path; give a path");
		return NULL;
	}
	if (r >= 0)
		return path;
	vg_fail(VG_NO_MEMORY, 0, "no memory for a path");
	return NULL;
}

static int make_directories(const char *path)
{
	char *copy = strdup(path);

	if (!copy)
		return -ENOMEM;
	for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(copy, 0700); // errors are ignored here: the last mkdir() reports them
		*slash = '/';
	}
	int r = mkdir(copy, 0700) && errno != EEXIST ? -errno : 0;
	free(copy);
	return r;
}

enum vg_status core_cache_directory_open(struct vg_compile_cache *cache)
{
	struct stat status;

	int r = make_directories(cache->path);
	if (r == 0) {
		cache->directory = open(cache->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = cache->directory < 0 || fstat(cache->directory, &status) ? -errno : 0;
	}
	if (r)
		return vg_fail(VG_SYSTEM, -r, "no cache in %s: %s", cache->path, strerror(-r));
	// Other users must not be able to write here: the GPU runs the entries as code.
	if (status.st_uid != geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)))
		return vg_fail(VG_DENIED, 0,
			       "no cache in %s: others may write there (owner %u, mode %03o); it has to be yours alone",
			       cache->path, (unsigned)status.st_uid, (unsigned)status.st_mode & 0777);
	return VG_OK;
}

struct entry {
	struct timespec used;
	uint64_t size;
	char name[48];
};

static int compare_use(const void *a, const void *b)
{
	const struct timespec *x = &((const struct entry *)a)->used, *y = &((const struct entry *)b)->used;

	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? -1 : 1;
	return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

// Returns whether this is the name of a temporary file of core_cache_put(): "new-" and 16 digits. Files with other
// names are not removed.
static bool is_temporary(const char *name)
{
	return strncmp(name, "new-", 4) == 0 && strspn(name + 4, "0123456789abcdef") == 16 && !name[20];
}

// Returns whether the name of a file is that of a cache entry. Removes abandoned temporary files.
static bool check_entry(int directory, const char *name, struct stat *ret_status)
{
	size_t length = strlen(name);

	if (length >= sizeof((struct entry *)0)->name || fstatat(directory, name, ret_status, AT_SYMLINK_NOFOLLOW) ||
	    !S_ISREG(ret_status->st_mode))
		return false;
	if (is_temporary(name) && time(NULL) - ret_status->st_mtim.tv_sec > STALE)
		unlinkat(directory, name, 0);
	return length == 36 && strcmp(name + 32, ".vgc") == 0;
}

static int list_entries(int directory, struct entry **ret_entries, size_t *ret_count)
{
	int again = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = again < 0 ? NULL : fdopendir(again);
	struct entry *entries = NULL, *grown;
	size_t count = 0, capacity = 0;
	const time_t now = time(NULL);
	struct dirent *file;
	struct stat status;

	if (!stream) {
		int r = -errno;
		if (again >= 0)
			close(again);
		return r;
	}
	while ((file = readdir(stream))) {
		if (!check_entry(directory, file->d_name, &status))
			continue;
		if (count == capacity) {
			capacity = capacity ? 2 * capacity : 64;
			grown = realloc(entries, capacity * sizeof *grown);
			if (!grown) {
				free(entries);
				closedir(stream);
				return -ENOMEM;
			}
			entries = grown;
		}
		entries[count].used = status.st_mtim;
		if (status.st_mtim.tv_sec > now + SKEW) // the clock was set back: count the entry as unused
			entries[count].used = (struct timespec){0};
		entries[count].size = (uint64_t)status.st_size;
		strcpy(entries[count++].name, file->d_name);
	}
	closedir(stream);
	*ret_entries = entries;
	*ret_count = count;
	return 0;
}

int core_cache_directory_trim(const struct vg_compile_cache *cache, uint64_t most, struct core_cache_sum *ret_sum)
{
	struct core_cache_sum sum = {0};
	struct entry *entries = NULL;
	size_t count = 0;

	int r = list_entries(cache->directory, &entries, &count);
	if (r)
		return r;
	sum.entries = count;
	for (size_t i = 0; i < count; i++)
		sum.bytes += entries[i].size;
	if (sum.bytes > most)
		qsort(entries, count, sizeof *entries, compare_use);
	// Another process may trim the cache at the same time. A file that the other process has removed counts as
	// removed.
	for (size_t i = 0; i < count && sum.bytes > most; i++) {
		if (unlinkat(cache->directory, entries[i].name, 0) && errno != ENOENT) {
			r = -errno;
			continue;
		}
		sum.bytes -= entries[i].size;
		sum.entries--;
	}
	free(entries);
	if (ret_sum)
		*ret_sum = sum;
	return r;
}
