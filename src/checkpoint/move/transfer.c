// The public functions that send and receive images.
#include "base/status.h"
#include "checkpoint/move/stream.h"
#include "core/object.h"
#include "virgate/checkpoint.h"

#include <errno.h>
#include <fcntl.h>

static enum vg_status check_descriptor(int fd)
{
	if (fd >= 0 && fcntl(fd, F_GETFD) >= 0)
		return VG_OK;
	return vg_fail(VG_INVALID, EBADF, "%d is no open descriptor", fd);
}

enum vg_status vg_checkpoint_send(const char *dir, int fd)
{
	VG_ENTRY();
	struct frames frames = {.in = -1, .out = fd};
	struct image_dir image;

	CORE_NEEDED(dir);
	enum vg_status status = check_descriptor(fd);
	if (status == VG_OK)
		status = image_open(dir, &image);
	if (status)
		return status;
	status = stream_send(&frames, &image, false);
	image_close(&image);
	return status;
}

enum vg_status vg_checkpoint_receive(int fd, const char *dir)
{
	VG_ENTRY();
	struct frames frames = {.in = fd, .out = -1};
	struct image_draft draft = {0};
	struct stream_header header;
	json_t *description = NULL;

	CORE_NEEDED(dir);
	enum vg_status status = check_descriptor(fd);
	if (status)
		return status;
	status = image_begin(dir, &draft);
	if (status)
		goto finish;
	status = stream_accept(&frames, &header);
	if (status)
		goto finish;
	if (header.has_packs)
		status = vg_fail(VG_PROTOCOL, 0, "what comes in is a migration, and no image");
	if (status)
		goto finish;
	status = stream_receive(&frames, &draft, &description);
	if (status)
		goto finish;
	status = frames_read_end(&frames);
	if (status)
		goto finish;
	status = image_publish(&draft, description, true);
finish:
	image_finish(&draft);
	frames_finish(&frames);
	json_decref(description);
	return status;
}
