#include "checkpoint/process/host_memory.h"

#include "base/descriptor.h"
#include "base/size.h"
#include "base/status.h"
#include "checkpoint/process/refusal.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Reads one number from a file, or the number after `key` in the file. Returns false if the value is not a number, such
// as "max".
static bool read_number(const char *directory, const char *name, const char *key, uint64_t *ret_number)
{
	char path[PATH_MAX + 64], text[8192], *end;

	snprintf(path, sizeof path, "%s/%s", directory, name);
	if (vg_file_read(path, text, sizeof text) < 0)
		return false;
	const char *at = key ? strstr(text, key) : text;
	if (!at)
		return false;
	at += key ? strlen(key) : 0;
	*ret_number = strtoull(at, &end, 10);
	return end != at;
}

// The names of the files in one version of control groups: cgroup v2 or v1.
struct names {
	const char *root, *limit, *usage, *cache[2];
};
static const struct names names[] = {
	{"/sys/fs/cgroup", "memory.max", "memory.current", {"\ninactive_file ", "\nactive_file "}},
	{"/sys/fs/cgroup/memory",
	 "memory.limit_in_bytes",
	 "memory.usage_in_bytes",
	 {"\ntotal_inactive_file ", "\ntotal_active_file "}},
};

// Reduces `memory` to the amount that the limit of the control group leaves, if that is less. Cached file data does not
// count as used, because the kernel can drop it.
static void narrow_by_group(const char *directory, const struct names *files, struct free_memory *memory)
{
	uint64_t limit, used, cache[2] = {0};

	if (!read_number(directory, files->limit, NULL, &limit) || !read_number(directory, files->usage, NULL, &used))
		return;
	for (int i = 0; i < 2; i++)
		if (!read_number(directory, "memory.stat", files->cache[i], &cache[i]))
			cache[i] = 0;
	used -= used > cache[0] + cache[1] ? cache[0] + cache[1] : used;
	uint64_t left = limit > used ? limit - used : 0;
	if (left < memory->bytes)
		*memory = (struct free_memory){left, true};
}

// Applies the limits of the group and of its ancestors. Skips directories that are not visible in a container.
static void narrow_by_groups(const char *group, const struct names *files, struct free_memory *memory)
{
	char directory[PATH_MAX];

	snprintf(directory, sizeof directory, "%s%s", files->root, group);
	for (size_t least = strlen(files->root); strlen(directory) >= least;) {
		narrow_by_group(directory, files, memory);
		char *slash = strrchr(directory, '/');
		if (!slash)
			break;
		*slash = '\0';
	}
}

bool host_memory_find_free(pid_t pid, struct free_memory *ret_memory)
{
	char path[64], text[8192], *rest = text, *line;
	struct free_memory memory = {0};

	if (!read_number("/proc", "meminfo", "MemAvailable:", &memory.bytes))
		return false;
	memory.bytes *= 1024;
	snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
	if (vg_file_read(path, text, sizeof text) < 0)
		text[0] = '\0';
	while ((line = strsep(&rest, "\n"))) {
		char *group = strchr(line, '/');
		if (strncmp(line, "0::", 3) == 0 && group)
			narrow_by_groups(group, &names[0], &memory);
		else if (strstr(line, ":memory:") && group)
			narrow_by_groups(group, &names[1], &memory);
	}
	*ret_memory = memory;
	return true;
}

enum vg_status host_memory_check(pid_t pid, uint64_t need, const char *what)
{
	char text[2][VG_SIZE_TEXT];
	struct free_memory memory;

	if (!host_memory_find_free(pid, &memory) || need <= memory.bytes)
		return VG_OK;
	enum vg_status status =
		refuse(REFUSE_HOST_MEMORY, 0, "%s %s of host memory, and %s %s: free some, or %s", what,
		       vg_size_format(need, text[0]), memory.by_group ? "its control group leaves" : "the machine has",
		       vg_size_format(memory.bytes, text[1]),
		       memory.by_group ? "raise the group's limit (memory.max)" : "take a machine with more");
	vg_fail_amounts(need, memory.bytes);
	return status;
}
