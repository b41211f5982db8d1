#include "base/descriptor.h"
#include "base/status.h"
#include "checkpoint/image_files.h"
#include "checkpoint/image_folder.h"
#include "checkpoint/inspect.h"
#include "checkpoint/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 1 << 20 };

static enum vg_status send_description(struct frames *frames, const struct image_dir *dir, void *piece)
{
	enum vg_status status = VG_OK;
	ssize_t count;

	_cleanup_close_ int fd = image_open_file(dir->fd, IMAGE_DESCRIPTION);
	if (fd < 0)
		return stream_failed(frames, -fd, dir->path, IMAGE_DESCRIPTION);
	do {
		count = vg_read_all(fd, piece, PIECE, -1);
		if (count < 0)
			return stream_failed(frames, (int)-count, dir->path, IMAGE_DESCRIPTION);
		// The last one is empty.
		status = frame_write(frames, FRAME_DESCRIPTION, piece, (size_t)count, NULL, 0);
	} while (status == VG_OK && count > 0);
	return status;
}

static enum vg_status send_extent(struct frames *frames, const char *dir, const char *name, int fd, off_t from,
				  off_t to, void *piece)
{
	while (from < to) {
		size_t wanted = to - from < PIECE ? (size_t)(to - from) : PIECE;
		uint64_t offset = (uint64_t)from;
		ssize_t count = vg_read_all(fd, piece, wanted, from);
		if (count <= 0)
			return stream_failed(frames, count < 0 ? (int)-count : EIO, dir, name);
		enum vg_status status = frame_write(frames, FRAME_DATA, &offset, sizeof offset, piece, (size_t)count);
		if (status)
			return status;
		if (frames->phase)
			frames->phase->bytes += (uint64_t)count;
		from += count;
	}
	return VG_OK;
}

static enum vg_status send_file(struct frames *frames, const struct image_dir *dir, const struct image_file *file,
				void *piece)
{
	_cleanup_close_ int fd = image_open_file(dir->fd, file->name);
	enum vg_status status = VG_OK;

	if (fd < 0)
		return stream_failed(frames, -fd, dir->path, file->name);
	status = frame_write(frames, FRAME_FILE, file->name, strlen(file->name), NULL, 0);
	for (off_t at = 0, end; status == VG_OK; at = end) {
		at = lseek(fd, at, SEEK_DATA);
		end = at < 0 ? -1 : lseek(fd, at, SEEK_HOLE);
		if (at < 0 && errno == ENXIO)
			return VG_OK;
		if (end < 0)
			return stream_failed(frames, errno, dir->path, file->name);
		status = send_extent(frames, dir->path, file->name, fd, at, end, piece);
	}
	return status;
}

enum vg_status stream_send(struct frames *frames, const struct image_dir *dir, bool begun)
{
	struct image_files files = {0};
	json_t *description = NULL;

	enum vg_status status = inspect_read(dir, frames->function, &description, &files);
	if (status)
		return status;
	void *piece = malloc(PIECE);
	if (!piece)
		status = stream_failed(frames, ENOMEM, dir->path, "");
	if (frames->phase)
		frames->phase->total = files.stored;
	if (status == VG_OK && !begun)
		status = stream_begin(frames, false);
	if (status == VG_OK)
		status = send_description(frames, dir, piece);
	for (size_t i = 0; i < files.count && status == VG_OK; i++)
		status = send_file(frames, dir, &files.files[i], piece);
	uint64_t count = files.count;
	if (status == VG_OK)
		status = frame_write(frames, FRAME_END, &count, sizeof count, NULL, 0);
	free(piece);
	image_files_free(&files);
	json_decref(description);
	return status;
}
