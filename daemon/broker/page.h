// Creates, maps and writes the page of a publication: a file in the runtime directory that readers map (wire/page.h).
// Main thread only.
#pragma once
#include "daemon/broker/state.h"

// Writes the path of the page. The path begins with a descriptor of this process, so other processes cannot use it.
void page_path(const struct node *node, const char *name, char path[PATH_MAX]);
// Creates the page. Returns 0 or -errno.
int page_create(struct node *node, struct publication *publication);
// Maps the page of an earlier daemon. Returns 0 or -errno.
int page_map(struct publication *publication, const char *path, int fd);
// Unmaps the page of the publication, and removes its file.
void page_drop(struct node *node, struct publication *publication);
// Sets the generation that readers can open; 0: none.
void page_set_current(struct publication *publication, uint64_t generation);
