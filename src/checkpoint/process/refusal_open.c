// Finds open files and mappings that a dump cannot save, in /proc/PID/fd and /proc/PID/maps: devices, and the broker's
// files of publications (wire/page.h).
#include "base/hint.h"
#include "base/status.h"
#include "checkpoint/process/refusal.h"
#include "wire/page.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A search for the first descriptor or mapping that `wanted` accepts.
struct search {
	bool (*wanted)(const char *path, size_t mapped); // `mapped`: size of the mapping; 0: a descriptor
	// How the process has the file open, such as "a descriptor of"; NULL: not found.
	const char *what;
	char path[128];
};

static enum vg_status fail_unreadable(const char *path)
{
	return vg_fail(VG_DENIED, 0, "%s cannot be read: it takes CAP_SYS_PTRACE", path);
}

static void record_match(struct search *search, const char *what, const char *path)
{
	search->what = what;
	snprintf(search->path, sizeof search->path, "%.100s", path);
}

static enum vg_status search_descriptors(pid_t pid, struct search *search)
{
	char directory[64], path[PATH_MAX];
	struct dirent *entry;

	snprintf(directory, sizeof directory, "/proc/%d/fd", (int)pid);
	DIR *list = opendir(directory);
	if (!list)
		return fail_unreadable(directory);
	while (!search->what && (entry = readdir(list))) {
		ssize_t length = readlinkat(dirfd(list), entry->d_name, path, sizeof path - 1);
		if (length < 0)
			continue;
		path[length] = '\0';
		if (search->wanted(path, 0))
			record_match(search, "a descriptor of", path);
	}
	closedir(list);
	return VG_OK;
}

static enum vg_status search_mappings(pid_t pid, struct search *search)
{
	char path[64], *line = NULL;
	size_t capacity = 0;

	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return fail_unreadable(path);
	while (!search->what && getline(&line, &capacity, file) > 0) {
		char *name = strchr(line, '/'), *end;
		unsigned long first = strtoul(line, &end, 16);
		line[strcspn(line, "\n")] = '\0';
		if (name && search->wanted(name, strtoul(end + 1, NULL, 16) - first))
			record_match(search, "a mapping of", name);
	}
	free(line);
	fclose(file);
	return VG_OK;
}

static bool is_device(const char *path, size_t mapped)
{
	(void)mapped;
	return strncmp(path, "/dev/nvidia", 11) == 0;
}

static bool is_driver(const char *path, size_t mapped)
{
	return mapped && strstr(path, "/libcuda.so");
}

bool refusal_maps_cuda(pid_t pid)
{
	struct search search = {.wanted = is_driver};

	return search_mappings(pid, &search) == VG_OK && search.what;
}

// Returns whether the file is the page of a publication (wire/page.h). The daemon names these files in its runtime
// directory.
static bool is_page(const char *path, size_t mapped)
{
	return mapped == VG_PAGE_SIZE && strstr(path, "/publications/");
}

// Returns whether the file is one of those that the driver uses for CUDA IPC events, or NCCL for shared memory.
static bool is_ipc(const char *path, size_t mapped)
{
	return mapped && (strncmp(path, "/dev/shm/cuda.shm.", 18) == 0 || strncmp(path, "/dev/shm/nccl-", 14) == 0);
}

enum vg_status refusal_shared(const struct tree_process *process)
{
	struct search page = {.wanted = is_page}, ipc = {.wanted = is_ipc};

	enum vg_status status = search_mappings(process->pid, &page);
	if (status)
		return status;
	status = search_mappings(process->pid, &ipc);
	if (status)
		return status;
	if (page.what)
		return refuse(REFUSE_LEASE, 0,
			      "process %d (%s) has published memory through the broker, or has a lease on it: %s: its "
			      "connection cannot be saved; close it (virgate share list%s shows it), and open it again "
			      "afterwards",
			      (int)process->pid, process->command, strrchr(page.path, '/') + 1, vg_hint_own_sim());
	if (ipc.what)
		return refuse(
			REFUSE_IPC, 0,
			"process %d (%s) shares memory or events with others by CUDA IPC (%s): what it has opened of "
			"theirs would be lost; close it, or share by the broker (virgate share)",
			(int)process->pid, process->command, ipc.path);
	return VG_OK;
}

static bool descends_from_cuda(const struct tree *tree, const struct tree_process *process)
{
	for (size_t i = 0; i < tree->count; i++)
		if (tree->processes[i].pid == process->parent)
			return tree->processes[i].cuda || descends_from_cuda(tree, &tree->processes[i]);
	return false;
}

enum vg_status refusal_open_device(const struct tree *tree, const struct tree_process *process)
{
	struct search search = {.wanted = is_device};

	enum vg_status status = search_descriptors(process->pid, &search);
	if (status)
		return status;
	if (!search.what)
		status = search_mappings(process->pid, &search);
	if (status || !search.what)
		return status;
	if (!process->cuda && descends_from_cuda(tree, process))
		return refuse(
			REFUSE_DEVICE_CHILD, 0,
			"process %d (%s), a child of %d, has %s %s, and no image can hold that: it was forked when its "
			"parent used CUDA already; fork before (multiprocessing: \"spawn\" or \"forkserver\")",
			(int)process->pid, process->command, (int)process->parent, search.what, search.path);
	return refuse(REFUSE_DEVICE, 0,
		      "process %d (%s) has %s %s, and no image can hold that: memory exported as a descriptor, which "
		      "is to be "
		      "closed, or graphics, or NVML",
		      (int)process->pid, process->command, search.what, search.path);
}

enum vg_status refusal_by_leftovers(const struct tree *tree)
{
	for (size_t i = 0; i < tree->count; i++) {
		enum vg_status status = refusal_open_device(tree, &tree->processes[i]);
		if (status)
			return status;
	}
	return VG_OK;
}
