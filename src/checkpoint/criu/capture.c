#define XXH_INLINE_ALL
#include <xxhash.h>

#include "checkpoint/criu/capture.h"

#include "base/descriptor.h"
#include "base/size.h"
#include "base/status.h"
#include "checkpoint/criu/intake.h"
#include "checkpoint/criu/streamer.h"
#include "checkpoint/data/chunk.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIPE_BYTES = 1 << 20, PIECE = 64 << 10 };

// A file that CRIU is writing.
struct incoming {
	struct capture *capture;
	struct incoming *next;
	pthread_t thread;
	bool chunked;
	uint64_t sum; // checksum of the whole file, if it is not divided into chunks
	struct intake_file file;
};

struct capture {
	struct image_draft *draft;
	unsigned tree;
	int directory;
	struct streamer *streamer;
	struct intake *intake;
	pthread_mutex_t lock; // protects the members below
	struct incoming *files;
};

// ---- files -------------------------------------------------------------------------------------------

static int take_whole(struct incoming *incoming)
{
	struct intake_file *file = &incoming->file;
	unsigned char *piece = malloc(PIECE);
	XXH3_state_t state;
	ssize_t length = 0;
	int r = piece ? 0 : -ENOMEM;

	XXH3_64bits_reset(&state);
	while (r == 0 && (length = vg_read_all(file->input, piece, PIECE, -1)) > 0) {
		r = vg_write_all(file->output, piece, (size_t)length, -1);
		XXH3_64bits_update(&state, piece, (size_t)length);
		intake_count(file, (size_t)length);
	}
	free(piece);
	incoming->sum = XXH3_64bits_digest(&state);
	file->bytes = file->stored = file->raw;
	return r ? r : length < 0 ? (int)length : 0;
}

static void *receive_file(void *user)
{
	struct incoming *incoming = user;
	struct intake_file *file = &incoming->file;
	struct capture *capture = incoming->capture;
	const char *suffix = incoming->chunked ? image_compression_suffix(capture->draft->compression) : "";
	size_t length = strlen(file->name);

	snprintf(file->name + length, sizeof file->name - length, "%s", suffix);
	file->output = openat(capture->directory, file->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r = file->output < 0 ? -errno : incoming->chunked ? intake_chunks(file) : take_whole(incoming);
	if (r)
		intake_fail(capture->intake, file->name, file->raw, -r);
	// If CRIU still writes into the pipe, its write now fails with EPIPE.
	close(file->input);
	if (file->output >= 0)
		close(file->output);
	return NULL;
}

static bool is_pages(const char *name)
{
	return strncmp(name, "pages-", 6) == 0;
}

void capture_file(struct capture *capture, const char *name, int consume_fd)
{
	struct incoming *incoming = calloc(1, sizeof *incoming);
	unsigned tree;

	if (incoming) {
		incoming->capture = capture;
		incoming->chunked = is_pages(name);
		intake_file_init(&incoming->file, capture->intake, consume_fd);
		snprintf(incoming->file.name, sizeof incoming->file.name, "tree-%u/%s", capture->tree, name);
		if (incoming->chunked)
			fcntl(consume_fd, F_SETPIPE_SZ, PIPE_BYTES); // may fail at the user's limit for pipes
	}
	int r = !incoming ? ENOMEM
		: !image_name_is_sound(incoming->file.name, &tree)
			? EPROTO
			: pthread_create(&incoming->thread, NULL, receive_file, incoming);
	if (r) {
		intake_fail(capture->intake, name, 0, r);
		close(consume_fd);
		if (incoming)
			intake_file_finish(&incoming->file);
		free(incoming);
		return;
	}
	pthread_mutex_lock(&capture->lock);
	incoming->next = capture->files;
	capture->files = incoming;
	pthread_mutex_unlock(&capture->lock);
}

static void on_file(void *user, const char *name, int pipe_consume_fd)
{
	capture_file(user, name, pipe_consume_fd);
}

static void on_broken(void *user, int error)
{
	struct capture *capture = user;

	intake_fail(capture->intake, "CRIU's stream", 0, -error);
}

// ---- the whole capture -------------------------------------------------------------------------------

static void free_capture(struct capture *capture)
{
	intake_destroy(capture->intake);
	while (capture->files) {
		struct incoming *incoming = capture->files;
		capture->files = incoming->next;
		intake_file_finish(&incoming->file);
		free(incoming);
	}
	pthread_mutex_destroy(&capture->lock);
	free(capture);
}

enum vg_status capture_begin(struct image_draft *draft, unsigned tree, const char *directory,
			     struct capture **ret_capture)
{
	struct capture *capture = calloc(1, sizeof *capture);

	if (!capture)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for what CRIU writes");
	*capture = (struct capture){.draft = draft, .tree = tree, .directory = draft->lock};
	pthread_mutex_init(&capture->lock, NULL);
	const struct streamer_events events = {.file = on_file, .broken = on_broken, .user = capture};
	int r = intake_create(draft, &capture->intake);
	if (r == 0)
		r = streamer_start(directory, &events, &capture->streamer);
	if (r) {
		free_capture(capture);
		return vg_fail(r == -ENOMEM ? VG_NO_MEMORY : VG_SYSTEM, -r, "%s: cannot take in what CRIU writes: %s",
			       draft->directory, strerror(-r));
	}
	*ret_capture = capture;
	return VG_OK;
}

static json_t *chunks_of(const struct intake_file *file)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < file->given; i++) {
		char text[IMAGE_SUM_TEXT + 12], sum[IMAGE_SUM_TEXT];
		image_sum_format(file->chunks[i].sum, sum);
		snprintf(text, sizeof text, "%s %u", sum, (unsigned)file->chunks[i].stored);
		json_array_append_new(list, json_string(text));
	}
	return list;
}

static int add_to_draft(struct image_draft *draft, const struct incoming *incoming)
{
	const struct intake_file *file = &incoming->file;
	char sum[IMAGE_SUM_TEXT];
	json_t *one;

	draft->sizes.raw += file->raw;
	draft->sizes.stored += file->stored;
	image_sum_format(incoming->sum, sum);
	if (incoming->chunked)
		one = json_pack("{s:s, s:I, s:I, s:s, s:i, s:o}", "name", file->name, "bytes", (json_int_t)file->bytes,
				"raw", (json_int_t)file->raw, "compression", image_compression_name(draft->compression),
				"chunk_bytes", (int)CHUNK_BYTES, "chunks", chunks_of(file));
	else
		one = json_pack("{s:s, s:I, s:s}", "name", file->name, "bytes", (json_int_t)file->bytes, "xxh3", sum);
	return json_array_append_new(draft->files, one) ? -ENOMEM : 0;
}

enum vg_status capture_end(struct capture *capture)
{
	enum vg_status status = VG_OK;
	const char *where;
	uint64_t after;

	streamer_stop(capture->streamer);
	for (struct incoming *file = capture->files; file; file = file->next)
		pthread_join(file->thread, NULL);
	int error = intake_failure(capture->intake, &where, &after);
	if (error) {
		char size[VG_SIZE_TEXT];
		status = vg_fail(error == ENOMEM ? VG_NO_MEMORY : VG_SYSTEM, error, "%s/%s, after %s of it: %s",
				 capture->draft->directory, where, vg_size_format(after, size), strerror(error));
	}
	for (struct incoming *file = capture->files; file && status == VG_OK; file = file->next)
		if (add_to_draft(capture->draft, file))
			status = vg_fail(VG_NO_MEMORY, 0, "no memory for a list of files");
	free_capture(capture);
	return status;
}
