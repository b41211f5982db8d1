// The paths of installed files, and the choice of the simulated GPU. Any thread.
#pragma once
#include <limits.h>
#include <stdbool.h>

enum vg_part { VG_PART_CUDA, VG_PART_NVML, VG_PART_SIM_CUDA, VG_PART_SIM_NVML, VG_PART_RUNTIME, VG_PART_DAEMON };

// Finds the absolute path of a part. Looks in `libdir` (NULL or "": in VIRGATE_LIBDIR). If neither is set, looks around
// libvirgate or the running program, which may be installed or in the build tree. The environment variable
// VIRGATE_DAEMON names the daemon. Returns false if the part is not found.
bool vg_paths_find(enum vg_part part, const char *libdir, char ret_path[PATH_MAX]);
// Returns the path of a part relative to libdir, for messages.
const char *vg_paths_file(enum vg_part part);

// Returns the specification of the simulated GPU from VIRGATE_SIM, or "" for a real GPU: the variable is unset, empty
// or 0.
const char *vg_simulation_wanted(void);
