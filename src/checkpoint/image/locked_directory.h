// Folders of ours that are written and given up again, under names that nobody else has: whoever writes one holds its
// lock, and one that nobody holds is of somebody who was killed. Any thread.
#pragma once
#include <stdbool.h>

// Makes a folder of mode 0700; `path` ends in XXXXXX, which become its own. *ret_lock: to be closed when it is given
// up, a descriptor of the folder. 0 or -errno; -EPERM: somebody has put another folder there.
int locked_directory_make(char *path, int *ret_lock);
// Whether a name is one of those that a folder of a kind has.
typedef bool locked_directory_name_fn(const char *name);
// Removes what lies in the folder at `path` under such names, folders with the files in them, and then the folder
// itself, if it is empty. Whatever cannot be removed stays; nothing behind a link is touched.
void locked_directory_remove(const char *path, locked_directory_name_fn *has);
// The same for all folders that locked_directory_make() made of `path`, this user's, that nobody holds any more. One with
// anything else in it stays. `depth`: so many folders deep files may lie below it, at least 1.
void locked_directory_sweep(const char *path, locked_directory_name_fn *has, int depth);
