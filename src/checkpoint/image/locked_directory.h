// Temporary directories with unique names. The process that writes one has it locked; an unlocked one belongs to a
// process that was killed, and is removed. Any thread.
#pragma once
#include <stdbool.h>

// Creates a directory of mode 0700; replaces the XXXXXX at the end of `path`. *ret_lock: a locked descriptor of it;
// closing it unlocks it. Returns 0 or -errno; -EPERM: another directory was put there.
int locked_directory_make(char *path, int *ret_lock);
// Returns whether directories of this kind may have an entry of this name.
typedef bool locked_directory_name_fn(const char *name);
// Removes the entries with such names, including the files in subdirectories, and then the directory, if it is empty.
// Skips what cannot be removed. Follows no links.
void locked_directory_remove(const char *path, locked_directory_name_fn *has);
// Removes all unlocked directories of this user that locked_directory_make() made for `path`. Skips directories with
// other entries. `depth`, at least 1: how many levels below the directory files may lie.
void locked_directory_sweep(const char *path, locked_directory_name_fn *has, int depth);
