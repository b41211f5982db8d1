// Finds the paths of the daemon's directory and socket. Any thread.
#pragma once
#include <stddef.h>

#include "base/parts.h" // paths of the installed parts

// Writes the path of the directory that has the daemon's socket. `simulate`: specification of a simulated GPU; "": real
// GPUs. An explicit directory, from an option or VIRGATE_RUNTIME_DIR, is used unchanged. Returns 0 or -ENAMETOOLONG.
int vg_paths_runtime(const char *explicit_dir, const char *simulate, char ret_path[PATH_MAX]);
// Creates the runtime directory so that only this user has access. Refuses a directory that another user owns or may
// write to. Returns 0, -EPERM (the directory is not this user's alone), or another -errno. After a failure, `problem`
// has the reason.
int vg_paths_make_private(const char *path, char *problem, size_t capacity);
