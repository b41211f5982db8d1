#define XXH_INLINE_ALL
#include <xxhash.h>

#include "checkpoint/capture.h"

#include "base/descriptor.h"
#include "base/size.h"
#include "base/status.h"
#include "checkpoint/chunk.h"
#include "checkpoint/image_files.h"
#include "checkpoint/pool.h"
#include "checkpoint/streamer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIPE_BYTES = 1 << 20, PIECE = 64 << 10 };

// A file on its way.
struct incoming {
	struct capture *capture;
	struct incoming *next;
	char name[IMAGE_NAME_TEXT];
	int input, output;
	pthread_t thread;
	uint64_t raw, bytes, stored;
	uint64_t sum;
	bool chunked;
	// Of chunks, under the lock.
	pthread_mutex_t lock;
	pthread_cond_t changed;
	size_t given, done, turn; // how many went to the pool, came back, and have their place in the file
	size_t capacity;
	struct image_chunk *chunks;
};

struct job {
	struct incoming *file;
	struct job *next; // of those that are free
	size_t index, length;
	unsigned char data[CHUNK_BYTES];
};

struct worker {
	struct codec *codec;
	unsigned char out[CHUNK_BYTES + CHUNK_BYTES / CHUNK_PAGE / 8];
};

struct capture {
	struct image_draft *draft;
	unsigned tree;
	int folder;
	struct streamer *streamer;
	struct pool *pool;
	unsigned worker_count;
	struct worker **workers;
	pthread_mutex_t lock; // for all below
	struct incoming *files;
	struct job *free_jobs;
	int error; // the first one, and where it was
	char where[IMAGE_NAME_TEXT];
	uint64_t after;
};

static void fail(struct capture *capture, const char *name, uint64_t after, int error)
{
	pthread_mutex_lock(&capture->lock);
	if (!capture->error) {
		capture->error = error;
		capture->after = after;
		snprintf(capture->where, sizeof capture->where, "%s", name);
	}
	pthread_mutex_unlock(&capture->lock);
}

static bool has_failed(struct capture *capture)
{
	pthread_mutex_lock(&capture->lock);
	bool failed = capture->error != 0;
	pthread_mutex_unlock(&capture->lock);
	return failed;
}

// ---- chunks ------------------------------------------------------------------------------------------

static int write_at(int fd, const unsigned char *data, size_t length, uint64_t at)
{
	while (length > 0) {
		ssize_t count = pwrite(fd, data, length, (off_t)at);
		if (count < 0 && errno != EINTR)
			return -errno;
		if (count > 0) {
			data += count;
			length -= (size_t)count;
			at += (uint64_t)count;
		}
	}
	return 0;
}

// The disk may begin with it.
static void write_out(int fd, uint64_t at, size_t length)
{
	sync_file_range(fd, (off_t)at, (off_t)length, SYNC_FILE_RANGE_WRITE);
}

static int store_plain(struct job *job, struct image_chunk *ret_chunk)
{
	unsigned char map[CHUNK_BYTES / CHUNK_PAGE / 8];
	uint64_t base = (uint64_t)job->index * CHUNK_BYTES;
	size_t run;
	int r = 0;

	ret_chunk->stored = (uint32_t)chunk_examine(job->data, job->length, map, &ret_chunk->sum);
	for (size_t at = 0; r == 0 && chunk_next_run(map, job->length, &at, &run); at += run)
		r = write_at(job->file->output, job->data + at, run, base + at);
	if (r == 0 && ret_chunk->stored)
		write_out(job->file->output, base, job->length);
	return r;
}

// Chunks lie in the file in their order; the one before this was begun before it.
static uint64_t take_place(struct incoming *file, size_t index, size_t length)
{
	pthread_mutex_lock(&file->lock);
	while (file->turn != index)
		pthread_cond_wait(&file->changed, &file->lock);
	uint64_t at = file->bytes;
	file->bytes += length;
	file->turn++;
	pthread_cond_broadcast(&file->changed);
	pthread_mutex_unlock(&file->lock);
	return at;
}

static int store_packed(struct job *job, struct worker *worker, struct image_chunk *ret_chunk)
{
	size_t length = codec_pack(worker->codec, job->data, job->length, worker->out);
	uint64_t at = take_place(job->file, job->index, length);

	ret_chunk->stored = (uint32_t)length;
	ret_chunk->sum = XXH3_64bits(worker->out, length);
	int r = write_at(job->file->output, worker->out, length, at);
	if (r == 0 && length)
		write_out(job->file->output, at, length);
	return r;
}

