#define XXH_INLINE_ALL
#include <xxhash.h>

#include "checkpoint/image.h"

#include "base/descriptor.h"
#include "base/status.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 20 };

static enum vg_status failed(int error, const char *path, const char *name, const char *function)
{
	return vg_fail(VG_SYSTEM, error, function, "%s%s%s: %s", path, *name ? "/" : "", name, strerror(error));
}

static enum vg_status absolute(const char *path, const char *function, char ret_path[PATH_MAX])
{
	char here[PATH_MAX] = "";

	if (!*path)
		return vg_fail(VG_INVALID, 0, function, "\"\" is no folder's name");
	if (*path != '/' && !getcwd(here, sizeof here))
		return failed(errno, ".", "", function);
	int length = snprintf(ret_path, PATH_MAX, "%s%s%s", here, *path == '/' ? "" : "/", path);
	while (length > 1 && length < PATH_MAX && ret_path[length - 1] == '/')
		ret_path[--length] = '\0';
	// The temporary name is longer.
	if (length >= PATH_MAX - 32)
		return vg_fail(VG_INVALID, 0, function, "%.60s… is too long a path", path);
	return VG_OK;
}

static enum vg_status exists(const char *path, const char *function)
{
	return vg_fail(VG_EXISTS, 0, function, "there is something at %s: name another folder", path);
}

enum vg_status image_begin(const char *path, const char *function, struct image_draft *ret_draft)
{
	enum vg_status status = absolute(path, function, ret_draft->final);
	struct stat info;

	if (status)
		return status;
	if (lstat(ret_draft->final, &info) == 0)
		return exists(ret_draft->final, function);
	snprintf(ret_draft->folder, PATH_MAX, "%.*s.part-XXXXXX", PATH_MAX - 32, ret_draft->final);
	if (!mkdtemp(ret_draft->folder))
		return failed(errno, ret_draft->folder, "", function);
	return VG_OK;
}

// What the file holds, in sixteen hexadecimal digits; its mode becomes 0600, and it lies on the disk where asked.
static int sum(int folder, const char *name, bool settle, uint64_t *ret_bytes, char ret_sum[17])
{
	XXH3_state_t *state = XXH3_createState();
	char *buffer = malloc(READ_BYTES);
	ssize_t length = 0;

	_cleanup_close_ int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	int r = fd < 0 ? -errno : !state || !buffer ? -ENOMEM : 0;
	*ret_bytes = 0;
	if (r == 0)
		XXH3_64bits_reset(state);
	while (r == 0 && (length = read(fd, buffer, READ_BYTES)) > 0) {
		XXH3_64bits_update(state, buffer, (size_t)length);
		*ret_bytes += (uint64_t)length;
	}
	if (r == 0 && length < 0)
		r = -errno;
	if (r == 0)
		snprintf(ret_sum, 17, "%016llx", (unsigned long long)XXH3_64bits_digest(state));
	if (r == 0 && settle && (fchmod(fd, 0600) < 0 || fsync(fd) < 0))
		r = -errno;
	free(buffer);
	XXH3_freeState(state);
	return r;
}

static int is_file(const struct dirent *entry)
{
	return entry->d_name[0] != '.' && strcmp(entry->d_name, IMAGE_DESCRIPTION) != 0;
}

