#include "node/paths.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Beside an installed program or library, then in the build tree; relative to its folder.
static const struct {
	const char *file;     // within libdir
	const char *around[8]; // NULL-terminated
} parts[] = {
	[VG_PART_CUDA] = {"libvirgate-cuda.so",
			  {"../lib/virgate/", "../" VG_INSTALL_LIBDIR "/virgate/", "virgate/", "../shim/"}},
	[VG_PART_NVML] = {"libvirgate-nvml.so",
			  {"../lib/virgate/", "../" VG_INSTALL_LIBDIR "/virgate/", "virgate/", "../shim/"}},
	[VG_PART_SIM_CUDA] = {"sim/libcuda.so.1",
			      {"../lib/virgate/", "../" VG_INSTALL_LIBDIR "/virgate/", "virgate/", "../"}},
	[VG_PART_SIM_NVML] = {"sim/libnvidia-ml.so.1",
			      {"../lib/virgate/", "../" VG_INSTALL_LIBDIR "/virgate/", "virgate/", "../"}},
	[VG_PART_DAEMON] = {"virgated", {"", "../libexec/virgate/", "../sbin/", "../bin/", "../../bin/", "../daemon/"}},
};

// FNV-1a: tells specifications apart, guards nothing.
static uint64_t hash_text(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
	return hash;
}

int vg_paths_runtime(const char *explicit_dir, const char *simulate, char ret_path[PATH_MAX])
{
	const char *given = explicit_dir ? explicit_dir : secure_getenv("VIRGATE_RUNTIME_DIR");
	const char *user = secure_getenv("XDG_RUNTIME_DIR"), *region = secure_getenv("VIRGATE_SIM_DIR");
	char tail[32] = "";
	int length;

	if (*simulate) {
		uint64_t hash = hash_text(hash_text(0xcbf29ce484222325, simulate), "\n");
		snprintf(tail, sizeof tail, "-sim-%016llx", (unsigned long long)hash_text(hash, region ? region : ""));
	}
	if (given && *given)
		length = snprintf(ret_path, PATH_MAX, "%s", given);
	else if (user && *user == '/')
		length = snprintf(ret_path, PATH_MAX, "%s/virgate%s", user, tail);
	else
		length = snprintf(ret_path, PATH_MAX, "/tmp/virgate-%u%s", (unsigned)geteuid(), tail);
	return length < PATH_MAX ? 0 : -ENAMETOOLONG;
}

int vg_paths_make_private(const char *path)
{
	struct stat info;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	if (lstat(path, &info) < 0)
		return -errno;
	if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 022))
		return -EPERM;
	return 0;
}

// The folder of libvirgate.so if this code is in it, else of the running program.
static bool own_folder(char ret_path[PATH_MAX])
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

bool vg_paths_find(enum vg_part part, const char *libdir, char ret_path[PATH_MAX])
{
	char folder[PATH_MAX], candidate[2 * PATH_MAX];
	const char *daemon = part == VG_PART_DAEMON ? secure_getenv("VIRGATE_DAEMON") : NULL;

	if (daemon && *daemon)
		return realpath(daemon, ret_path) && access(ret_path, X_OK) == 0;
	if (!*libdir && secure_getenv("VIRGATE_LIBDIR"))
		libdir = secure_getenv("VIRGATE_LIBDIR");
	if (*libdir && part != VG_PART_DAEMON) { // somebody said where: nowhere else, then
		snprintf(candidate, sizeof candidate, "%s/%s", libdir, parts[part].file);
		return realpath(candidate, ret_path) && access(ret_path, R_OK) == 0;
	}
	if (!own_folder(folder))
		return false;
	for (int i = 0; parts[part].around[i]; i++) {
		snprintf(candidate, sizeof candidate, "%s%s%s", folder, parts[part].around[i], parts[part].file);
		if (realpath(candidate, ret_path) && access(ret_path, part == VG_PART_DAEMON ? X_OK : R_OK) == 0)
			return true;
	}
	return false;
}

const char *vg_paths_file(enum vg_part part)
{
	return parts[part].file;
}
