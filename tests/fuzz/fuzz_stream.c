// Fuzzes the receiver of images with arbitrary frames. It must refuse them and leave no file, or store a complete
// image.
// The input has two bytes of length, and a text of that length for virgate.json, which gets a valid checksum. Frames of
// {kind: 1 byte, length: 2 bytes, payload} follow. If the first length is 0xffff, the rest is the stream itself. If it
// is 0xfffe, the frames contain packs, which are sent before an image.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/checkpoint/image/directory.h"
#include "src/checkpoint/image/text.h"
#include "src/checkpoint/move/stream.h"
#include "virgate/image.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t length);

static char directory[] = "/dev/shm/virgate-fuzz.XXXXXX";

static void remove_directory(void)
{
	image_remove(directory);
}

static size_t read_length(const unsigned char **data, size_t *length)
{
	if (*length < 2)
		return 0;
	size_t wanted = (*data)[0] | (size_t)(*data)[1] << 8;
	*data += 2;
	*length -= 2;
	return wanted < *length || wanted >= 0xfffe ? wanted : *length;
}

static void write_description(struct frames *frames, const char *text, size_t length)
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
		size_t bytes = read_length(&data, &length);
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
	struct frames frames = {.in = fd, .out = -1};

	lseek(fd, 0, SEEK_SET);
	if (image_begin(image, &store))
		abort();
	(void)stream_receive_packs(&frames, &packs);
	packs_finish(&packs);
	image_finish(&store);
	frames_finish(&frames);
	if (rmdir(directory) < 0 || mkdir(directory, 0700) < 0) // rmdir() fails if the receiver has left a file
		abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t length)
{
	char image[sizeof directory + 8];

	if (strstr(directory, ".XXXXXX")) { // the first input
		if (!mkdtemp(directory))
			abort();
		atexit(remove_directory);
	}
	snprintf(image, sizeof image, "%s/image", directory);
	int fd = memfd_create("stream", MFD_CLOEXEC);
	struct frames frames = {.in = -1, .out = fd};
	size_t text = read_length(&data, &length);
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
		write_description(&frames, (const char *)data, text);
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
	if (rmdir(directory) < 0) // rmdir() fails if the receiver has left a file
		abort();
	if (mkdir(directory, 0700) < 0)
		abort();
	return 0;
}
