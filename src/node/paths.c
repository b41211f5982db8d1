#include "node/paths.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/directory.h"

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
	const char *region = secure_getenv("VIRGATE_SIM_DIR");
	char tail[32] = "";
	int length;

	if (*simulate) {
		uint64_t hash = hash_text(hash_text(0xcbf29ce484222325, simulate), "\n");
		snprintf(tail, sizeof tail, "-sim-%016llx", (unsigned long long)hash_text(hash, region ? region : ""));
	}
	if (given && *given)
		length = snprintf(ret_path, PATH_MAX, "%s", given);
	else // not of a session, which ends before its programs do
		length = snprintf(ret_path, PATH_MAX, "/tmp/virgate-%u%s", (unsigned)geteuid(), tail);
	return length < PATH_MAX ? 0 : -ENAMETOOLONG;
}

int vg_paths_make_private(const char *path, char *problem, size_t capacity)
{
	int fd = vg_directory_open_own(path, problem, capacity);

	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}
