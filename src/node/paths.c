#include "node/paths.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/directory.h"
#include "base/hash.h"

int vg_paths_runtime(const char *explicit_dir, const char *simulate, char ret_path[PATH_MAX])
{
	const char *given = explicit_dir ? explicit_dir : secure_getenv("VIRGATE_RUNTIME_DIR");
	const char *region = secure_getenv("VIRGATE_SIM_DIR");
	char tail[32] = "";
	int length;

	if (*simulate) {
		uint64_t hash = vg_hash_add(vg_hash_text(simulate), "\n", 1);
		if (region)
			hash = vg_hash_add(hash, region, strlen(region));
		snprintf(tail, sizeof tail, "-sim-%016llx", (unsigned long long)hash);
	}
	if (given && *given)
		length = snprintf(ret_path, PATH_MAX, "%s", given);
	else // do not use the session's runtime directory (XDG_RUNTIME_DIR): programs may outlive the session
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
