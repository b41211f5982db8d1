// Helpers of the tests of `virgate doctor`: they create a test directory, and scripts in it that stand in for programs.
#pragma once
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "test.h"

static char directory[] = "/tmp/virgate-doctor.XXXXXX";

__attribute__((constructor)) static void make_test_directory(void)
{
	if (!mkdtemp(directory))
		abort();
}

__attribute__((destructor)) static void remove_directory(void)
{
	char command[128];

	snprintf(command, sizeof command, "rm -rf %s", directory);
	if (system(command))
		perror(directory);
}

static const char *script(const char *name, const char *text)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/%s", directory, name);
	FILE *file = fopen(path, "w");
	CHECK(file != NULL);
	fprintf(file, "#!/bin/sh\n%s\n", text);
	CHECK_INT(fclose(file), 0);
	CHECK_INT(chmod(path, 0755), 0);
	return path;
}
