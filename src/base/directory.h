// A directory of the caller's own, in a place where others may make one of that name first. Any thread.
#pragma once
#include <stddef.h>

// Opens `path` for reading, makes it first (mode 0700) where it does not exist. The descriptor; -EPERM: it belongs to
// somebody else, others may write it, or it is a symbolic link or no directory; -errno. After a failure `problem` says
// which, as a sentence without its end.
int vg_directory_open_own(const char *path, char *problem, size_t capacity);
