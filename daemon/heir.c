// Who may still come in: processes that inherited a vGPU's environment from a launcher that is gone
// and that have not used CUDA yet. They have no slot, so the environment they were started with tells.
#include "base/descriptor.h"
#include "daemon/node.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool has_variable(const char *pid, const char *wanted)
{
	char path[300], *entry = NULL;
	size_t capacity = 0;
	bool found = false;

	snprintf(path, sizeof path, "/proc/%s/environ", pid);
	FILE *file = fopen(path, "re");
	while (file && !found && getdelim(&entry, &capacity, '\0', file) > 0)
		found = strcmp(entry, wanted) == 0;
	free(entry);
	if (file)
		fclose(file);
	return found;
}

static bool belongs_to(const char *pid, uid_t owner)
{
	char path[300];
	struct stat status;

	snprintf(path, sizeof path, "/proc/%s", pid);
	return stat(path, &status) == 0 && status.st_uid == owner;
}

void heir_adopt_all(struct node *node, struct vgpu *vgpu)
{
	char wanted[PATH_MAX + 16];
	DIR *folder = opendir("/proc");
	struct dirent *entry;
	uint64_t start_time;

	snprintf(wanted, sizeof wanted, "VIRGATE_LEDGER=%s", vgpu->path);
	while (folder && (entry = readdir(folder))) {
		pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? (pid_t)atoi(entry->d_name) : 0;
		// The start time first: adoption fails if the number has changed hands since.
		if (pid > 0 && pid != getpid() && belongs_to(entry->d_name, vgpu->owner) &&
		    vg_process_start_time(pid, &start_time) == 0 && has_variable(entry->d_name, wanted))
			launcher_adopt(node, vgpu, pid, start_time);
	}
	if (folder)
		closedir(folder);
}
