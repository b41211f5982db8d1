#define XXH_INLINE_ALL
#include <xxhash.h>

#include "checkpoint/criu/serve.h"

#include "base/descriptor.h"
#include "base/status.h"
#include "checkpoint/criu/feed.h"
#include "checkpoint/criu/files.h"
#include "checkpoint/criu/pagemap.h"
#include "checkpoint/criu/streamer.h"
#include "checkpoint/image/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 64 << 10, THIN_MOST = 64 << 20 };

// A file that CRIU is reading.
struct outgoing {
	struct serve *serve;
	struct outgoing *next;
	const struct image_file *file;
	int input, output;
	pthread_t thread;
};

// A file of pages from which CRIU gets only some chunks.
struct thinned {
	struct thinned *next;
	const struct image_file *pages;
	bool *without;
};

struct serve {
	const struct image_files *files;
	const char *path;
	const struct criu_work *work;
	unsigned tree;
	int directory;
	_Atomic uint64_t *progress;
	struct streamer *streamer;
	struct feed *feed;
	pthread_mutex_t lock; // protects the members below
	struct outgoing *outgoing;
	struct thinned *thinned;
	enum vg_status status; // the first failure
	int code;
	char text[512];
};

// Keeps the last error of this thread as the error of the restore, unless an earlier failure is kept.
static void keep_error(struct serve *serve, enum vg_status status)
{
	const struct vg_error *error = vg_last_error();

	pthread_mutex_lock(&serve->lock);
	if (!serve->status) {
		serve->status = status;
		serve->code = error->code;
		snprintf(serve->text, sizeof serve->text, "%s", error->text);
	}
	pthread_mutex_unlock(&serve->lock);
}

static void fail_file(const struct outgoing *of, int error)
{
	keep_error(of->serve, vg_fail(VG_SYSTEM, error, "%s/%s: %s", of->serve->path, of->file->name, strerror(error)));
}

// ---- files ------------------------------------------------------------------------------------------

// Serves a file that has a single checksum. The file was already checked before CRIU was started. Compares the checksum
// again, because the file may have changed since then.
static void serve_whole(struct outgoing *of)
{
	unsigned char *piece = malloc(PIECE);
	XXH3_state_t state;
	ssize_t length = 0;
	int r = piece ? 0 : -ENOMEM;

	XXH3_64bits_reset(&state);
	while (r == 0 && (length = vg_read_all(of->input, piece, PIECE, -1)) > 0) {
		XXH3_64bits_update(&state, piece, (size_t)length);
		r = vg_write_all(of->output, piece, (size_t)length, -1);
		if (of->serve->progress)
			*of->serve->progress += (uint64_t)length;
	}
	free(piece);
	r = r ? r : length < 0 ? (int)length : 0;
	if (r && r != -EPIPE)
		fail_file(of, -r);
	if (r == 0 && XXH3_64bits_digest(&state) != of->file->sum)
		keep_error(of->serve, vg_fail(VG_INTEGRITY, 0, "%s/%s has changed since it was looked at",
					      of->serve->path, of->file->name));
}

// Finds a file by CRIU's name for it, which lacks the suffix for the compression.
static const struct image_file *find_file(const struct serve *serve, const char *name)
{
	char whole[IMAGE_NAME_TEXT];

	for (unsigned method = VG_COMPRESSION_NONE; method <= VG_COMPRESSION_ZSTD; method++) {
		snprintf(whole, sizeof whole, "tree-%u/%s%s", serve->tree, name,
			 image_compression_suffix((enum vg_compression)method));
		const struct image_file *file = image_files_find(serve->files, whole);
		if (file && file->compression == method)
			return file;
	}
	return NULL;
}

