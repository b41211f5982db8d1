#include "checkpoint/criu/remap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PREFIX "link_remap."
#define ASIDE ".virgate"
#define GONE " (deleted)"

typedef void visit_fn(void *user, const char *name);

static bool is_remap(const char *leaf)
{
	if (strncmp(leaf, PREFIX, strlen(PREFIX)) != 0)
		return false;
	leaf += strlen(PREFIX);
	return *leaf && leaf[strspn(leaf, "0123456789")] == '\0';
}

// ---- find names ----------------------------------------------------------------------------------------

// Opens the nearest ancestor directory of `path` that still exists. There CRIU makes link_remap.N, its link to a file
// that was deleted at `path`.
static DIR *open_directory(const char *path, char ret_directory[PATH_MAX])
{
	DIR *opened = NULL;
	char *slash;

	snprintf(ret_directory, PATH_MAX, "%s", path);
	while (!opened && (slash = strrchr(ret_directory, '/'))) {
		*slash = '\0';
		opened = opendir(*ret_directory ? ret_directory : "/");
	}
	return opened;
}

static void visit_names(const char *path, const struct stat *info, visit_fn *visit, void *user)
{
	char directory[PATH_MAX], name[PATH_MAX];
	struct dirent *entry;
	struct stat named;

	DIR *opened = open_directory(path, directory);
	while (opened && (entry = readdir(opened)))
		if (is_remap(entry->d_name) &&
		    fstatat(dirfd(opened), entry->d_name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
		    named.st_ino == info->st_ino && named.st_dev == info->st_dev &&
		    snprintf(name, sizeof name, "%s/%s", directory, entry->d_name) < (int)sizeof name)
			visit(user, name);
	if (opened)
		closedir(opened);
}

static void copy_name(void *user, const char *name)
{
	snprintf(user, PATH_MAX, "%s", name);
}

bool remap_find(const char *path, const struct stat *info, char ret_name[PATH_MAX])
{
	char plain[PATH_MAX];
	size_t length = strlen(path), gone = strlen(GONE);

	*ret_name = '\0';
	if (!info->st_nlink || length <= gone || length >= sizeof plain || strcmp(path + length - gone, GONE) != 0)
		return false;
	snprintf(plain, sizeof plain, "%.*s", (int)(length - gone), path);
	visit_names(plain, info, copy_name, ret_name);
	return *ret_name;
}

// Calls `visit` for each link in a directory of /proc/PID, which lists open files or mapped files.
static void visit_links(pid_t pid, const char *links, visit_fn *visit, void *user)
{
	char directory[64], link[320], path[PATH_MAX], name[PATH_MAX];
	struct dirent *entry;
	struct stat info;

	snprintf(directory, sizeof directory, "/proc/%d/%s", (int)pid, links);
	DIR *opened = opendir(directory);
	while (opened && (entry = readdir(opened))) {
		ssize_t length = readlinkat(dirfd(opened), entry->d_name, path, sizeof path - 1);
		if (length < 1)
			continue;
		path[length] = '\0';
		snprintf(link, sizeof link, "%s/%s", directory, entry->d_name);
		// Search again, because each earlier image may have its own link_remap.N to this file. `visit` renames
		// or removes the link that was found.
		while (stat(link, &info) == 0 && S_ISREG(info.st_mode) && remap_find(path, &info, name)) {
			visit(user, name);
			if (access(name, F_OK) == 0)
				break;
		}
	}
	if (opened)
		closedir(opened);
}

static void visit_tree(const struct tree *tree, visit_fn *visit, void *user)
{
	for (size_t i = 0; i < tree->count; i++) {
		if (!tree_is_same(&tree->processes[i]))
			continue;
		visit_links(tree->processes[i].pid, "fd", visit, user);
		visit_links(tree->processes[i].pid, "map_files", visit, user);
	}
}

// ---- rename and restore --------------------------------------------------------------------------------

static bool set_name_aside(struct remaps *remaps, const char *name)
{
	char aside[PATH_MAX + sizeof ASIDE];

	snprintf(aside, sizeof aside, "%s" ASIDE, name);
	char **grown = realloc(remaps->names, (remaps->count + 1) * sizeof *grown);
	if (!grown)
		return false;
	remaps->names = grown;
	// A killed dump may have left an earlier link at `aside`. Replace it by a link to the file that `name` leads to
	// now.
	if (link(name, aside) < 0 && (errno != EEXIST || unlink(aside) < 0 || link(name, aside) < 0))
		return false;
	if (!(grown[remaps->count] = strdup(name)))
		return false;
	remaps->count++;
	return true;
}

static void move_aside(void *user, const char *name)
{
	if (set_name_aside(user, name))
		unlink(name);
}

void remaps_set_aside(const struct tree *tree, struct remaps *ret_remaps)
{
	*ret_remaps = (struct remaps){0};
	visit_tree(tree, move_aside, ret_remaps);
}

static void remove_one(void *user, const char *name)
{
	(void)user;
	unlink(name);
}

void remaps_remove(const struct tree *tree)
{
	visit_tree(tree, remove_one, NULL);
}

static void keep_those_of(const json_t *files, struct remaps *remaps)
{
	json_t *file;
	size_t i;

	json_array_foreach((json_t *)files, i, file) {
		const char *path = json_string_value(json_object_get(file, "path"));
		const char *slash = path ? strrchr(path, '/') : NULL;
		if (slash && is_remap(slash + 1))
			set_name_aside(remaps, path);
	}
}

void remaps_keep(const json_t *description, struct remaps *ret_remaps)
{
	*ret_remaps = (struct remaps){0};
	keep_those_of(json_object_get(description, "open_files"), ret_remaps);
	keep_those_of(json_object_get(description, "mapped_files"), ret_remaps);
}

void remaps_put_back(struct remaps *remaps)
{
	char aside[PATH_MAX + sizeof ASIDE];

	for (size_t i = 0; i < remaps->count; i++) {
		snprintf(aside, sizeof aside, "%s" ASIDE, remaps->names[i]);
		// EEXIST: the new image has a link of this name for the same file.
		if (link(aside, remaps->names[i]) == 0 || errno == EEXIST)
			unlink(aside);
		free(remaps->names[i]);
	}
	free(remaps->names);
	*remaps = (struct remaps){0};
}