// Calls for every file but the description, by name. -errno, or what `each` returns.
static int for_files(const char *path, int (*each)(int folder, const char *name, void *user), void *user)
{
	struct dirent **entries;
	_cleanup_close_ int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int count = folder < 0 ? -1 : scandir(path, &entries, is_file, alphasort), r = count < 0 ? -errno : 0;

	for (int i = 0; i < count; i++) {
		if (r == 0)
			r = each(folder, entries[i]->d_name, user);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	return r;
}

struct gathering {
	json_t *files;
	uint64_t bytes;
	char name[NAME_MAX + 1]; // where it failed
};

static int gather(int folder, const char *name, void *user)
{
	struct gathering *gathering = user;
	uint64_t bytes;
	char text[17];

	snprintf(gathering->name, sizeof gathering->name, "%s", name);
	int r = sum(folder, name, true, &bytes, text);
	if (r)
		return r;
	gathering->bytes += bytes;
	return json_array_append_new(gathering->files, json_pack("{s:s, s:I, s:s}", "name", name, "bytes",
								 (json_int_t)bytes, "xxh3", text))
		       ? -ENOMEM
		       : 0;
}

static int settle(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

static int write_description(const struct image_draft *draft, json_t *description)
{
	char path[PATH_MAX + 32];

	snprintf(path, sizeof path, "%s/" IMAGE_DESCRIPTION, draft->folder);
	char *text = json_dumps(description, JSON_INDENT(2));
	int r = text ? vg_file_write_atomic(path, text, strlen(text), 0600) : -ENOMEM;
	free(text);
	return r ? r : settle(draft->folder);
}

enum vg_status image_commit(const struct image_draft *draft, json_t *description, const char *function,
			    uint64_t *ret_bytes)
{
	struct gathering gathering = {.files = json_array()};
	char parent[PATH_MAX];

	int r = gathering.files ? for_files(draft->folder, gather, &gathering) : -ENOMEM;
	json_object_set_new(description, "files", gathering.files);
	if (r)
		return failed(-r, draft->folder, gathering.name, function);
	r = write_description(draft, description);
	if (r)
		return failed(-r, draft->folder, IMAGE_DESCRIPTION, function);
	if (renameat2(AT_FDCWD, draft->folder, AT_FDCWD, draft->final, RENAME_NOREPLACE) < 0)
		return errno == EEXIST ? exists(draft->final, function) : failed(errno, draft->final, "", function);
	snprintf(parent, sizeof parent, "%s", draft->final);
	*(strrchr(parent, '/') + (strrchr(parent, '/') == parent)) = '\0';
	r = settle(parent);
	*ret_bytes = gathering.bytes;
	return r ? failed(-r, parent, "", function) : VG_OK;
}

static int remove_file(int folder, const char *name, void *user)
{
	(void)user;
	return unlinkat(folder, name, 0) < 0 ? -errno : 0;
}

void image_abandon(const struct image_draft *draft)
{
	char path[PATH_MAX + 32];

	for_files(draft->folder, remove_file, NULL);
	snprintf(path, sizeof path, "%s/" IMAGE_DESCRIPTION, draft->folder);
	unlink(path);
	rmdir(draft->folder);
}

enum vg_status image_read(const char *path, const char *function, json_t **ret_description)
{
	char name[PATH_MAX + 32];
	json_error_t error;
	int version = 0;

	snprintf(name, sizeof name, "%s/" IMAGE_DESCRIPTION, path);
	if (access(name, F_OK) < 0)
		return vg_fail(VG_NOT_FOUND, errno, function, "%s is no image: %s: %s", path, name, strerror(errno));
	json_t *description = json_load_file(name, JSON_REJECT_DUPLICATES, &error);
	if (!description)
		return vg_fail(VG_INTEGRITY, 0, function, "%s, line %d: %s", name, error.line, error.text);
	if (json_unpack(description, "{s:i}", "version", &version) || version < 1) {
		json_decref(description);
		return vg_fail(VG_INTEGRITY, 0, function, "%s says no version", name);
	}
	if (version > IMAGE_VERSION) {
		json_decref(description);
		return vg_fail(VG_UNSUPPORTED, 0, function, "%s is of version %d, and this Virgate reads up to %d", path,
			       version, IMAGE_VERSION);
	}
	*ret_description = description;
	return VG_OK;
}

struct verification {
	const json_t *files;
	const char *path, *function;
	size_t seen;
	enum vg_status status;
};

static const json_t *file_named(const json_t *files, const char *name)
{
	size_t i;
	json_t *file;

	json_array_foreach((json_t *)files, i, file) {
		const char *text = json_string_value(json_object_get(file, "name"));
		if (text && strcmp(text, name) == 0)
			return file;
	}
	return NULL;
}

static int verify(int folder, const char *name, void *user)
{
	struct verification *v = user;
	const char *wanted_sum = NULL;
	json_int_t wanted = -1;
	uint64_t bytes;
	char text[17];

	const json_t *file = file_named(v->files, name);
	if (!file || json_unpack((json_t *)file, "{s:I, s:s}", "bytes", &wanted, "xxh3", &wanted_sum)) {
		// CRIU leaves a log of each restore.
		if (!file && strlen(name) > 4 && strcmp(name + strlen(name) - 4, ".log") == 0)
			return 0;
		v->status = vg_fail(VG_INTEGRITY, 0, v->function, "%s: %s is not of this image", v->path, name);
		return 1;
	}
	int r = sum(folder, name, false, &bytes, text);
	if (r) {
		v->status = failed(-r, v->path, name, v->function);
	} else if (bytes != (uint64_t)wanted || strcmp(text, wanted_sum) != 0) {
		v->status = vg_fail(VG_INTEGRITY, 0, v->function,
				    "%s/%s is damaged: %llu bytes with checksum %s, not %lld with %s", v->path, name,
				    (unsigned long long)bytes, text, (long long)wanted, wanted_sum);
	}
	v->seen++;
	return v->status ? 1 : 0;
}

uint64_t image_bytes(const json_t *description)
{
	uint64_t sum = 0;
	json_t *file;
	size_t i;

	json_array_foreach(json_object_get(description, "files"), i, file)
		sum += (uint64_t)json_integer_value(json_object_get(file, "bytes"));
	return sum;
}

enum vg_status image_verify(const char *path, const json_t *description, const char *function)
{
	struct verification v = {
		.files = json_object_get(description, "files"), .path = path, .function = function};

	int r = for_files(path, verify, &v);
	if (r < 0)
		return failed(-r, path, "", function);
	if (v.status)
		return v.status;
	if (v.seen != json_array_size(v.files))
		return vg_fail(VG_INTEGRITY, 0, function, "%s lacks %zu of its %zu files", path,
			       json_array_size(v.files) - v.seen, json_array_size(v.files));
	return VG_OK;
}