// Reads a whole small file and compares its checksum. The caller frees the contents. NULL: the file has changed, or is
// too large; serve_whole() reports a change.
static unsigned char *read_small(const struct serve *serve, const struct image_file *file)
{
	_cleanup_close_ int fd = image_open_file(serve->directory, file->name);
	unsigned char *data = fd >= 0 && file->bytes <= THIN_MOST ? malloc(file->bytes + 1) : NULL;

	if (data && (vg_read_all(fd, data, file->bytes + 1, 0) != (ssize_t)file->bytes ||
		     XXH3_64bits(data, file->bytes) != file->sum)) {
		free(data);
		data = NULL;
	}
	return data;
}

static bool thin_pages(struct serve *serve, const struct image_file *file, const unsigned char *pagemap,
		       unsigned char **ret_pagemap, size_t *ret_length)
{
	struct thinned *thinned = calloc(1, sizeof *thinned);
	char name[IMAGE_NAME_TEXT];
	uint32_t id;

	snprintf(name, sizeof name, "mm-%s", strrchr(file->name, '-') + 1);
	const struct image_file *mm = find_file(serve, name);
	unsigned char *areas = mm && thinned ? read_small(serve, mm) : NULL;
	int r = areas ? pagemap_pages_id(pagemap, file->bytes, &id) : -EBADMSG;
	if (r == 0) {
		snprintf(name, sizeof name, "pages-%u.img", (unsigned)id);
		thinned->pages = find_file(serve, name);
		r = thinned->pages ? pagemap_thin(pagemap, file->bytes, areas, mm->bytes, thinned->pages, ret_pagemap,
						  ret_length, &thinned->without)
				   : -EBADMSG;
	}
	free(areas);
	if (r) {
		free(thinned);
		return false;
	}
	pthread_mutex_lock(&serve->lock);
	thinned->next = serve->thinned;
	serve->thinned = thinned;
	pthread_mutex_unlock(&serve->lock);
	return true;
}

// Serves a pagemap, but leaves out chunks of zeros whose memory is zero even if CRIU does not restore them. Returns
// false if the file must be served unchanged.
static bool serve_thinned(struct outgoing *of)
{
	unsigned char *pagemap = read_small(of->serve, of->file), *thinner;
	size_t length;

	bool done = pagemap && thin_pages(of->serve, of->file, pagemap, &thinner, &length);
	free(pagemap);
	if (!done)
		return false;
	int r = vg_write_all(of->output, thinner, length, -1);
	free(thinner);
	if (r && r != -EPIPE)
		fail_file(of, -r);
	if (of->serve->progress)
		*of->serve->progress += of->file->bytes;
	return true;
}

// Serves files.img, and replaces the paths in it that `work` lists.
static void serve_moved(struct outgoing *of)
{
	const struct serve *serve = of->serve;
	unsigned char *files = read_small(serve, of->file), *moved = NULL;
	size_t length = 0;

	int r = files ? criu_files_move(files, of->file->bytes, serve->work->moves, serve->work->move_count, &moved,
					&length)
		      : -EBADMSG;
	free(files);
	if (r == 0)
		r = vg_write_all(of->output, moved, length, -1);
	free(moved);
	if (r == -EBADMSG)
		keep_error(of->serve, vg_fail(VG_INTEGRITY, 0,
					      "%s/%s has changed since it was looked at, or is not what CRIU writes",
					      serve->path, of->file->name));
	else if (r && r != -EPIPE)
		fail_file(of, -r);
	if (serve->progress)
		*serve->progress += of->file->bytes;
}

static void serve_pages(struct outgoing *of)
{
	struct serve *serve = of->serve;

	pthread_mutex_lock(&serve->lock);
	const struct thinned *thinned = serve->thinned;
	while (thinned && thinned->pages != of->file)
		thinned = thinned->next;
	pthread_mutex_unlock(&serve->lock);
	enum vg_status status = feed_file(serve->feed, of->file, thinned ? thinned->without : NULL, of->input,
					  of->output, serve->progress);
	if (status)
		keep_error(serve, status);
}

static bool is_pagemap(const char *name)
{
	const char *slash = strchr(name, '/');

	return slash && strncmp(slash, "/pagemap-", 9) == 0 && strncmp(slash, "/pagemap-shmem-", 15) != 0;
}

