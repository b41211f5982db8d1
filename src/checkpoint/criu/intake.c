#define XXH_INLINE_ALL
#include <xxhash.h>

#include "checkpoint/criu/intake.h"

#include "base/descriptor.h"
#include "checkpoint/data/chunk.h"
#include "checkpoint/data/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct job {
	struct intake_file *file;
	struct job *next; // next in the list of free jobs
	size_t index, length;
	unsigned char data[CHUNK_BYTES];
};

struct worker {
	struct codec *codec;
	unsigned char out[CHUNK_BYTES + CHUNK_BYTES / CHUNK_PAGE / 8];
};

struct intake {
	const struct image_draft *draft;
	struct pool *pool;
	unsigned worker_count;
	struct worker **workers;
	pthread_mutex_t lock; // protects the members below
	struct job *free_jobs;
	int error; // errno of the first error; `where` and `after` say where it occurred
	char where[IMAGE_NAME_TEXT];
	uint64_t after;
};

void intake_fail(struct intake *intake, const char *name, uint64_t after, int error)
{
	pthread_mutex_lock(&intake->lock);
	if (!intake->error) {
		intake->error = error;
		intake->after = after;
		snprintf(intake->where, sizeof intake->where, "%s", name);
	}
	pthread_mutex_unlock(&intake->lock);
}

int intake_failure(struct intake *intake, const char **ret_name, uint64_t *ret_after)
{
	pthread_mutex_lock(&intake->lock);
	int error = intake->error;
	if (error) {
		*ret_name = intake->where;
		*ret_after = intake->after;
	}
	pthread_mutex_unlock(&intake->lock);
	return error;
}

static bool has_failed(struct intake *intake)
{
	pthread_mutex_lock(&intake->lock);
	bool failed = intake->error != 0;
	pthread_mutex_unlock(&intake->lock);
	return failed;
}

// ---- chunks ------------------------------------------------------------------------------------------

// Has the kernel start writing a range of the file to the disk, and does not wait.
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
		r = vg_write_all(job->file->output, job->data + at, run, (off_t)(base + at));
	if (r == 0 && ret_chunk->stored)
		write_out(job->file->output, base, job->length);
	return r;
}

// Reserves the next range of the file for the chunk number `index`, and returns the range's offset. The file contains
// the chunks in the order of their numbers. So a worker first waits until the previous chunk has an offset.
static uint64_t take_place(struct intake_file *file, size_t index, size_t length)
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
	int r = vg_write_all(job->file->output, worker->out, length, (off_t)at);
	if (r == 0 && length)
		write_out(job->file->output, at, length);
	return r;
}

static void store_chunk(unsigned number, void *user)
{
	struct job *job = user;
	struct intake_file *file = job->file;
	struct intake *intake = file->intake;
	struct image_chunk chunk = {0};

	int r = intake->draft->compression ? store_packed(job, intake->workers[number], &chunk)
					   : store_plain(job, &chunk);
	if (r)
		intake_fail(intake, file->name, (uint64_t)job->index * CHUNK_BYTES, -r);
	size_t index = job->index; // read the index now: from here on another thread may reuse the job
	pthread_mutex_lock(&intake->lock);
	job->next = intake->free_jobs;
	intake->free_jobs = job;
	pthread_mutex_unlock(&intake->lock);
	pthread_mutex_lock(&file->lock);
	file->chunks[index] = chunk;
	file->stored += chunk.stored;
	file->done++;
	pthread_cond_broadcast(&file->changed);
	pthread_mutex_unlock(&file->lock);
}

static struct job *take_job(struct intake *intake)
{
	pthread_mutex_lock(&intake->lock);
	struct job *job = intake->free_jobs;
	if (job)
		intake->free_jobs = job->next;
	pthread_mutex_unlock(&intake->lock);
	return job ? job : malloc(sizeof *job);
}

static int make_room(struct intake_file *file)
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

void intake_count(struct intake_file *file, size_t length)
{
	file->raw += length;
	if (file->intake->draft->progress)
		*file->intake->draft->progress += length;
}

int intake_chunks(struct intake_file *file)
{
	struct intake *intake = file->intake;
	int r = 0;

	for (size_t length = CHUNK_BYTES; r == 0 && length == CHUNK_BYTES && !has_failed(intake);) {
		struct job *job = take_job(intake);
		ssize_t got = job ? vg_read_all(file->input, job->data, CHUNK_BYTES, -1) : -ENOMEM;
		length = got > 0 ? (size_t)got : 0;
		r = got < 0 ? (int)got : got > 0 ? make_room(file) : 0;
		if (r || got <= 0) {
			free(job);
			break;
		}
		intake_count(file, length);
		job->file = file;
		job->length = length;
		job->index = file->given++;
		pool_give(intake->pool, job);
	}
	pthread_mutex_lock(&file->lock);
	while (file->done < file->given)
		pthread_cond_wait(&file->changed, &file->lock);
	pthread_mutex_unlock(&file->lock);
	if (intake->draft->compression || r)
		return r;
	// The file may end in a hole, which nothing has written. So extend the file to the length that CRIU sent.
	file->bytes = file->raw;
	return ftruncate(file->output, (off_t)file->raw) < 0 ? -errno : 0;
}

// ---- files -------------------------------------------------------------------------------------------

void intake_file_init(struct intake_file *file, struct intake *intake, int input)
{
	*file = (struct intake_file){.intake = intake, .input = input, .output = -1};
	pthread_mutex_init(&file->lock, NULL);
	pthread_cond_init(&file->changed, NULL);
}

void intake_file_finish(struct intake_file *file)
{
	pthread_mutex_destroy(&file->lock);
	pthread_cond_destroy(&file->changed);
	free(file->chunks);
}

// ---- the workers -------------------------------------------------------------------------------------

static int make_workers(struct intake *intake)
{
	const struct image_draft *draft = intake->draft;

	intake->worker_count = pool_threads(draft->threads);
	intake->workers = calloc(intake->worker_count, sizeof *intake->workers);
	for (unsigned i = 0; intake->workers && i < intake->worker_count; i++) {
		struct worker *worker = malloc(sizeof *worker);
		intake->workers[i] = worker;
		if (!worker || !(worker->codec = codec_create(draft->compression, draft->level)))
			return -ENOMEM;
	}
	return intake->workers ? pool_create(intake->worker_count, store_chunk, &intake->pool) : -ENOMEM;
}

int intake_create(const struct image_draft *draft, struct intake **ret_intake)
{
	struct intake *intake = calloc(1, sizeof *intake);

	if (!intake)
		return -ENOMEM;
	intake->draft = draft;
	pthread_mutex_init(&intake->lock, NULL);
	int r = make_workers(intake);
	if (r) {
		intake_destroy(intake);
		return r;
	}
	*ret_intake = intake;
	return 0;
}

void intake_destroy(struct intake *intake)
{
	if (!intake)
		return;
	pool_destroy(intake->pool);
	for (unsigned i = 0; i < intake->worker_count && intake->workers; i++) {
		if (intake->workers[i])
			codec_destroy(intake->workers[i]->codec);
		free(intake->workers[i]);
	}
	free(intake->workers);
	while (intake->free_jobs) {
		struct job *job = intake->free_jobs;
		intake->free_jobs = job->next;
		free(job);
	}
	pthread_mutex_destroy(&intake->lock);
	free(intake);
}
