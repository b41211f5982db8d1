// Where the parts of Virgate lie, and where the node's daemon listens. Any thread.
#pragma once
#include <limits.h>
#include <stdbool.h>

// The folder of the daemon's socket, for a real GPU (simulate "") or a simulated one. An
// explicit folder (option or VIRGATE_RUNTIME_DIR) is taken as it is. 0 or -ENAMETOOLONG.
int vg_paths_runtime(const char *explicit_dir, const char *simulate, char ret_path[PATH_MAX]);
// Makes that folder for us alone; refuses one that others own or may write. 0 or -errno;
// -EPERM: not ours.
int vg_paths_make_private(const char *path);

enum vg_part { VG_PART_CUDA, VG_PART_NVML, VG_PART_SIM_CUDA, VG_PART_SIM_NVML, VG_PART_DAEMON };
// The absolute path of a part: in `libdir` (may be ""), beside the running program or library,
// or in the build tree. False if it is in none of them.
bool vg_paths_find(enum vg_part part, const char *libdir, char ret_path[PATH_MAX]);
const char *vg_paths_file(enum vg_part part);
