// What the tests of the doctor share: a folder, and scripts in it.
#pragma once
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "test.h"

static char folder[] = "/tmp/virgate-doctor.XXXXXX";

__attribute__((constructor)) static void make_folder(void)
{
	if (!mkdtemp(folder))
		abort();
}

__attribute__((destructor)) static void remove_folder(void)
{
	char command[128];

	snprintf(command, sizeof command, "rm -rf %s", folder);
	if (system(command))
		perror(folder);
}

static const char *script(const char *name, const char *text)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *file = fopen(path, "w");
	CHECK(file != NULL);
	fprintf(file, "#!/bin/sh\n%s\n", text);
	CHECK_INT(fclose(file), 0);
	CHECK_INT(chmod(path, 0755), 0);
	return path;
}
