// Who may still come in: processes that inherited a vGPU's environment from a launcher that is gone
// and that have not used CUDA yet. They have no slot, so the environment they were started with tells. And who is in a
// vGPU whose ledger cannot be believed: the kernel says who has it mapped.
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

// A line of the maps that ends in the ledger's path, also after the file was removed. Where the inode is known, the
// end of the path will do: a process in a container has the file below another root.
static bool is_mapping(char *line, const char *end_of_path, ino_t inode)
{
	static const char removed[] = " (deleted)";
	unsigned long long mapped;

	line[strcspn(line, "\n")] = '\0';
	size_t length = strlen(line), tail = sizeof removed - 1, wanted = strlen(end_of_path);
	if (length > tail && strcmp(line + length - tail, removed) == 0)
		line[length -= tail] = '\0';
	return length >= wanted && strcmp(line + length - wanted, end_of_path) == 0 &&
	       sscanf(line, "%*s %*s %*s %*s %llu", &mapped) == 1 && (!inode || mapped == inode);
}

bool heir_has_mapped(pid_t pid, const struct vgpu *vgpu)
{
	char path[32], name[VG_LEDGER_NAME + 16], *line = NULL;
	ino_t inode = vg_ledger_inode(vgpu->ledger);
	size_t capacity = 0;
	bool found = false;

	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	snprintf(name, sizeof name, "/ledgers/%s", vgpu->name);
	FILE *file = fopen(path, "re");
	while (file && !found && getline(&line, &capacity, file) > 0)
		found = is_mapping(line, inode ? name : vgpu->path, inode);
	free(line);
	if (file)
		fclose(file);
	return found;
}

void heir_adopt_all(struct node *node, struct vgpu *vgpu)
{
	char wanted[PATH_MAX + 16];
	DIR *folder = opendir("/proc");
	struct dirent *entry;
	uint64_t start_time;

	snprintf(wanted, sizeof wanted, "VIRGATE_LEDGER=%s", vgpu->path);
	// Its tenants' word is not enough where the ledger is damaged, or where all of them are to end.
	bool look_at_mappings = vgpu->damage || vgpu->removing;
	while (folder && (entry = readdir(folder))) {
		pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? (pid_t)atoi(entry->d_name) : 0;
		// The start time first: adoption fails if the number has changed hands since.
		if (pid <= 0 || pid == getpid() || vg_process_start_time(pid, &start_time) < 0)
			continue;
		bool owned = belongs_to(entry->d_name, vgpu->owner);
		if ((owned && has_variable(entry->d_name, wanted)) ||
		    (look_at_mappings && (owned || vgpu->group != (gid_t)-1) && heir_has_mapped(pid, vgpu)))
			launcher_adopt(node, vgpu, pid, start_time);
	}
	if (folder)
		closedir(folder);
}
