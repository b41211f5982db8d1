#include "token.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
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

// Reads the latest lines of the file into `lines`, at most TOKEN_VALID - 1, so that there is room for one more. Returns
// their length in bytes.
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

// Writes a new file and renames it, so that the hook never reads an incomplete file.
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

// Makes the path of one of the vGPU's files, and creates the directory for it.
static int make_path(const char *directory, const char *vgpu, const char *suffix, char ret_path[PATH_MAX])
{
	if (snprintf(ret_path, PATH_MAX, "%s/allocations/%s%s", directory, vgpu, suffix) >= PATH_MAX)
		return -ENAMETOOLONG;
	char *slash = strrchr(ret_path, '/');
	*slash = '\0';
	if (mkdir(ret_path, 0700) < 0 && errno != EEXIST)
		return -errno;
	*slash = '/';
	return 0;
}

int token_issue(const char *directory, const char *vgpu, bool is_first, char ret_token[TOKEN_TEXT])
{
	char path[PATH_MAX], permit[PATH_MAX], token[TOKEN_TEXT], lines[TOKEN_VALID * LINE];

	int r = make_token(token);
	if (r == 0)
		r = make_path(directory, vgpu, ".start", permit);
	if (r == 0)
		r = make_path(directory, vgpu, "", path);
	if (r < 0)
		return r;
	if (unlink(permit) < 0 && errno != ENOENT)
		return -errno;
	size_t length = is_first ? 0 : read_lines(path, lines);
	memcpy(lines + length, token, TOKEN_TEXT - 1);
	lines[length + TOKEN_TEXT - 1] = '\n';
	r = write_lines(path, lines, length + LINE);
	if (r == 0)
		memcpy(ret_token, token, TOKEN_TEXT);
	return r;
}

int token_permit(const char *directory, const char *vgpu, uint64_t until)
{
	char path[PATH_MAX], line[32];

	int r = make_path(directory, vgpu, ".start", path);
	if (r < 0)
		return r;
	snprintf(line, sizeof line, "%" PRIu64 "\n", until);
	return write_lines(path, line, strlen(line));
}
