// Where the node's daemon listens. Any thread.
#pragma once
#include <stddef.h>

#include "base/parts.h" // where everything else lies

// The directory of the daemon's socket, for a real GPU (simulate "") or a simulated one. An
// explicit directory (option or VIRGATE_RUNTIME_DIR) is taken as it is. 0 or -ENAMETOOLONG.
int vg_paths_runtime(const char *explicit_dir, const char *simulate, char ret_path[PATH_MAX]);
// Makes that directory for us alone; refuses one that others own or may write. 0; -EPERM: not ours; -errno. After a
// failure `problem` says what is wrong.
int vg_paths_make_private(const char *path, char *problem, size_t capacity);
