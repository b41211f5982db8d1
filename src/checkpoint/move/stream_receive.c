#include "base/descriptor.h"
#include "base/size.h"
#include "base/status.h"
#include "checkpoint/image/device_index.h"
#include "checkpoint/image/directory.h"
#include "checkpoint/image/files.h"
#include "checkpoint/image/inspect.h"
#include "checkpoint/image/text.h"
#include "checkpoint/move/stream.h"
#include "checkpoint/move/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { MOST_INDEX = 256 << 20, RESERVE_PART = 20 };
static const uint64_t most_reserve = 1 << 30;

struct receiver {
	struct frames *frames;
	struct image_draft *draft;
	struct image_files files;
	char *text; // text of the description
	size_t length;
	int directory; // the draft's directory
	int fd;	       // descriptor of the file that is being received; -1: none
	const struct image_file *file;
	uint64_t at; // end of the data received for the file; the next data must not begin before this offset
	uint64_t count;
};

static enum vg_status fail_frame(const struct receiver *receiver, const char *what)
{
	return vg_fail(VG_INTEGRITY, 0, "frame %llu of the image's stream is %s",
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
			return fail_frame(receiver, "no description");
		if (frames->payload_bytes == 0)
			return VG_OK;
		if (receiver->length + frames->payload_bytes > IMAGE_MOST_TEXT)
			return fail_frame(receiver, "too much of a description");
		char *grown = realloc(receiver->text, receiver->length + frames->payload_bytes + 1);
		if (!grown)
			return vg_fail(VG_NO_MEMORY, 0, "no memory for the image's description");
		receiver->text = grown;
		memcpy(grown + receiver->length, frames->payload, frames->payload_bytes);
		receiver->length += frames->payload_bytes;
		grown[receiver->length] = '\0';
	}
}

static enum vg_status check_room(const struct receiver *receiver)
{
	const struct packs *packs = receiver->frames->packs;
	uint64_t need = receiver->files.stored, there = packs ? packs->bytes : 0;
	struct statvfs disk;
	char text[2][VG_SIZE_TEXT];

	if (fstatvfs(receiver->directory, &disk) < 0)
		return VG_OK;
	need = need > there ? need - there : 0;
	uint64_t have = (uint64_t)disk.f_bavail * disk.f_frsize;
	if (need <= have)
		return VG_OK;
	enum vg_status status =
		vg_fail(VG_INSUFFICIENT, 0,
			"the image takes %s, and the disk of %s has %s free: name another directory with --dir",
			vg_size_format(need, text[0]), receiver->draft->directory, vg_size_format(have, text[1]));
	vg_fail_amounts(need, have);
	return status;
}

// Sets the size of the file that was received last, and closes it.
static enum vg_status end_file(struct receiver *receiver)
{
	int r = 0;

	if (receiver->fd >= 0 && ftruncate(receiver->fd, (off_t)receiver->file->bytes) < 0)
		r = errno;
	if (receiver->fd >= 0)
		close(receiver->fd);
	receiver->fd = -1;
	return r ? stream_failed(receiver->frames, r, receiver->draft->directory, receiver->file->name) : VG_OK;
}

// Reads the name of the next file, and creates the directory that contains it.
static enum vg_status take_name(struct receiver *receiver, const unsigned char *text, size_t length)
{
	const struct frames *frames = receiver->frames;
	char name[IMAGE_NAME];
	unsigned tree;

	enum vg_status status = end_file(receiver);
	if (status)
		return status;
	if (length >= sizeof name || memchr(text, '\0', length))
		return fail_frame(receiver, "no name of a file");
	memcpy(name, text, length);
	name[length] = '\0';
	receiver->file = image_files_find(&receiver->files, name);
	// Reject a name outside the image, or more than one directory deep.
	if (!receiver->file || !image_name_is_sound(name, &tree))
		return fail_frame(receiver, "the name of a file that the image does not have");
	if (tree >= receiver->draft->trees)
		receiver->draft->trees = tree + 1;
	*strchr(name, '/') = '\0';
	if (mkdirat(receiver->directory, name, 0700) < 0 && errno != EEXIST)
		return stream_failed(frames, errno, receiver->draft->directory, name);
	receiver->at = 0;
	receiver->count++;
	return VG_OK;
}

