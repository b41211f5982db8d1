#include "base/descriptor.h"
#include "base/size.h"
#include "base/status.h"
#include "checkpoint/image_files.h"
#include "checkpoint/image_folder.h"
#include "checkpoint/image_text.h"
#include "checkpoint/inspect.h"
#include "checkpoint/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct receiver {
	struct frames *frames;
	struct image_draft *draft;
	struct image_files files;
	char *text; // of the description
	size_t length;
	int folder; // the draft's
	int fd;	    // the file that comes in; -1: none does
	const struct image_file *file;
	uint64_t at; // what comes next lies behind this
	uint64_t count;
};

static enum vg_status unexpected(const struct receiver *receiver, const char *what)
{
	return vg_fail(VG_INTEGRITY, 0, receiver->frames->function, "frame %llu of the image's stream is %s",
		       (unsigned long long)receiver->frames->read - 1, what);
}

static enum vg_status receive_text(struct receiver *receiver)
{
	struct frames *frames = receiver->frames;
	enum frame_type type;

	for (;;) {
		enum vg_status status = frame_read(frames, &type);
		if (status)
			return status;
		if (type != FRAME_DESCRIPTION)
			return unexpected(receiver, "no description");
		if (frames->payload_bytes == 0)
			return VG_OK;
		if (receiver->length + frames->payload_bytes > IMAGE_MOST_TEXT)
			return unexpected(receiver, "too much of a description");
		char *grown = realloc(receiver->text, receiver->length + frames->payload_bytes + 1);
		if (!grown)
			return vg_fail(VG_NO_MEMORY, 0, frames->function, "no memory for the image's description");
		receiver->text = grown;
		memcpy(grown + receiver->length, frames->payload, frames->payload_bytes);
		receiver->length += frames->payload_bytes;
		grown[receiver->length] = '\0';
	}
}

static enum vg_status check_room(const struct receiver *receiver)
{
	struct statvfs disk;
	char text[2][VG_SIZE_TEXT];

	if (fstatvfs(receiver->folder, &disk) < 0)
		return VG_OK;
	uint64_t need = receiver->files.stored, have = (uint64_t)disk.f_bavail * disk.f_frsize;
	if (need <= have)
		return VG_OK;
	enum vg_status status =
		vg_fail(VG_INSUFFICIENT, 0, receiver->frames->function,
			"the image takes %s, and the disk of %s has %s free: name another directory with --dir",
			vg_size_format(need, text[0]), receiver->draft->folder, vg_size_format(have, text[1]));
	vg_fail_amounts(need, have);
	return status;
}

// The file that came in last has come in whole.
static enum vg_status end_file(struct receiver *receiver)
{
	int r = 0;

	if (receiver->fd >= 0 && ftruncate(receiver->fd, (off_t)receiver->file->bytes) < 0)
		r = errno;
	if (receiver->fd >= 0)
		close(receiver->fd);
	receiver->fd = -1;
	return r ? stream_failed(receiver->frames, r, receiver->draft->folder, receiver->file->name) : VG_OK;
}

static enum vg_status begin_file(struct receiver *receiver)
{
	const struct frames *frames = receiver->frames;
	char name[IMAGE_NAME];
	unsigned tree;

	enum vg_status status = end_file(receiver);
	if (status)
		return status;
	if (frames->payload_bytes >= sizeof name || memchr(frames->payload, '\0', frames->payload_bytes))
		return unexpected(receiver, "no name of a file");
	memcpy(name, frames->payload, frames->payload_bytes);
	name[frames->payload_bytes] = '\0';
	receiver->file = image_files_find(&receiver->files, name);
	// One folder, and none that leads elsewhere.
	if (!receiver->file || !image_name_is_sound(name, &tree))
		return unexpected(receiver, "the name of a file that the image does not have");
	if (tree >= receiver->draft->trees)
		receiver->draft->trees = tree + 1;
	*strchr(name, '/') = '\0';
	if (mkdirat(receiver->folder, name, 0700) < 0 && errno != EEXIST)
		return stream_failed(frames, errno, receiver->draft->folder, name);
	receiver->fd = openat(receiver->folder, receiver->file->name,
			      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (receiver->fd < 0)
		return errno == EEXIST ? unexpected(receiver, "the name of a file that came before")
				       : stream_failed(frames, errno, receiver->draft->folder, receiver->file->name);
	receiver->at = 0;
	receiver->count++;
	return VG_OK;
}

static enum vg_status take_data(struct receiver *receiver)
{
	const struct frames *frames = receiver->frames;
	uint64_t offset, bytes = frames->payload_bytes - sizeof offset;

