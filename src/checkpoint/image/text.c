// Reads and writes virgate.json. The first key of the file is the checksum of everything that follows the key's line.
#include "checkpoint/image/image.h"

#include "base/descriptor.h"
#include "base/status.h"
#include "checkpoint/data/sum.h"
#include "checkpoint/image/directory.h"
#include "checkpoint/image/files.h"
#include "checkpoint/image/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD "{\n  \"xxh3\": \""
#define TAIL "\",\n"
enum { HEAD_BYTES = sizeof HEAD - 1, SEALED_FROM = HEAD_BYTES + 16 + sizeof TAIL - 1 };

char *image_text_seal(const json_t *description)
{
	char *text = json_dumps(description, JSON_INDENT(2)), *sealed = NULL, sum[IMAGE_SUM_TEXT];

	// Leave out the first two bytes of the text, "{\n", because HEAD begins with them.
	if (!text || strlen(text) < 4 || asprintf(&sealed, HEAD "%016x" TAIL "%s", 0, text + 2) < 0)
		sealed = NULL;
	free(text);
	if (!sealed)
		return NULL;
	image_sum_format(sum_bytes(sealed + SEALED_FROM, strlen(sealed + SEALED_FROM)), sum);
	memcpy(sealed + HEAD_BYTES, sum, 16);
	return sealed;
}

static bool is_sealed(const char *text, size_t length)
{
	char sum[IMAGE_SUM_TEXT];

	if (length < SEALED_FROM || memcmp(text, HEAD, HEAD_BYTES) != 0 ||
	    memcmp(text + HEAD_BYTES + 16, TAIL, sizeof TAIL - 1) != 0)
		return false;
	image_sum_format(sum_bytes(text + SEALED_FROM, length - SEALED_FROM), sum);
	return memcmp(text + HEAD_BYTES, sum, 16) == 0;
}

// Finds the format version without parsing the text, because a later version may have another checksum line. Returns 0
// if there is no version.
static int64_t find_version(const char *text, size_t length)
{
	static const char key[] = "\"version\": ";
	const char *end = text + (length < 256 ? length : 256),
		   *at = memmem(text, (size_t)(end - text), key, strlen(key));
	int64_t version = 0;

	for (at = at ? at + strlen(key) : end; at < end && *at >= '0' && *at <= '9'; at++)
		version = version > INT64_MAX / 10 - 1 ? INT64_MAX : version * 10 + (*at - '0');
	return version;
}

// Returns whether the text has too many JSON values. Estimates their number by counting separators, before the parser
// allocates memory for each value.
static bool has_too_many_values(const char *text, size_t length)
{
	bool is_quoted = false;
	size_t values = 0;

	for (size_t i = 0; i < length; i++) {
		if (text[i] == '"')
			is_quoted = !is_quoted;
		else if (is_quoted)
			i += text[i] == '\\';
		else
			values += text[i] == ',' || text[i] == '[' || text[i] == '{';
	}
	return values > IMAGE_MOST_VALUES;
}

static enum vg_status later_version(int64_t version, const char *name)
{
	return vg_fail(VG_UNSUPPORTED, 0, "%s is of version %lld, and this Virgate reads up to %d: use a later Virgate",
		       name, (long long)version, IMAGE_VERSION);
}

// Parses a description. Compares the checksum first, so that a damaged text costs no memory.
enum vg_status image_parse(const char *text, size_t length, const char *name, json_t **ret_description)
{
	json_error_t error;
	json_int_t version = 0;

	if (!is_sealed(text, length)) {
		version = find_version(text, length);
		return version > IMAGE_VERSION
			       ? later_version(version, name)
			       : vg_fail(VG_INTEGRITY, 0,
					 "%s is damaged: its first line has another checksum than the rest of it",
					 name);
	}
	if (has_too_many_values(text, length))
		return vg_fail(VG_INTEGRITY, 0, "%s has more than the %d values that an image has at most", name,
			       IMAGE_MOST_VALUES);
	json_t *description = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
	if (!description)
		return vg_fail(VG_INTEGRITY, 0, "%s is damaged: line %d: %s", name, error.line, error.text);
	json_unpack(description, "{s:I}", "version", &version);
	if (version >= 1 && version <= IMAGE_VERSION) {
		*ret_description = description;
		return VG_OK;
	}
	json_decref(description);
	return version > IMAGE_VERSION ? later_version(version, name)
				       : vg_fail(VG_INTEGRITY, 0, "%s names no version", name);
}

// Reads the whole file virgate.json, at most IMAGE_MOST_TEXT bytes. Returns 0 or -errno.
static int read_whole(int directory, char **ret_text, size_t *ret_length)
{
	struct stat info;
	_cleanup_close_ int fd = image_open_file(directory, IMAGE_DESCRIPTION);

	if (fd < 0)
		return fd;
	if (fstat(fd, &info) < 0)
		return -errno;
	if (info.st_size > IMAGE_MOST_TEXT)
		return -EFBIG;
	char *text = malloc((size_t)info.st_size + 1);
	if (!text)
		return -ENOMEM;
	ssize_t length = vg_read_all(fd, text, (size_t)info.st_size, 0);
	if (length < 0) {
		free(text);
		return (int)length;
	}
	*ret_text = text;
	*ret_length = (size_t)length;
	return 0;
}

enum vg_status image_read(const struct image_dir *dir, json_t **ret_description)
{
	char name[PATH_MAX + 32], *text = NULL;
	size_t length = 0;

	snprintf(name, sizeof name, "%s/" IMAGE_DESCRIPTION, dir->path);
	int r = read_whole(dir->fd, &text, &length);
	if (r == -ENOENT || r == -ENOTDIR)
		return vg_fail(VG_NOT_FOUND, -r, "%s is no image: %s: %s", dir->path, name, strerror(-r));
	if (r == -EFBIG)
		return vg_fail(VG_INTEGRITY, -r, "%s is larger than the %d MiB that it has at most in an image", name,
			       IMAGE_MOST_TEXT >> 20);
	if (r)
		return vg_fail(r == -EINVAL || r == -ELOOP ? VG_INTEGRITY : VG_SYSTEM, -r, "%s: %s", name,
			       r == -EINVAL || r == -ELOOP ? "it is no file" : strerror(-r));
	enum vg_status status = image_parse(text, length, name, ret_description);
	free(text);
	return status;
}

int image_text_write(int directory, const char *text, size_t length)
{
	_cleanup_close_ int fd =
		openat(directory, IMAGE_DESCRIPTION, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : vg_write_all(fd, text, length, -1);

	return r == 0 && fsync(fd) < 0 ? -errno : r;
}
