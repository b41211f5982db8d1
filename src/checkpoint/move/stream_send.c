#include "base/descriptor.h"
#include "base/status.h"
#include "checkpoint/image/directory.h"
#include "checkpoint/image/files.h"
#include "checkpoint/image/inspect.h"
#include "checkpoint/move/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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
		// The last frame is empty, which ends the text.
		status = frame_write(frames, FRAME_DESCRIPTION, piece, (size_t)count, NULL, 0);
	} while (status == VG_OK && count > 0);
	return status;
}

// Returns the number of the pack that is the same file as `fd`, or -1.
static ssize_t find_pack(const struct packs *packs, int fd)
{
	struct stat file, sent;

	if (!packs || fstat(fd, &file) < 0)
		return -1;
	for (size_t i = 0; i < packs->count; i++)
		if (packs->fds[i] >= 0 && fstat(packs->fds[i], &sent) == 0 && sent.st_ino == file.st_ino &&
		    sent.st_dev == file.st_dev)
			return (ssize_t)i;
	return -1;
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

// Sends the contents of the file, without its holes.
static enum vg_status send_contents(struct frames *frames, const char *dir, const char *name, int fd, void *piece)
{
	enum vg_status status = VG_OK;

	for (off_t at = 0, end; status == VG_OK; at = end) {
		at = lseek(fd, at, SEEK_DATA);
		end = at < 0 ? -1 : lseek(fd, at, SEEK_HOLE);
		if (at < 0 && errno == ENXIO)
			return VG_OK;
		if (end < 0)
			return stream_failed(frames, errno, dir, name);
		status = send_extent(frames, dir, name, fd, at, end, piece);
	}
	return status;
}

static enum vg_status send_file(struct frames *frames, const struct image_dir *dir, const struct image_file *file,
				void *piece)
{
	_cleanup_close_ int fd = image_open_file(dir->fd, file->name);

	if (fd < 0)
		return stream_failed(frames, -fd, dir->path, file->name);
	ssize_t pack = file->is_pack ? find_pack(frames->packs, fd) : -1;
	uint32_t number = (uint32_t)pack;
	if (pack >= 0) {
		if (frames->phase)
			frames->phase->bytes += file->bytes;
		return frame_write(frames, FRAME_LINK, &number, sizeof number, file->name, strlen(file->name));
	}
	enum vg_status status = frame_write(frames, FRAME_FILE, file->name, strlen(file->name), NULL, 0);
	return status ? status : send_contents(frames, dir->path, file->name, fd, piece);
}

static enum vg_status add_pack(struct frames *frames, struct packs *packs, int consume_fd)
{
	int *grown = realloc(packs->fds, (packs->count + 1) * sizeof *grown);

	if (!grown) {
		close(consume_fd);
		return stream_failed(frames, ENOMEM, "packs", "");
	}
	packs->fds = grown;
	grown[packs->count++] = consume_fd;
	return VG_OK;
}

enum vg_status stream_send_pack(struct frames *frames, struct packs *packs, int consume_fd, uint32_t *ret_number,
				uint64_t *ret_bytes)
{
	ssize_t known = find_pack(packs, consume_fd);
	uint32_t number = (uint32_t)(known < 0 ? (ssize_t)packs->count : known);
	struct stat info;

	*ret_number = number;
	*ret_bytes = 0;
	if (known >= 0) {
		close(consume_fd);
		return VG_OK;
	}
	enum vg_status status = add_pack(frames, packs, consume_fd);
	void *piece = status ? NULL : malloc(PIECE);
	if (status)
		goto finish;
	if (!piece || fstat(consume_fd, &info) < 0)
		status = stream_failed(frames, piece ? errno : ENOMEM, "a pack", "");
	if (status)
		goto finish;
	status = frame_write(frames, FRAME_PACK, &number, sizeof number, NULL, 0);
	if (status)
		goto finish;
	status = send_contents(frames, "a pack", "", consume_fd, piece);
	// The receiver learns the size of a pack by its last byte, so send this one even from a hole.
	if (status == VG_OK && info.st_size > 0 && lseek(consume_fd, info.st_size - 1, SEEK_DATA) < 0)
		status = send_extent(frames, "a pack", "", consume_fd, info.st_size - 1, info.st_size, piece);
finish:
	free(piece);
	if (status == VG_OK)
		*ret_bytes = (uint64_t)info.st_size;
	return status;
}

enum vg_status stream_send_index(struct frames *frames, const void *index, size_t length)
{
	enum vg_status status = VG_OK;

	for (size_t at = 0; at < length && status == VG_OK; at += PIECE)
		status = frame_write(frames, FRAME_INDEX, (const char *)index + at,
				     length - at < PIECE ? length - at : PIECE, NULL, 0);
	return status ? status : frame_write(frames, FRAME_INDEX, NULL, 0, NULL, 0);
}

enum vg_status stream_end_packs(struct frames *frames)
{
	return frame_write(frames, FRAME_PACKED, NULL, 0, NULL, 0);
}

enum vg_status packs_close_unused(struct packs *packs, const struct device_index *index)
{
	bool *is_used = calloc(packs->count + 1, sizeof *is_used);

	if (!is_used)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu packs", packs->count);
	for (size_t i = 0; i < index->block_count; i++)
		if (index->blocks[i].codec != DEVICE_ZERO)
			is_used[index->blocks[i].pack] = true;
	for (size_t i = 0; i < packs->count; i++)
		if (!is_used[i] && packs->fds[i] >= 0) {
			close(packs->fds[i]);
			packs->fds[i] = -1;
		}
	free(is_used);
	return VG_OK;
}

void packs_finish(struct packs *packs)
{
	for (size_t i = 0; i < packs->count && packs->fds; i++)
		if (packs->fds[i] >= 0)
			close(packs->fds[i]);
	free(packs->fds);
	free(packs->is_checked);
	free(packs->is_trusted);
	*packs = (struct packs){0};
}

enum vg_status stream_send(struct frames *frames, const struct image_dir *dir, bool begun)
{
	struct image_files files = {0};
	json_t *description = NULL;

	enum vg_status status = inspect_read(dir, &description, &files);
	if (status)
		return status;
	void *piece = malloc(PIECE);
	if (!piece)
		status = stream_failed(frames, ENOMEM, dir->path, "");
	if (frames->phase) {
		frames->phase->bytes = 0;
		frames->phase->total = files.stored;
	}
	if (status)
		goto finish;
	if (!begun)
		status = stream_begin(frames, false, false);
	if (status)
		goto finish;
	status = send_description(frames, dir, piece);
	for (size_t i = 0; i < files.count && status == VG_OK; i++)
		status = send_file(frames, dir, &files.files[i], piece);
	uint64_t count = files.count;
	if (status)
		goto finish;
	status = frame_write(frames, FRAME_END, &count, sizeof count, NULL, 0);
finish:
	free(piece);
	image_files_free(&files);
	json_decref(description);
	return status;
}