static enum vg_status begin_file(struct receiver *receiver)
{
	const struct frames *frames = receiver->frames;
	enum vg_status status = take_name(receiver, frames->payload, frames->payload_bytes);

	if (status)
		return status;
	receiver->fd = openat(receiver->directory, receiver->file->name,
			      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (receiver->fd < 0)
		return errno == EEXIST ? fail_frame(receiver, "the name of a file that came before")
				       : stream_failed(frames, errno, receiver->draft->directory, receiver->file->name);
	return VG_OK;
}

// Links a pack that was received before the image under the name of a file of the image.
static enum vg_status link_file(struct receiver *receiver)
{
	const struct frames *frames = receiver->frames;
	struct packs *packs = frames->packs;
	uint32_t number;
	unsigned own;
	char name[32];
	struct stat info;

	if (!packs || frames->payload_bytes <= sizeof number)
		return fail_frame(receiver, "of a kind that does not belong there");
	memcpy(&number, frames->payload, sizeof number);
	enum vg_status status =
		take_name(receiver, frames->payload + sizeof number, frames->payload_bytes - sizeof number);
	if (status)
		return status;
	if (!receiver->file->is_pack || number >= packs->count ||
	    sscanf(receiver->file->name, DEVICE_PACK_FORMAT, &own) != 1 || own >= DEVICE_MOST_PACKS)
		return fail_frame(receiver, "the name of a file that is no pack, or the number of none");
	snprintf(name, sizeof name, DEVICE_PACK_FORMAT, number);
	if (linkat(packs->store->lock, name, receiver->directory, receiver->file->name, 0) < 0)
		return errno == EEXIST ? fail_frame(receiver, "the name of a file that came before")
		       : errno == ENOENT
			       ? fail_frame(receiver, "the number of a pack that is not used any more")
			       : stream_failed(frames, errno, receiver->draft->directory, receiver->file->name);
	if (fstatat(receiver->directory, receiver->file->name, &info, AT_SYMLINK_NOFOLLOW) < 0 ||
	    (uint64_t)info.st_size != receiver->file->bytes)
		return fail_frame(receiver, "the number of a pack that has another size");
	packs->is_trusted[own] = packs->is_checked[number];
	return VG_OK;
}

static enum vg_status take_data(struct receiver *receiver)
{
	const struct frames *frames = receiver->frames;
	uint64_t offset, bytes = frames->payload_bytes - sizeof offset;

	if (frames->payload_bytes <= sizeof offset || receiver->fd < 0)
		return fail_frame(receiver, "data of no file");
	memcpy(&offset, frames->payload, sizeof offset);
	if (offset < receiver->at || bytes > receiver->file->bytes || offset > receiver->file->bytes - bytes)
		return fail_frame(receiver, "data where the file has none");
	int r = vg_write_all(receiver->fd, frames->payload + sizeof offset, bytes, (off_t)offset);
	if (r)
		return stream_failed(frames, -r, receiver->draft->directory, receiver->file->name);
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
		return fail_frame(receiver, "no end");
	memcpy(&count, frames->payload, sizeof count);
	if (count != receiver->count || count != receiver->files.count)
		return vg_fail(VG_INTEGRITY, 0, "%llu files came in, and the image has %zu",
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
		case FRAME_LINK:
			status = link_file(receiver);
			break;
		case FRAME_END:
			status = check_end(receiver);
			break;
		default:
			status = fail_frame(receiver, "of a kind that does not belong there");
		}
	}
	return status;
}

static enum vg_status write_text(const struct receiver *receiver)
{
	int r = image_text_write(receiver->directory, receiver->text, receiver->length);

	return r ? stream_failed(receiver->frames, -r, receiver->draft->directory, IMAGE_DESCRIPTION) : VG_OK;
}

