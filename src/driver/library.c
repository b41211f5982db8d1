#include "driver/library.h"

#include "base/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *read_variable(const char *variable)
{
	const char *value = secure_getenv(variable);

	return value && *value ? value : NULL;
}

// Finds the path of a library's simulated version. Returns false if it is not installed.
static bool find_simulator(const char *name, char ret_path[LIBRARY_PATH])
{
	enum vg_part part = strcmp(name, "libcuda.so.1") == 0 ? VG_PART_SIM_CUDA : VG_PART_SIM_NVML;

	_Static_assert(LIBRARY_PATH >= PATH_MAX, "a path fits");
	return vg_paths_find(part, NULL, ret_path);
}

int library_choose(const char *variable, const char *name, char ret_path[LIBRARY_PATH], bool *ret_simulated,
		   char *problem, size_t capacity)
{
	const char *named = read_variable(variable);
	bool simulated = *vg_simulation_wanted();
	char path[LIBRARY_PATH];

	if (named || !simulated) {
		snprintf(path, sizeof path, "%s", named ? named : name);
	} else if (!find_simulator(name, path)) {
		snprintf(problem, capacity,
			 "VIRGATE_SIM is set, but the simulator's %s is not there: install it (Debian package "
			 "virgate-sim), or name the directory that holds sim/%s in VIRGATE_LIBDIR",
			 name, name);
		return 1;
	}
	strcpy(ret_path, path);
	*ret_simulated = simulated;
	return 0;
}
