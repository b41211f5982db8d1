#include "base/descriptor.h"
#include "base/status.h"
#include "checkpoint/image.h"
#include "checkpoint/image_files.h"
#include "checkpoint/image_folder.h"
#include "checkpoint/sum.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

struct verification {
	const struct image_files *files;
	const char *path, *function;
	_Atomic uint64_t *progress;
	size_t seen;
	enum vg_status status;
};

static enum vg_status verify_plain(struct verification *v, int fd, const struct image_file *file)
{
	char wanted[IMAGE_SUM_TEXT], found[IMAGE_SUM_TEXT];
	uint64_t bytes, sum;

	int r = sum_file(fd, &bytes, &sum);
	if (r)
		return vg_fail(VG_SYSTEM, -r, v->function, "%s/%s: %s", v->path, file->name, strerror(-r));
	image_sum_format(file->sum, wanted);
	image_sum_format(sum, found);
	if (bytes != file->bytes || sum != file->sum)
		return vg_fail(VG_INTEGRITY, 0, v->function, "%s/%s is damaged: %llu bytes with checksum %s, not %llu with %s",
			       v->path, file->name, (unsigned long long)bytes, found, (unsigned long long)file->bytes,
			       wanted);
	if (v->progress)
		*v->progress += bytes;
	return VG_OK;
}

static int verify(int folder, const char *name, void *user)
{
	struct verification *v = user;
	struct stat info;

	const struct image_file *file = image_files_find(v->files, name);
	_cleanup_close_ int fd = file ? openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
	if (!file || (fd < 0 && errno == ELOOP) || (fd >= 0 && fstat(fd, &info) == 0 && !S_ISREG(info.st_mode)))
		v->status = vg_fail(VG_INTEGRITY, 0, v->function, "%s: %s is not of this image", v->path, name);
	else if (fd < 0)
		v->status = vg_fail(VG_SYSTEM, errno, v->function, "%s/%s: %s", v->path, name, strerror(errno));
	else
		v->status = verify_plain(v, fd, file);
	v->seen++;
	return v->status ? 1 : 0;
}

enum vg_status image_verify(const char *path, const json_t *description, _Atomic uint64_t *progress,
			    const char *function, struct image_sizes *ret_sizes)
{
	struct image_files files;
	char name[IMAGE_NAME];

	enum vg_status status = image_files_read(description, path, function, &files);
	if (status)
		return status;
	struct verification v = {.files = &files, .path = path, .function = function, .progress = progress};
	int r = image_for_files(path, verify, &v, name);
	if (r < 0)
		v.status = vg_fail(VG_SYSTEM, -r, function, "%s/%s: %s", path, name, strerror(-r));
	else if (!v.status && v.seen != files.count)
		v.status = vg_fail(VG_INTEGRITY, 0, function, "%s lacks %zu of its %zu files", path, files.count - v.seen,
				   files.count);
	if (ret_sizes)
		*ret_sizes = (struct image_sizes){.raw = files.raw, .stored = files.stored};
	image_files_free(&files);
	return v.status;
}