enum vg_status stream_receive(struct frames *frames, struct image_draft *draft, json_t **ret_description)
{
	struct receiver receiver = {.frames = frames, .draft = draft, .directory = draft->lock, .fd = -1};
	const struct image_dir dir = image_draft_dir(draft);
	json_t *description = NULL;

	enum vg_status status = receive_text(&receiver);
	if (status)
		goto finish;
	status = inspect_parse(receiver.text ? receiver.text : "", receiver.length, "the description that came in",
			       &description, &receiver.files);
	if (status)
		goto finish;
	status = check_room(&receiver);
	if (status)
		goto finish;
	if (frames->phase)
		frames->phase->total = receiver.files.stored;
	if (status)
		goto finish;
	status = receive_files(&receiver);
	if (status)
		goto finish;
	if (frames->phase)
		status = phase_begin(frames->phase, VG_CHECKPOINT_VERIFY);
	if (status)
		goto finish;
	status = image_verify_arrival(&dir, description, frames->packs ? frames->packs->is_trusted : NULL,
				      frames->phase);
	if (status)
		goto finish;
	status = write_text(&receiver);
finish:
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

// ---- packs before the image ----------------------------------------------------------------------------

// The text of an index that is received in parts, after the packs of a precopy round.
struct text {
	char *bytes;
	size_t length;
};

struct pack_receiver {
	struct frames *frames;
	struct packs *packs;
	struct writer *writer;
	int fd; // descriptor of the pack that is being received; -1: none
	struct text index;
};

static enum vg_status no_pack(const struct frames *frames, const char *what)
{
	return vg_fail(VG_INTEGRITY, 0, "frame %llu before the image is %s", (unsigned long long)frames->read - 1,
		       what);
}

// Checks that a part of the disk stays free. The receiver does not know how many packs the sender will send, so the
// packs must not fill the disk.
static enum vg_status check_reserve(const struct frames *frames, const struct packs *packs, uint64_t bytes)
{
	char text[2][VG_SIZE_TEXT];
	struct statvfs disk;

	if (fstatvfs(packs->store->lock, &disk) < 0)
		return VG_OK;
	uint64_t have = (uint64_t)disk.f_bavail * disk.f_frsize;
	uint64_t reserve = (uint64_t)disk.f_blocks * disk.f_frsize / RESERVE_PART;
	reserve = reserve < most_reserve ? reserve : most_reserve;
	if (bytes + reserve <= have)
		return VG_OK;
	enum vg_status status = vg_fail(
		VG_INSUFFICIENT, 0,
		"the disk of %s has %s free, and device memory that arrives before its image must leave %s: free some, "
		"name another directory with --dir, or migrate without --precopy",
		packs->store->directory, vg_size_format(have, text[0]), vg_size_format(reserve, text[1]));
	vg_fail_amounts(bytes + reserve, have);
	return status;
}

// Waits until all that was received is in the files.
static enum vg_status flush_packs(struct pack_receiver *receiver)
{
	int r = writer_flush(receiver->writer);

	return r ? stream_failed(receiver->frames, -r, receiver->packs->store->directory, DEVICE_DIRECTORY) : VG_OK;
}

static enum vg_status begin_pack(struct pack_receiver *receiver)
{
	const struct frames *frames = receiver->frames;
	struct packs *packs = receiver->packs;
	uint32_t number = UINT32_MAX;
	char name[32];

	if (frames->payload_bytes == sizeof number)
		memcpy(&number, frames->payload, sizeof number);
	if (number != packs->count || number >= DEVICE_MOST_PACKS)
		return no_pack(frames, "not the next pack");
	enum vg_status status = flush_packs(receiver);
	if (status == VG_OK)
		status = check_reserve(frames, packs, 0);
	if (status)
		return status;
	if (receiver->fd >= 0)
		close(receiver->fd);
	snprintf(name, sizeof name, DEVICE_PACK_FORMAT, number);
	receiver->fd = openat(packs->store->lock, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	packs->count += receiver->fd >= 0;
	return receiver->fd < 0 ? stream_failed(frames, errno, packs->store->directory, name) : VG_OK;
}

static enum vg_status take_pack_data(struct pack_receiver *receiver)
{
	struct frames *frames = receiver->frames;
	struct packs *packs = receiver->packs;
	uint64_t offset, bytes = frames->payload_bytes - sizeof offset;

