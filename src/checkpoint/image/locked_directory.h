// Makes temporary directories with unique names. The process that writes into one has it locked. If it is unlocked,
// that process was killed, and the directory is removed. Any thread.
#pragma once
#include <stdbool.h>

// Creates a directory of mode 0700. Replaces the XXXXXX at the end of `path` by a unique suffix. *ret_lock: a
// descriptor that locks the directory until it is closed. Returns 0 or -errno; -EPERM: another process has replaced the
// directory.
int locked_directory_make(char *path, int *ret_lock);
// Returns whether an entry with this name belongs in the temporary directory, and so may be removed with it.
typedef bool locked_directory_name_fn(const char *name);
// Removes the entries whose names `has` accepts, including files in subdirectories. Then removes the directory, if it
// is empty. Skips entries that cannot be removed. Follows no links.
void locked_directory_remove(const char *path, locked_directory_name_fn *has);
// Removes all unlocked directories of this user that locked_directory_make() created with the template `path`. Keeps a
// directory that has entries which `has` does not accept. `depth`: how many levels of subdirectories the removed
// directories may have.
void locked_directory_sweep(const char *path, locked_directory_name_fn *has, int depth);
