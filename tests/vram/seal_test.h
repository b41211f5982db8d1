// Helpers of the tests of keys, seals and audit logs: a temporary directory, files, a key file with known contents.
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "library_test.h"

// The bytes 0 to 31 as hexadecimal digits.
#define KEY_DIGITS "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define OTHER_DIGITS "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

static char seal_directory[64];

static inline void remove_seal_directory(void)
{
	char command[128];

	if (getpid() == test_pid) {
		snprintf(command, sizeof command, "rm -rf %s", seal_directory);
		if (system(command))
			fprintf(stderr, "%s is left\n", seal_directory);
	}
}

// Returns the path of `name` in a directory that is removed when the program ends. The path is valid as long as the
// program runs.
static inline const char *path_of(const char *name)
{
	static struct path {
		char text[128];
		struct path *next;
	} * paths;

	if (!*seal_directory) {
		strcpy(seal_directory, "/tmp/virgate-seal.XXXXXX");
		CHECK(mkdtemp(seal_directory) != NULL);
		atexit(remove_seal_directory);
	}
	for (struct path *path = paths; path; path = path->next)
		if (strcmp(path->text + strlen(seal_directory) + 1, name) == 0)
			return path->text;
	struct path *path = malloc(sizeof *path);
	snprintf(path->text, sizeof path->text, "%s/%s", seal_directory, name);
	path->next = paths;
	return (paths = path)->text;
}

static inline void write_file(const char *path, const void *data, size_t length, mode_t mode)
{
	unlink(path);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0);
	CHECK_INT(write(fd, data, length), length);
	CHECK_INT(fchmod(fd, mode), 0);
	close(fd);
}

// Returns the contents of the file with a terminating zero byte. The caller frees them.
static inline char *read_file(const char *path, size_t *ret_length)
{
	struct stat stat;

	int fd = open(path, O_RDONLY);
	CHECK(fd >= 0 && fstat(fd, &stat) == 0);
	char *data = malloc((size_t)stat.st_size + 1);
	CHECK_INT(read(fd, data, (size_t)stat.st_size), stat.st_size);
	close(fd);
	data[stat.st_size] = '\0';
	*ret_length = (size_t)stat.st_size;
	return data;
}

static inline const char *key_file(const char *name, const char *digits)
{
	const char *path = path_of(name);

	write_file(path, digits, strlen(digits), 0600);
	return path;
}
