#include "pager/available.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/descriptor.h"

enum { TEXT = 4096 };

static uint64_t lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

// What /proc/meminfo calls MemAvailable.
static uint64_t machine_available(void)
{
	char text[TEXT];
	uint64_t kib;

	const char *line = vg_file_read("/proc/meminfo", text, sizeof text) > 0 ? strstr(text, "MemAvailable:") : NULL;
	return line && sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1 ? kib << 10 : UINT64_MAX;
}

// A number in a file of a control group. False: there is none; a limit may be "max".
static bool read_number(const char *directory, const char *name, uint64_t *ret_number)
{
	char path[TEXT + 64], text[64], *end;

	snprintf(path, sizeof path, "%s/%s", directory, name);
	if (vg_file_read(path, text, sizeof text) <= 0)
		return false;
	*ret_number = strtoull(text, &end, 10);
	return end != text;
}

// Bytes of files that were not used lately: they count as used memory, but the kernel drops them before it refuses any.
static uint64_t read_droppable(const char *directory)
{
	static const char name[] = "\ninactive_file ";
	char path[TEXT + 64], text[4 * TEXT];

	snprintf(path, sizeof path, "%s/memory.stat", directory);
	const char *line = vg_file_read(path, text, sizeof text) > 0 ? strstr(text, name) : NULL;
	return line ? strtoull(line + strlen(name), NULL, 10) : 0;
}

// Bytes below the limit of one group.
static uint64_t directory_available(const char *directory)
{
	uint64_t most, used;

	if (!read_number(directory, "memory.max", &most) || !read_number(directory, "memory.current", &used))
		return UINT64_MAX;
	used -= lesser(used, read_droppable(directory));
	return most - lesser(most, used);
}

uint64_t pager_group_available(const char *root, char *groups)
{
	uint64_t available = UINT64_MAX;
	char directory[TEXT];

	char *group = strstr(groups, "0::/");
	if (!group)
		return available;
	group += strlen("0::");
	group[strcspn(group, "\n")] = '\0';
	for (char *end = group + strlen(group); end; end = strrchr(group, '/')) { // the group, then those around it
		*end = '\0';
		snprintf(directory, sizeof directory, "%s%s", root, group);
		available = lesser(available, directory_available(directory));
	}
	return available;
}

uint64_t pager_host_available(void)
{
	char groups[TEXT];
	bool has_groups = vg_file_read("/proc/self/cgroup", groups, sizeof groups) > 0;

	return lesser(machine_available(), has_groups ? pager_group_available("/sys/fs/cgroup", groups) : UINT64_MAX);
}
