#include "base/parts.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Possible paths of LIBDIR/virgate, relative to the directory of libvirgate.so or of a program. Programs are in bin,
// libvirgate.so is in LIBDIR, and the test programs of a bundle are in libexec/virgate. LIBDIR is lib, or the libdir of
// the build (on Debian lib/x86_64-linux-gnu).
#define INSTALLED "virgate/", "../lib/virgate/", "../" VG_INSTALL_LIBDIR "/virgate/", "../../lib/virgate/"

// Where to search each part of Virgate. The paths in `around` are relative to the directory of libvirgate.so or of the
// program. The first paths are for installed parts, the others for the build tree.
static const struct {
	const char *file;      // relative to LIBDIR/virgate
	const char *around[8]; // NULL-terminated
} parts[] = {
	[VG_PART_CUDA] = {"libvirgate-cuda.so", {INSTALLED, "../shim/", "../../shim/"}},
	[VG_PART_NVML] = {"libvirgate-nvml.so", {INSTALLED, "../shim/", "../../shim/"}},
	[VG_PART_SIM_CUDA] = {"sim/libcuda.so.1", {INSTALLED, "../", "../../"}},
	[VG_PART_SIM_NVML] = {"sim/libnvidia-ml.so.1", {INSTALLED, "../", "../../"}},
	[VG_PART_RUNTIME] = {"runtime/libcudart.so.13", {INSTALLED, "../", "../../"}},
	[VG_PART_DAEMON] = {"virgated",
			    {"", "../libexec/virgate/", "../sbin/", "../bin/", "../../bin/", "../daemon/",
			     "../../daemon/"}},
	[VG_PART_TOP] = {"virgate-top", {"", "../top/", "../../bin/", "../../top/"}},
};

const char *vg_simulation_wanted(void)
{
	const char *specification = secure_getenv("VIRGATE_SIM");

	return specification && strcmp(specification, "0") != 0 ? specification : "";
}

// Finds the directory of libvirgate.so if this code is in that library, or else of the running program. The path ends
// in a slash. Returns false if the path is unknown.
static bool find_own_directory(char ret_path[PATH_MAX])
{
	Dl_info info;
	const char *slash = NULL;

	if (dladdr((void *)vg_paths_find, &info) && info.dli_fname)
		slash = strrchr(info.dli_fname, '/');
	bool library = slash && strncmp(slash + 1, "libvirgate", 10) == 0;
	if (!realpath(library ? info.dli_fname : "/proc/self/exe", ret_path))
		return false;
	strrchr(ret_path, '/')[1] = '\0';
	return true;
}

static bool find_file(const char *directory, const char *between, const char *file, int right, char ret_path[PATH_MAX])
{
	char candidate[2 * PATH_MAX], path[PATH_MAX];

	if (snprintf(candidate, sizeof candidate, "%s%s%s", directory, between, file) >= (int)sizeof candidate ||
	    !realpath(candidate, path) || access(path, right) < 0)
		return false;
	strcpy(ret_path, path);
	return true;
}

bool vg_paths_find(enum vg_part part, const char *libdir, char ret_path[PATH_MAX])
{
	const char *named = secure_getenv(part == VG_PART_DAEMON ? "VIRGATE_DAEMON" : "VIRGATE_LIBDIR");
	bool is_program = part == VG_PART_DAEMON || part == VG_PART_TOP;
	int right = is_program ? X_OK : R_OK;
	char directory[PATH_MAX];

	if (part == VG_PART_DAEMON && named && *named)
		return find_file("", "", named, right, ret_path);
	if (libdir && *libdir)
		named = libdir;
	if (!is_program && named && *named) // a directory was named, so search no other one
		return find_file(named, "/", parts[part].file, right, ret_path);
	if (!find_own_directory(directory))
		return false;
	for (const char *const *around = parts[part].around; *around; around++)
		if (find_file(directory, *around, parts[part].file, right, ret_path))
			return true;
	return false;
}

const char *vg_paths_file(enum vg_part part)
{
	return parts[part].file;
}
