// Where the files of an installation lie, and whether the simulated GPU is asked for. Any thread.
#pragma once
#include <limits.h>
#include <stdbool.h>

enum vg_part { VG_PART_CUDA, VG_PART_NVML, VG_PART_SIM_CUDA, VG_PART_SIM_NVML, VG_PART_RUNTIME, VG_PART_DAEMON };

// The absolute path of a part: in `libdir` (NULL or "": VIRGATE_LIBDIR) or, where neither is set, beside libvirgate or
// the running program, installed or in the build tree. VIRGATE_DAEMON names the daemon. False: not found.
bool vg_paths_find(enum vg_part part, const char *libdir, char ret_path[PATH_MAX]);
// Its path within libdir, for messages.
const char *vg_paths_file(enum vg_part part);

// The specification of the simulated GPU in VIRGATE_SIM, or "" where it is unset, empty or 0: a real GPU.
const char *vg_simulation_wanted(void);