	if (frames->payload_bytes <= sizeof offset || receiver->fd < 0)
		return no_pack(frames, "data of no pack");
	memcpy(&offset, frames->payload, sizeof offset);
	if (offset > DEVICE_PACK || bytes > DEVICE_PACK - offset)
		return no_pack(frames, "data after the end of a pack");
	// The disk does not contain yet what the writer has not written.
	enum vg_status status = check_reserve(frames, packs, writer_unwritten(receiver->writer) + bytes);
	if (status)
		return status;
	int r = writer_put(receiver->writer, receiver->fd, &frames->payload, sizeof offset, bytes, (off_t)offset);
	if (r)
		return stream_failed(frames, -r, packs->store->directory, DEVICE_DIRECTORY);
	packs->bytes += bytes;
	if (frames->phase)
		frames->phase->bytes += bytes;
	return VG_OK;
}

static enum vg_status take_index(struct pack_receiver *receiver)
{
	const struct frames *frames = receiver->frames;
	const struct packs *packs = receiver->packs;
	struct text *index = &receiver->index;

	if (frames->payload_bytes) {
		char *grown = NULL;
		if (index->length <= MOST_INDEX)
			grown = realloc(index->bytes, index->length + frames->payload_bytes);
		if (!grown)
			return index->length > MOST_INDEX ? no_pack(frames, "too much of an index")
							  : stream_failed(frames, ENOMEM, "an index", "");
		index->bytes = grown;
		memcpy(grown + index->length, frames->payload, frames->payload_bytes);
		index->length += frames->payload_bytes;
		return VG_OK;
	}
	enum vg_status status = flush_packs(receiver);
	if (status == VG_OK && packs->round)
		status = packs->round(packs->user, index->bytes ? index->bytes : "", index->length, frames->phase);
	index->length = 0;
	return status;
}

static enum vg_status begin_packs(struct pack_receiver *receiver)
{
	struct packs *packs = receiver->packs;

	packs->is_checked = calloc(DEVICE_MOST_PACKS, sizeof *packs->is_checked);
	packs->is_trusted = calloc(DEVICE_MOST_PACKS, sizeof *packs->is_trusted);
	int r = packs->is_checked && packs->is_trusted ? writer_start(FRAME_MOST, &receiver->writer) : -ENOMEM;
	if (r)
		return stream_failed(receiver->frames, -r, "packs", "");
	if (mkdirat(packs->store->lock, DEVICE_DIRECTORY, 0700) < 0)
		return stream_failed(receiver->frames, errno, packs->store->directory, DEVICE_DIRECTORY);
	return VG_OK;
}

enum vg_status stream_receive_packs(struct frames *frames, struct packs *packs)
{
	struct pack_receiver receiver = {.frames = frames, .packs = packs, .fd = -1};
	enum frame_type type = FRAME_PACK;

	enum vg_status status = begin_packs(&receiver);
	while (status == VG_OK && type != FRAME_PACKED) {
		status = frame_read(frames, &type);
		if (status)
			break;
		if (type == FRAME_PACK)
			status = begin_pack(&receiver);
		else if (type == FRAME_DATA)
			status = take_pack_data(&receiver);
		else if (type == FRAME_INDEX)
			status = take_index(&receiver);
		else
			status = type == FRAME_PACKED ? flush_packs(&receiver)
						      : no_pack(frames, "of a kind that does not belong there");
	}
	writer_end(receiver.writer);
	free(receiver.index.bytes);
	if (receiver.fd >= 0)
		close(receiver.fd);
	return status;
}
