// Finds installed files, and reads VIRGATE_SIM, which chooses between the real and the simulated GPU. Any thread.
#pragma once
#include <limits.h>
#include <stdbool.h>

enum vg_part {
	VG_PART_CUDA,
	VG_PART_NVML,
	VG_PART_SIM_CUDA,
	VG_PART_SIM_NVML,
	VG_PART_RUNTIME,
	VG_PART_DAEMON,
	VG_PART_TOP
};

// Finds the absolute path of a part, which is an installed library or program of Virgate. Searches for a library only
// in the directory `libdir`, or, if that is NULL or "", in the directory VIRGATE_LIBDIR. If both are unset, or the part
// is a program, searches directories near libvirgate.so or the running program. These may be installed or in the build
// tree. If VIRGATE_DAEMON is set, it is the path of the daemon. Returns false if the part is not found.
bool vg_paths_find(enum vg_part part, const char *libdir, char ret_path[PATH_MAX]);
// Returns the path of a part relative to the libdir, for messages.
const char *vg_paths_file(enum vg_part part);

// Returns the specification of the simulated GPU, which is the value of VIRGATE_SIM. Returns "" for a real GPU: the
// variable is unset, empty or 0.
const char *vg_simulation_wanted(void);
