#include "driver/library.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *nonempty(const char *variable)
{
	const char *value = secure_getenv(variable);

	return value && *value ? value : NULL;
}

static bool find_simulator(const char *name, char ret_path[LIBRARY_PATH])
{
	static const char *const around[] = {"../lib/virgate/sim", "../../lib/virgate/sim", "../sim", "../../sim"};
	const char *folder = nonempty("VIRGATE_LIBDIR");
	char self[PATH_MAX];

	if (folder) {
		snprintf(ret_path, LIBRARY_PATH, "%s/sim/%s", folder, name);
		return access(ret_path, R_OK) == 0;
	}
	ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
	if (length <= 0)
		return false;
	self[length] = '\0';
	*strrchr(self, '/') = '\0';
	for (size_t i = 0; i < sizeof around / sizeof *around; i++)
		if (snprintf(ret_path, LIBRARY_PATH, "%s/%s/%s", self, around[i], name) < LIBRARY_PATH &&
		    access(ret_path, R_OK) == 0)
			return true;
	return false;
}

int library_choose(const char *variable, const char *name, char ret_path[LIBRARY_PATH], bool *ret_simulated,
		   char *problem, size_t capacity)
{
	const char *named = nonempty(variable);
	bool simulated = nonempty("VIRGATE_SIM") != NULL;
	char path[LIBRARY_PATH];

	if (named || !simulated) {
		snprintf(path, sizeof path, "%s", named ? named : name);
	} else if (!find_simulator(name, path)) {
		snprintf(problem, capacity, "VIRGATE_SIM is set, but the simulator's %s is not there: name it in %s",
			 name, variable);
		return 1;
	}
	strcpy(ret_path, path);
	*ret_simulated = simulated;
	return 0;
}
