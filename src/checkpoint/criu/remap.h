// Names that CRIU makes. A file that is open by a name which is gone, and has another name elsewhere, gets one more beside
// where it was, link_remap.N: an image needs it for as long as it is to be restored. CRIU fails where there is one
// already, and removes it when it has restored: both are put right here. One thread.
#pragma once
#include "checkpoint/process/tree.h"

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

// Names that lie aside for a while.
struct remaps {
	char **names;
	size_t count;
};

// The name that CRIU has made for a file that was opened as `path`.
bool remap_find(const char *path, const struct stat *info, char ret_name[PATH_MAX]);

// Before CRIU writes `tree`: names that earlier images have for its files go aside, out of its way.
void remaps_set_aside(const struct tree *tree, struct remaps *ret_remaps);
// Of an image that there will not be: what CRIU made for `tree` since then.
void remaps_remove(const struct tree *tree);
// Before CRIU restores what `description` says: they go aside, and stay.
void remaps_keep(const json_t *description, struct remaps *ret_remaps);
// All are where they were. Frees what is held.
void remaps_put_back(struct remaps *remaps);
