// Makes paths of files in the runtime directory, and replaces such files. Any thread.
#pragma once
#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

struct node;

// Writes the path of a file in the runtime directory. Only this process can use it: it goes through the directory's
// descriptor, so it is valid even after the directory was renamed. Paths for other processes begin with
// node->runtime_dir.
__attribute__((format(printf, 3, 4))) void path_format(const struct node *node, char path[PATH_MAX], const char *format,
						       ...);
// Replaces a file atomically. Does not sync it: the contents need not survive a reboot, and starting programs wait for
// this function. Returns 0 or -errno.
int path_write(const char *path, const char *text, mode_t mode);
