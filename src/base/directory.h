// Opens a private directory of the caller at a path where other users may have created one before. Any thread.
#pragma once
#include <stddef.h>

// Creates the directory (mode 0700) if it does not exist, and opens it for reading. Returns the descriptor or -errno.
// -EPERM: the directory belongs to another user, other users may write to it, or the path is a symbolic link or not a
// directory. After a failure, `problem` is a sentence without a full stop.
int vg_directory_open_own(const char *path, char *problem, size_t capacity);