	if (frames->payload_bytes <= sizeof offset || receiver->fd < 0)
		return unexpected(receiver, "data of no file");
	memcpy(&offset, frames->payload, sizeof offset);
	if (offset < receiver->at || bytes > receiver->file->bytes || offset > receiver->file->bytes - bytes)
		return unexpected(receiver, "data where the file has none");
	int r = vg_write_all(receiver->fd, frames->payload + sizeof offset, bytes, (off_t)offset);
	if (r)
		return stream_failed(frames, -r, receiver->draft->folder, receiver->file->name);
	receiver->at = offset + bytes;
	if (frames->phase)
		frames->phase->bytes += bytes;
	return VG_OK;
}

static enum vg_status check_end(struct receiver *receiver)
{
	const struct frames *frames = receiver->frames;
	uint64_t count;

	if (frames->payload_bytes != sizeof count)
		return unexpected(receiver, "no end");
	memcpy(&count, frames->payload, sizeof count);
	if (count != receiver->count || count != receiver->files.count)
		return vg_fail(VG_INTEGRITY, 0, frames->function, "%llu files came in, and the image has %zu",
			       (unsigned long long)receiver->count, receiver->files.count);
	return end_file(receiver);
}

static enum vg_status receive_files(struct receiver *receiver)
{
	enum vg_status status = VG_OK;
	enum frame_type type = FRAME_DESCRIPTION;

	while (status == VG_OK && type != FRAME_END) {
		status = frame_read(receiver->frames, &type);
		if (status)
			break;
		switch (type) {
		case FRAME_FILE:
			status = begin_file(receiver);
			break;
		case FRAME_DATA:
			status = take_data(receiver);
			break;
		case FRAME_END:
			status = check_end(receiver);
			break;
		default:
			status = unexpected(receiver, "of a kind that does not belong there");
		}
	}
	return status;
}

static enum vg_status write_text(const struct receiver *receiver)
{
	int r = image_text_write(receiver->folder, receiver->text, receiver->length);

	return r ? stream_failed(receiver->frames, -r, receiver->draft->folder, IMAGE_DESCRIPTION) : VG_OK;
}

enum vg_status stream_receive(struct frames *frames, struct image_draft *draft, json_t **ret_description)
{
	struct receiver receiver = {.frames = frames, .draft = draft, .folder = draft->lock, .fd = -1};
	const struct image_dir dir = image_draft_dir(draft);
	json_t *description = NULL;

	enum vg_status status = receive_text(&receiver);
	if (status == VG_OK)
		status = inspect_parse(receiver.text ? receiver.text : "", receiver.length,
				       "the description that came in", frames->function, &description, &receiver.files);
	if (status == VG_OK)
		status = check_room(&receiver);
	if (status == VG_OK && frames->phase)
		frames->phase->total = receiver.files.stored;
	if (status == VG_OK)
		status = receive_files(&receiver);
	if (status == VG_OK && frames->phase)
		status = phase_begin(frames->phase, VG_CHECKPOINT_VERIFY, frames->function);
	if (status == VG_OK)
		status = image_verify(&dir, description, 0, frames->phase, frames->function, NULL);
	if (status == VG_OK)
		status = write_text(&receiver);
	if (receiver.fd >= 0)
		close(receiver.fd);
	image_files_free(&receiver.files);
	free(receiver.text);
	if (status)
		json_decref(description);
	else
		*ret_description = description;
	return status;
}
