// Any frames as an image that comes in: refused, with nothing left of it, or an image that is whole. Two bytes of
// length, then a text for virgate.json, which is sealed so that the fuzzer gets beyond its checksum; then frames: a
// byte for the kind, two for the length, the payload. A length of 0xffff: all that follows is the stream itself. 0xfffe:
// frames follow that come before an image, with packs.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/checkpoint/image_folder.h"
#include "src/checkpoint/image_text.h"
#include "src/checkpoint/stream.h"
#include "virgate/image.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t length);

static char folder[] = "/dev/shm/virgate-fuzz.XXXXXX";

static void remove_folder(void)
{
	image_remove(folder);
}

static size_t take_length(const unsigned char **data, size_t *length)
{
	if (*length < 2)
		return 0;
	size_t wanted = (*data)[0] | (size_t)(*data)[1] << 8;
	*data += 2;
	*length -= 2;
	return wanted < *length || wanted >= 0xfffe ? wanted : *length;
}

static void describe(struct frames *frames, const char *text, size_t length)
{
	json_t *description = json_loadb(text, length, 0, NULL);
	char *sealed = json_is_object(description) ? image_text_seal(description) : NULL;

	if (sealed)
		frame_write(frames, FRAME_DESCRIPTION, sealed, strlen(sealed), NULL, 0);
	else
		frame_write(frames, FRAME_DESCRIPTION, text, length, NULL, 0);
	frame_write(frames, FRAME_DESCRIPTION, NULL, 0, NULL, 0);
	free(sealed);
	json_decref(description);
}

static void write_frames(struct frames *frames, const unsigned char *data, size_t length)
{
	while (length > 3) {
		enum frame_type type = (enum frame_type)data[0];
		data++;
		length--;
		size_t bytes = take_length(&data, &length);
		bytes = bytes < length ? bytes : length;
		frame_write(frames, type, data, bytes, NULL, 0);
		data += bytes;
		length -= bytes;
	}
}

static void receive_packs(int fd, const char *image)
{
	struct image_draft store = {0};
	struct packs packs = {.store = &store};
	struct frames frames = {.in = fd, .out = -1, .function = "fuzz"};

	lseek(fd, 0, SEEK_SET);
	if (image_begin(image, "fuzz", &store))
		abort();
	(void)stream_receive_packs(&frames, &packs);
	packs_finish(&packs);
	image_finish(&store);
	frames_finish(&frames);
	if (rmdir(folder) < 0 || mkdir(folder, 0700) < 0) // something was left
		abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t length)
{
	char image[sizeof folder + 8];

	if (strchr(folder, 'X') && folder[strlen(folder) - 1] == 'X') {
		if (!mkdtemp(folder))
			abort();
		atexit(remove_folder);
	}
	snprintf(image, sizeof image, "%s/image", folder);
	int fd = memfd_create("stream", MFD_CLOEXEC);
	struct frames frames = {.in = -1, .out = fd, .function = "fuzz"};
	size_t text = take_length(&data, &length);
	if (fd < 0)
		abort();
	if (text == 0xfffe) {
		write_frames(&frames, data, length);
		receive_packs(fd, image);
		close(fd);
		return 0;
	}
	if (text == 0xffff) {
		frames_write_plain(&frames, data, length);
	} else {
		stream_begin(&frames, false, false);
		describe(&frames, (const char *)data, text);
		write_frames(&frames, data + text, length - text);
	}
	lseek(fd, 0, SEEK_SET);
	enum vg_status status = vg_checkpoint_receive(fd, image);
	close(fd);
	if ((status == VG_OK) != (access(image, F_OK) == 0))
		abort();
	if (status == VG_OK && vg_image_verify(image, NULL) != VG_OK)
		abort();
	image_remove(image);
	if (rmdir(folder) < 0) // something was left beside it
		abort();
	if (mkdir(folder, 0700) < 0)
		abort();
	return 0;
}
