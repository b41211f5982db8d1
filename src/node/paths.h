// Paths of the node's daemon. Any thread.
#pragma once
#include <stddef.h>

#include "base/parts.h" // where everything else lies

// Writes the directory of the daemon's socket, for real GPUs (`simulate` is "") or a simulated one. An explicit
// directory (option or VIRGATE_RUNTIME_DIR) is used as it is. 0 or -ENAMETOOLONG.
int vg_paths_runtime(const char *explicit_dir, const char *simulate, char ret_path[PATH_MAX]);
// Creates that directory with access for this user only. Refuses one that another user owns or may write to. 0; -EPERM:
// not this user's; -errno. After a failure `problem` has the reason.
int vg_paths_make_private(const char *path, char *problem, size_t capacity);
