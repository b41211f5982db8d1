// Preserves the links that CRIU makes for deleted files. If the name of an open file was removed but the file has
// another hard link, CRIU makes a new link to it, link_remap.N, beside the old name. The image needs this link until it
// is restored. But a later dump fails if the link already exists, and a restore removes the link. These functions avoid
// both problems. One thread.
#pragma once
#include "checkpoint/process/tree.h"

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

// Links that are renamed temporarily.
struct remaps {
	char **names;
	size_t count;
};

// Finds the link that CRIU has made for a file that was opened as `path`. Returns false if it is not found.
bool remap_find(const char *path, const struct stat *info, char ret_name[PATH_MAX]);

// Renames the links that earlier images need for files of `tree`. Call it before CRIU dumps `tree`.
void remaps_set_aside(const struct tree *tree, struct remaps *ret_remaps);
// Removes the links that CRIU has made for `tree`. Call it after a failed dump.
void remaps_remove(const struct tree *tree);
// Adds second hard links, so that the files survive when CRIU removes the first. Call it before CRIU restores
// `description`.
void remaps_keep(const json_t *description, struct remaps *ret_remaps);
// Gives all links their old names back, and frees the list.
void remaps_put_back(struct remaps *remaps);
