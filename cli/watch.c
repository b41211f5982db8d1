#include "watch.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/descriptor.h"

enum { DEEPEST = 16 };

struct maps maps_read(pid_t pid)
{
	struct maps maps = {false, false};
	char path[64], *line = NULL;
	size_t capacity = 0;

	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return maps;
	while (getline(&line, &capacity, file) > 0) {
		const char *name = strrchr(line, '/');
		if (!name)
			continue;
		maps.interposer |= strncmp(name, "/libvirgate-cuda.so", 19) == 0;
		// The process has the driver's library or the device mapped, so it uses the GPU.
		maps.driver |= strncmp(name, "/libcuda.so", 11) == 0;
		maps.driver |= strncmp(name, "/nvidia", 7) == 0 && strstr(line, "/dev/nvidia");
	}
	free(line);
	fclose(file);
	return maps;
}

static void check_process(struct watch *watch, pid_t pid)
{
	char path[64];

	struct maps maps = maps_read(pid);
	watch->interposed |= maps.interposer;
	if (!maps.driver || maps.interposer || watch->unlimited)
		return;
	watch->unlimited = pid;
	snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
	ssize_t length = vg_file_read(path, watch->unlimited_name, sizeof watch->unlimited_name - 1);
	watch->unlimited_name[length > 0 ? length - 1 : 0] = '\0';
}

static void check_descendants(struct watch *watch, pid_t pid, int depth)
{
	char path[96];

	check_process(watch, pid);
	if (depth == DEEPEST)
		return;
	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	DIR *tasks = opendir(path);
	if (!tasks)
		return;
	for (struct dirent *task; (task = readdir(tasks));) {
		int thread = atoi(task->d_name);
		if (thread <= 0)
			continue;
		snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, thread);
		FILE *children = fopen(path, "re");
		if (!children)
			continue;
		for (int one; fscanf(children, "%d", &one) == 1;)
			check_descendants(watch, one, depth + 1);
		fclose(children);
	}
	closedir(tasks);
}

void watch_processes(struct watch *watch)
{
	check_descendants(watch, watch->root, 0);
}