static void store(unsigned number, void *user)
{
	struct job *job = user;
	struct incoming *file = job->file;
	struct capture *capture = file->capture;
	struct image_chunk chunk = {0};

	int r = capture->draft->compression ? store_packed(job, capture->workers[number], &chunk)
					    : store_plain(job, &chunk);
	if (r)
		fail(capture, file->name, (uint64_t)job->index * CHUNK_BYTES, -r);
	size_t index = job->index; // from here on the job may be somebody else's
	pthread_mutex_lock(&capture->lock);
	job->next = capture->free_jobs;
	capture->free_jobs = job;
	pthread_mutex_unlock(&capture->lock);
	pthread_mutex_lock(&file->lock);
	file->chunks[index] = chunk;
	file->stored += chunk.stored;
	file->done++;
	pthread_cond_broadcast(&file->changed);
	pthread_mutex_unlock(&file->lock);
}

static struct job *take_job(struct capture *capture)
{
	pthread_mutex_lock(&capture->lock);
	struct job *job = capture->free_jobs;
	if (job)
		capture->free_jobs = job->next;
	pthread_mutex_unlock(&capture->lock);
	return job ? job : malloc(sizeof *job);
}

static int make_room(struct incoming *file)
{
	int r = 0;

	pthread_mutex_lock(&file->lock);
	if (file->given == file->capacity) {
		size_t capacity = file->capacity ? 2 * file->capacity : 64;
		struct image_chunk *grown = realloc(file->chunks, capacity * sizeof *grown);
		if (grown) {
			file->chunks = grown;
			file->capacity = capacity;
		} else {
			r = -ENOMEM;
		}
	}
	pthread_mutex_unlock(&file->lock);
	return r;
}

static void count(struct incoming *file, size_t length)
{
	file->raw += length;
	if (file->capture->draft->progress)
		*file->capture->draft->progress += length;
}

static int take_chunks(struct incoming *file)
{
	struct capture *capture = file->capture;
	int r = 0;

	for (size_t length = CHUNK_BYTES; r == 0 && length == CHUNK_BYTES && !has_failed(capture);) {
		struct job *job = take_job(capture);
		ssize_t got = job ? vg_read_all(file->input, job->data, CHUNK_BYTES, -1) : -ENOMEM;
		length = got > 0 ? (size_t)got : 0;
		r = got < 0 ? (int)got : got > 0 ? make_room(file) : 0;
		if (r || got <= 0) {
			free(job);
			break;
		}
		count(file, length);
		job->file = file;
		job->length = length;
		job->index = file->given++;
		pool_give(capture->pool, job);
	}
	pthread_mutex_lock(&file->lock);
	while (file->done < file->given)
		pthread_cond_wait(&file->changed, &file->lock);
	pthread_mutex_unlock(&file->lock);
	if (capture->draft->compression || r)
		return r;
	// It may end in a hole.
	file->bytes = file->raw;
	return ftruncate(file->output, (off_t)file->raw) < 0 ? -errno : 0;
}

// ---- files -------------------------------------------------------------------------------------------

static int take_whole(struct incoming *file)
{
	unsigned char *piece = malloc(PIECE);
	XXH3_state_t state;
	ssize_t length = 0;
	int r = piece ? 0 : -ENOMEM;

	XXH3_64bits_reset(&state);
	while (r == 0 && (length = vg_read_all(file->input, piece, PIECE, -1)) > 0) {
		r = vg_write_all(file->output, piece, (size_t)length);
		XXH3_64bits_update(&state, piece, (size_t)length);
		count(file, (size_t)length);
	}
	free(piece);
	file->sum = XXH3_64bits_digest(&state);
	file->bytes = file->stored = file->raw;
	return r ? r : length < 0 ? (int)length : 0;
}

