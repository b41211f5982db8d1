// Names that CRIU makes for deleted files. If an open file has lost its name but has another link, CRIU links it as
// link_remap.N beside its old name. The image needs that name until it is restored. CRIU fails if the name exists
// already, and removes it after a restore; these functions work around both. One thread.
#pragma once
#include "checkpoint/process/tree.h"

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

// Names that are renamed for a while.
struct remaps {
	char **names;
	size_t count;
};

// Finds the name that CRIU has made for a file that was opened as `path`.
bool remap_find(const char *path, const struct stat *info, char ret_name[PATH_MAX]);

// Before CRIU dumps `tree`: renames the names of earlier images for its files.
void remaps_set_aside(const struct tree *tree, struct remaps *ret_remaps);
// After a failed dump: removes the names that CRIU has made for `tree`.
void remaps_remove(const struct tree *tree);
// Before CRIU restores `description`: adds second links to the names, so that they survive.
void remaps_keep(const json_t *description, struct remaps *ret_remaps);
// Restores all names, and frees the list.
void remaps_put_back(struct remaps *remaps);