static bool is_list_of_files(const char *name)
{
	const char *slash = strchr(name, '/');

	return slash && strcmp(slash, "/files.img") == 0;
}

static void *serve_file(void *user)
{
	struct outgoing *of = user;

	if (of->file->chunk_bytes)
		serve_pages(of);
	else if (of->serve->work->move_count && is_list_of_files(of->file->name))
		serve_moved(of);
	else if (!is_pagemap(of->file->name) || !serve_thinned(of))
		serve_whole(of);
	close(of->output);
	close(of->input);
	return NULL;
}

static bool on_has(void *user, const char *name)
{
	return find_file(user, name) != NULL;
}

static void on_file(void *user, const char *name, int pipe_consume_fd)
{
	struct serve *serve = user;
	const struct image_file *file = find_file(serve, name);
	struct outgoing *of = calloc(1, sizeof *of);
	int r = of ? 0 : ENOMEM;

	if (of) {
		*of = (struct outgoing){.serve = serve, .file = file, .output = pipe_consume_fd, .input = -1};
		of->input = image_open_file(serve->directory, file->name);
		r = of->input < 0 ? -of->input : pthread_create(&of->thread, NULL, serve_file, of);
	}
	if (r) {
		keep_error(serve, vg_fail(VG_SYSTEM, r, "%s/%s: %s", serve->path, file->name, strerror(r)));
		close(pipe_consume_fd);
		if (of && of->input >= 0)
			close(of->input);
		free(of);
		return;
	}
	pthread_mutex_lock(&serve->lock);
	of->next = serve->outgoing;
	serve->outgoing = of;
	pthread_mutex_unlock(&serve->lock);
}

static void on_broken(void *user, int error)
{
	struct serve *serve = user;

	// If CRIU fails, it closes the connection and reports its own error.
	if (error != -ECONNRESET && error != -EPIPE)
		keep_error(serve, vg_fail(VG_SYSTEM, -error, "CRIU's stream: %s", strerror(-error)));
}

// ---- begin and end ----------------------------------------------------------------------------------

static void free_server(struct serve *serve)
{
	feed_destroy(serve->feed);
	while (serve->outgoing) {
		struct outgoing *of = serve->outgoing;
		serve->outgoing = of->next;
		free(of);
	}
	while (serve->thinned) {
		struct thinned *thinned = serve->thinned;
		serve->thinned = thinned->next;
		free(thinned->without);
		free(thinned);
	}
	pthread_mutex_destroy(&serve->lock);
	free(serve);
}

enum vg_status serve_begin(const struct image_files *files, const struct image_dir *dir, unsigned tree,
			   const struct criu_work *work, _Atomic uint64_t *progress, struct serve **ret_serve)
{
	struct serve *serve = calloc(1, sizeof *serve);

	if (!serve)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for what CRIU reads");
	*serve = (struct serve){.files = files,
				.path = dir->path,
				.directory = dir->fd,
				.tree = tree,
				.work = work,
				.progress = progress};
	pthread_mutex_init(&serve->lock, NULL);
	const struct streamer_events events = {
		.serves = true, .has = on_has, .file = on_file, .broken = on_broken, .user = serve};
	int r = feed_create(files, dir->path, &serve->feed);
	if (r == 0)
		r = streamer_start(work->directory, &events, &serve->streamer);
	if (r) {
		free_server(serve);
		return vg_fail(r == -ENOMEM ? VG_NO_MEMORY : VG_SYSTEM, -r, "%s: cannot be given to CRIU: %s",
			       dir->path, strerror(-r));
	}
	*ret_serve = serve;
	return VG_OK;
}

enum vg_status serve_end(struct serve *serve)
{
	streamer_stop(serve->streamer);
	for (struct outgoing *of = serve->outgoing; of; of = of->next)
		pthread_join(of->thread, NULL);
	enum vg_status status = serve->status;
	if (status)
		vg_fail(status, serve->code, "%s", serve->text);
	free_server(serve);
	return status;
}