static void *take(void *user)
{
	struct incoming *file = user;
	struct capture *capture = file->capture;
	const char *suffix = file->chunked ? image_compression_suffix(capture->draft->compression) : "";
	size_t length = strlen(file->name);

	snprintf(file->name + length, sizeof file->name - length, "%s", suffix);
	file->output = openat(capture->folder, file->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r = file->output < 0 ? -errno : file->chunked ? take_chunks(file) : take_whole(file);
	if (r)
		fail(capture, file->name, file->raw, -r);
	// Who still writes learns that nobody reads any more.
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
	struct incoming *file = calloc(1, sizeof *file);
	unsigned tree;

	if (file) {
		*file = (struct incoming){
			.capture = capture, .input = consume_fd, .output = -1, .chunked = is_pages(name)};
		snprintf(file->name, sizeof file->name, "tree-%u/%s", capture->tree, name);
		pthread_mutex_init(&file->lock, NULL);
		pthread_cond_init(&file->changed, NULL);
		if (file->chunked)
			fcntl(consume_fd, F_SETPIPE_SZ, PIPE_BYTES); // what the user's share of pipes allows
	}
	int r = !file ? ENOMEM : !image_name_is_sound(file->name, &tree) ? EPROTO
			       : pthread_create(&file->thread, NULL, take, file);
	if (r) {
		fail(capture, name, 0, r);
		close(consume_fd);
		free(file);
		return;
	}
	pthread_mutex_lock(&capture->lock);
	file->next = capture->files;
	capture->files = file;
	pthread_mutex_unlock(&capture->lock);
}

static void on_file(void *user, const char *name, int pipe_consume_fd)
{
	capture_file(user, name, pipe_consume_fd);
}

static void on_broken(void *user, int error)
{
	fail(user, "CRIU's stream", 0, -error);
}

// ---- all of it ---------------------------------------------------------------------------------------

static void destroy(struct capture *capture)
{
	pool_destroy(capture->pool);
	for (unsigned i = 0; i < capture->worker_count && capture->workers; i++) {
		if (capture->workers[i])
			codec_destroy(capture->workers[i]->codec);
		free(capture->workers[i]);
	}
	free(capture->workers);
	while (capture->free_jobs) {
		struct job *job = capture->free_jobs;
		capture->free_jobs = job->next;
		free(job);
	}
	while (capture->files) {
		struct incoming *file = capture->files;
		capture->files = file->next;
		pthread_mutex_destroy(&file->lock);
		pthread_cond_destroy(&file->changed);
		free(file->chunks);
		free(file);
	}
	if (capture->folder >= 0)
		close(capture->folder);
	pthread_mutex_destroy(&capture->lock);
	free(capture);
}

static int make_workers(struct capture *capture)
{
	const struct image_draft *draft = capture->draft;

	capture->worker_count = pool_threads(draft->threads);
	capture->workers = calloc(capture->worker_count, sizeof *capture->workers);
	for (unsigned i = 0; capture->workers && i < capture->worker_count; i++) {
		struct worker *worker = malloc(sizeof *worker);
		capture->workers[i] = worker;
		if (!worker || !(worker->codec = codec_create(draft->compression, draft->level)))
			return -ENOMEM;
	}
	return capture->workers ? pool_create(capture->worker_count, store, &capture->pool) : -ENOMEM;
}

enum vg_status capture_begin(struct image_draft *draft, unsigned tree, const char *folder, const char *function,
			     struct capture **ret_capture)
{
	struct capture *capture = calloc(1, sizeof *capture);

	if (!capture)
		return vg_fail(VG_NO_MEMORY, 0, function, "no memory for what CRIU writes");
	*capture = (struct capture){.draft = draft, .tree = tree};
	pthread_mutex_init(&capture->lock, NULL);
	const struct streamer_events events = {.file = on_file, .broken = on_broken, .user = capture};
	capture->folder = open(draft->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = capture->folder < 0 ? -errno : make_workers(capture);
	if (r == 0)
		r = streamer_start(folder, &events, &capture->streamer);
	if (r) {
		destroy(capture);
		return vg_fail(r == -ENOMEM ? VG_NO_MEMORY : VG_SYSTEM, -r, function, "%s: cannot take in what CRIU writes: %s",
			       draft->folder, strerror(-r));
	}
	*ret_capture = capture;
	return VG_OK;
}

static json_t *chunks_of(const struct incoming *file)
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

static int add_to_draft(const struct incoming *file)
{
	struct image_draft *draft = file->capture->draft;
	char sum[IMAGE_SUM_TEXT];
	json_t *one;

	draft->sizes.raw += file->raw;
	draft->sizes.stored += file->stored;
	image_sum_format(file->sum, sum);
	if (file->chunked)
		one = json_pack("{s:s, s:I, s:I, s:s, s:i, s:o}", "name", file->name, "bytes", (json_int_t)file->bytes, "raw",
				(json_int_t)file->raw, "compression", image_compression_name(draft->compression),
				"chunk_bytes", (int)CHUNK_BYTES, "chunks", chunks_of(file));
	else
		one = json_pack("{s:s, s:I, s:s}", "name", file->name, "bytes", (json_int_t)file->bytes, "xxh3", sum);
	return json_array_append_new(draft->files, one) ? -ENOMEM : 0;
}

enum vg_status capture_end(struct capture *capture, const char *function)
{
	enum vg_status status = VG_OK;

	streamer_stop(capture->streamer);
	for (struct incoming *file = capture->files; file; file = file->next)
		pthread_join(file->thread, NULL);
	if (capture->error) {
		char size[VG_SIZE_TEXT];
		status = vg_fail(capture->error == ENOMEM ? VG_NO_MEMORY : VG_SYSTEM, capture->error, function,
				 "%s/%s, after %s of it: %s", capture->draft->folder, capture->where,
				 vg_size_format(capture->after, size), strerror(capture->error));
	}
	for (struct incoming *file = capture->files; file && status == VG_OK; file = file->next)
		if (add_to_draft(file))
			status = vg_fail(VG_NO_MEMORY, 0, function, "no memory for a list of files");
	destroy(capture);
	return status;
}
