// Finds processes of other pid namespaces, such as those of containers.
#include "nvml.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/descriptor.h"

// Returns the pid of a process in its innermost namespace. That is the last number of the line "NSpid:" in
// /proc/PID/status.
static pid_t read_inner_pid(int pid)
{
	char path[32], text[8192];

	snprintf(path, sizeof path, "/proc/%d/status", pid);
	if (vg_file_read(path, text, sizeof text) < 0)
		return 0;
	char *line = strstr(text, "\nNSpid:"), *end = line ? strchr(line + 1, '\n') : NULL;
	if (!end)
		return 0;
	*end = '\0';
	return atoi(strrchr(line, '\t') + 1);
}

pid_t nvml_find_pid(uint32_t pid_namespace, pid_t pid)
{
	DIR *directory = opendir("/proc");
	pid_t found = 0;
	char path[32];
	struct stat info;

	for (struct dirent *entry; directory && !found && (entry = readdir(directory));) {
		int candidate = atoi(entry->d_name);
		if (candidate <= 0)
			continue;
		snprintf(path, sizeof path, "/proc/%d/ns/pid", candidate);
		if (stat(path, &info) == 0 && (uint32_t)info.st_ino == pid_namespace &&
		    read_inner_pid(candidate) == pid)
			found = candidate;
	}
	if (directory)
		closedir(directory);
	return found;
}
