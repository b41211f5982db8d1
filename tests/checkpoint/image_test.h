// Makes an image that tests read and damage. Include in exactly one file per program. One thread.
#pragma once
#include <jansson.h>

#include "checkpoint_test.h"

static pid_t dumped; // the process that was dumped into the image

// Returns the path of an image of a subject that has ended. The first call dumps the subject.
static inline const char *image(void)
{
	static char path[PATH_MAX];

	if (!*path) {
		setenv("VIRGATE_CRIU", STANDIN_PROGRAM, 1);
		snprintf(path, sizeof path, "%s", path_of("images/one"));
		CHECK_INT(mkdir(path_of("images"), 0700), 0);
		struct subject subject = start_subject(path_of("rounds"));
		check_goes_on(path_of("rounds"));
		dumped = subject.pid;
		CHECK_RUN("dump --pid %d --dir %s", (int)subject.pid, path);
		end_subject(subject);
	}
	return path;
}

// Reads the description of the image that image() returns. The caller owns it.
static inline json_t *description(void)
{
	char name[PATH_MAX + 32];

	snprintf(name, sizeof name, "%s/virgate.json", image());
	json_t *loaded = json_load_file(name, 0, NULL);
	CHECK(loaded != NULL);
	return loaded;
}
