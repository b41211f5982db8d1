#include "pager/available.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/descriptor.h"

enum { TEXT = 4096 };

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

// Returns MemAvailable of /proc/meminfo: the memory that programs can still use without swapping.
static uint64_t read_machine_available(void)
{
	char text[TEXT];
	uint64_t kib;

	const char *line = vg_file_read("/proc/meminfo", text, sizeof text) > 0 ? strstr(text, "MemAvailable:") : NULL;
	return line && sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1 ? kib << 10 : UINT64_MAX;
}

// Reads a number from a file of a control group. Returns false if the file has no number: a limit may be "max".
static bool read_number(const char *directory, const char *name, uint64_t *ret_number)
{
	char path[2 * TEXT + 64], text[64], *end;

	snprintf(path, sizeof path, "%s/%s", directory, name);
	if (vg_file_read(path, text, sizeof text) <= 0)
		return false;
	*ret_number = strtoull(text, &end, 10);
	return end != text;
}

// File names of one version of control groups.
struct names {
	const char *prefix; // text with which the group's line in /proc/PID/cgroup starts
	const char *below;  // directory of the groups, relative to the mount point
	const char *most[2], *used, *droppable;
};
static const struct names versions[] = {
	{"0::/", "", {"memory.max", "memory.high"}, "memory.current", "\ninactive_file "},
	{":memory:/", "/memory", {"memory.limit_in_bytes"}, "memory.usage_in_bytes", "\ntotal_inactive_file "},
};

// Returns the bytes of the page cache that were not used lately. The group's usage includes these bytes, but the kernel
// frees them before an allocation fails.
static uint64_t read_droppable(const char *directory, const struct names *names)
{
	char path[2 * TEXT + 64], text[4 * TEXT];

	snprintf(path, sizeof path, "%s/memory.stat", directory);
	const char *line = vg_file_read(path, text, sizeof text) > 0 ? strstr(text, names->droppable) : NULL;
	return line ? strtoull(line + strlen(names->droppable), NULL, 10) : 0;
}

// Returns the bytes that one control group can still use below its limit.
static uint64_t directory_available(const char *directory, const struct names *names)
{
	uint64_t most = UINT64_MAX, number, used;

	for (int i = 0; i < 2 && names->most[i]; i++)
		if (read_number(directory, names->most[i], &number))
			most = smaller(most, number);
	if (most == UINT64_MAX || !read_number(directory, names->used, &used))
		return UINT64_MAX;
	used -= smaller(used, read_droppable(directory, names));
	return most - smaller(most, used);
}

static uint64_t version_available(const char *root, const char *groups, const struct names *names)
{
	uint64_t available = UINT64_MAX;
	char group[TEXT], directory[2 * TEXT];

	const char *line = strstr(groups, names->prefix);
	if (!line)
		return available;
	snprintf(group, sizeof group, "%s", line + strlen(names->prefix) - 1);
	group[strcspn(group, "\n")] = '\0';
	for (char *end = group + strlen(group); end; end = strrchr(group, '/')) { // the group, then each parent
		*end = '\0';
		snprintf(directory, sizeof directory, "%s%s%s", root, names->below, group);
		available = smaller(available, directory_available(directory, names));
	}
	return available;
}

uint64_t pager_group_available(const char *root, const char *groups)
{
	return smaller(version_available(root, groups, &versions[0]), version_available(root, groups, &versions[1]));
}

uint64_t pager_host_available(void)
{
	char groups[TEXT];
	bool has_groups = vg_file_read("/proc/self/cgroup", groups, sizeof groups) > 0;

	return smaller(read_machine_available(),
		       has_groups ? pager_group_available("/sys/fs/cgroup", groups) : UINT64_MAX);
}
