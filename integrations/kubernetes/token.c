#include "token.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RANDOM_BYTES = 16, LINE = TOKEN_TEXT };

static int make_token(char ret_token[TOKEN_TEXT])
{
	uint8_t bytes[RANDOM_BYTES];

	if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
		return -EIO;
	for (size_t i = 0; i < sizeof bytes; i++)
		snprintf(ret_token + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

// Reads the latest lines of the file into `lines`, so that one more has room. Returns their length in bytes.
static size_t read_lines(const char *path, char *lines)
{
	char all[(TOKEN_VALID + 1) * LINE];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t length = fd < 0 ? 0 : read(fd, all, sizeof all);

	if (fd >= 0)
		close(fd);
	if (length < 0 || length % LINE)
		return 0;
	size_t skipped = length > (TOKEN_VALID - 1) * LINE ? (size_t)length - (TOKEN_VALID - 1) * LINE : 0;
	memcpy(lines, all + skipped, (size_t)length - skipped);
	return (size_t)length - skipped;
}

// Replaces the file, so that the hook never reads a part of it.
static int write_lines(const char *path, const char *lines, size_t length)
{
	char made[PATH_MAX + 8];

	snprintf(made, sizeof made, "%s.new", path);
	unlink(made);
	int fd = open(made, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	ssize_t written = write(fd, lines, length);
	int r = written < 0 ? -errno : (size_t)written < length ? -ENOSPC : 0;
	close(fd);
	if (r == 0 && rename(made, path) < 0)
		r = -errno;
	if (r < 0)
		unlink(made);
	return r;
}

int token_issue(const char *directory, const char *vgpu, bool is_first, char ret_token[TOKEN_TEXT])
{
	char path[PATH_MAX], token[TOKEN_TEXT], lines[TOKEN_VALID * LINE];

	int r = make_token(token);
	if (r < 0)
		return r;
	if (snprintf(path, sizeof path, "%s/allocations/%s", directory, vgpu) >= (int)sizeof path)
		return -ENAMETOOLONG;
	char *slash = strrchr(path, '/');
	*slash = '\0';
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	*slash = '/';
	size_t length = is_first ? 0 : read_lines(path, lines);
	memcpy(lines + length, token, TOKEN_TEXT - 1);
	lines[length + TOKEN_TEXT - 1] = '\n';
	r = write_lines(path, lines, length + LINE);
	if (r == 0)
		memcpy(ret_token, token, TOKEN_TEXT);
	return r;
}
