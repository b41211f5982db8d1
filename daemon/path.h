// Files in the runtime directory. Any thread.
#pragma once
#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

struct node;

// Writes the path of a file in the runtime directory, for this process alone. It goes through the directory's
// descriptor, so it is valid also after the directory was renamed. Paths for other processes begin with
// node->runtime_dir.
__attribute__((format(printf, 3, 4))) void path_format(const struct node *node, char path[PATH_MAX], const char *format,
						       ...);
// Replaces a file atomically. Does not sync: its contents need not survive a reboot, and programs wait for it at their
// start. Returns 0 or -errno.
int path_write(const char *path, const char *text, mode_t mode);
