// Counts directory entries, mostly open descriptors in /proc/PID/fd.
#pragma once
#include <dirent.h>

#include "test.h"

static inline int count_entries(const char *path)
{
	DIR *directory = opendir(path);
	int count = 0;

	CHECK(directory != NULL);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}
