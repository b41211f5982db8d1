#include "checkpoint/criu/feed.h"

#include "base/status.h"
#include "checkpoint/data/pool.h"
#include "checkpoint/image/chunk.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

enum {
	PIPE_BYTES = 16 << 20,
	USERS_PIPE_BYTES = 1 << 20,
	AHEAD_BYTES = 512 << 20, // how many bytes to read ahead of CRIU
};

struct worker {
	struct codec *codecs[3];
	unsigned char *stored;
};

struct feed {
	const char *path;
	struct pool *pool;
	unsigned worker_count;
	struct worker *workers;
	uint32_t chunk_bytes; // size in bytes of the largest chunk of all files
	unsigned char *zeros; // a zeroed buffer of chunk_bytes
};

// The state of feeding one file to CRIU.
struct lane {
	struct feed *feed;
	const struct image_file *file;
	int input, output;
	_Atomic uint64_t *progress;
	uint64_t *offsets;
	size_t *chunks, chunk_count; // `chunks`: indices of the chunks that CRIU gets
	pthread_mutex_t lock;
	pthread_cond_t changed;
	// `slots`: buffers for one chunk each. `behind`: how many of the buffers are in the pipe, where CRIU may still
	// read them. `ahead`: how many chunks to read from the disk before CRIU needs them.
	size_t slot_count, behind, ahead;
	struct slot *slots;
};

// A buffer for one chunk, which is read before CRIU needs it.
struct slot {
	struct lane *lane;
	size_t number, index; // `number`: position among the chunks that CRIU gets; `index`: position among all
	bool ready;
	int error; // result of image_chunk_load()
	uint64_t sum;
	// The contents of the chunk. Allocated with mmap(), because vmsplice() puts these pages into the pipe, where
	// they may stay after this process has freed them.
	unsigned char *data;
	unsigned char *given; // what CRIU gets: `data`, or the zeroed buffer
};

static int load_chunk(struct worker *worker, struct slot *slot)
{
	const struct lane *lane = slot->lane;
	const struct image_file *file = lane->file;
	uint32_t length = file->chunks[slot->index].stored;
	size_t later = slot->number + lane->ahead;

	if (later < lane->chunk_count)
		image_chunk_expect(lane->input, file, lane->chunks[later], lane->offsets[lane->chunks[later]]);
	unsigned char *stored = file->compression ? worker->stored : slot->data;
	int r = image_chunk_load(lane->input, file, slot->index, lane->offsets[slot->index], stored, &slot->sum);
	if (r == 0 && length && file->compression &&
	    !codec_unpack(worker->codecs[file->compression], stored, length, slot->data,
			  image_chunk_length(file, slot->index)))
		r = -EBADMSG;
	slot->given = length ? slot->data : lane->feed->zeros;
	return r;
}

static void load_slot(unsigned number, void *user)
{
	struct slot *slot = user;
	struct lane *lane = slot->lane;

	int r = load_chunk(&lane->feed->workers[number], slot);
	pthread_mutex_lock(&lane->lock);
	slot->error = r;
	slot->ready = true;
	pthread_cond_broadcast(&lane->changed);
	pthread_mutex_unlock(&lane->lock);
}

static void request_chunk(struct lane *lane, size_t number)
{
	struct slot *slot = &lane->slots[number % lane->slot_count];

	slot->number = number;
	slot->index = lane->chunks[number];
	slot->ready = false;
	pool_give(lane->feed->pool, slot);
}

static int wait_for_slot(struct lane *lane, struct slot *slot)
{
	pthread_mutex_lock(&lane->lock);
	while (!slot->ready)
		pthread_cond_wait(&lane->changed, &lane->lock);
	pthread_mutex_unlock(&lane->lock);
	return slot->error;
}

// Moves pages of this process into the pipe without copying: they must not change until CRIU has read them. Returns 0
// or -errno; -EPIPE: CRIU has closed the pipe.
static int hand_over(int pipe, unsigned char *data, size_t length)
{
	while (length > 0) {
		const struct iovec part = {.iov_base = data, .iov_len = length};
		ssize_t count = vmsplice(pipe, &part, 1, 0);
		if (count < 0 && errno != EINTR)
			return -errno;
		if (count > 0) {
			data += count;
			length -= (size_t)count;
		}
	}
	return 0;
}

static enum vg_status fail_lane(const struct lane *lane, int error)
{
	return vg_fail(VG_SYSTEM, error, "%s/%s: %s", lane->feed->path, lane->file->name, strerror(error));
}

static enum vg_status fail_chunk(const struct lane *lane, int r, size_t index, uint64_t sum)
{
	return image_chunk_fail(r, lane->feed->path, lane->file, index, lane->offsets[index], sum);
}

static void count_progress(const struct lane *lane, size_t index)
{
	if (lane->progress)
		*lane->progress += image_chunk_length(lane->file, index);
}

// Gives one chunk to CRIU. Returns 0 or -EPIPE (CRIU has closed the pipe) without setting *ret_status. If the chunk
// cannot be read or written, returns another number, and sets *ret_status to VG_INTEGRITY or VG_SYSTEM.
static int give_one(struct lane *lane, struct slot *slot, enum vg_status *ret_status)
{
	int r = wait_for_slot(lane, slot);
	if (r) {
		*ret_status = fail_chunk(lane, r, slot->index, slot->sum);
		return r;
	}
	r = hand_over(lane->output, slot->given, image_chunk_length(lane->file, slot->index));
	if (r && r != -EPIPE)
		*ret_status = fail_lane(lane, -r);
	count_progress(lane, slot->index);
	return r;
}

static enum vg_status give_chunks(struct lane *lane)
{
	enum vg_status status = VG_OK;
	size_t ordered = 0, given = 0;
	int r = 0;

	while (r == 0 && given < lane->chunk_count) {
		while (ordered < lane->chunk_count && ordered < given + lane->slot_count - lane->behind)
			request_chunk(lane, ordered++);
		r = give_one(lane, &lane->slots[given++ % lane->slot_count], &status);
	}
	while (given < ordered)
		wait_for_slot(lane, &lane->slots[given++ % lane->slot_count]);
	return status;
}

// Verifies a chunk of zeros that is not passed to CRIU. Most of these chunks are holes of the file, which need no
// reading.
static enum vg_status look_at(const struct lane *lane, size_t index)
{
	uint64_t sum = 0;

	int r = image_chunk_load(lane->input, lane->file, index, lane->offsets[index], lane->slots[0].data, &sum);
	if (r)
		return fail_chunk(lane, r, index, sum);
	count_progress(lane, index);
	return VG_OK;
}

static enum vg_status feed_chunks(struct lane *lane, const bool *without)
{
	enum vg_status status = VG_OK;

	for (size_t i = 0; i < lane->file->chunk_count && status == VG_OK; i++)
		if (without && without[i])
			status = look_at(lane, i);
		else
			lane->chunks[lane->chunk_count++] = i;
	return status ? status : give_chunks(lane);
}

// Enlarges the pipe, so that this process and CRIU wake each other less often. Returns the pipe's capacity.
static size_t enlarge_pipe(int pipe)
{
	if (fcntl(pipe, F_SETPIPE_SZ, PIPE_BYTES) < 0)
		fcntl(pipe, F_SETPIPE_SZ, USERS_PIPE_BYTES); // the pipe limit of a user usually allows this size
	int bytes = fcntl(pipe, F_GETPIPE_SZ);
	return bytes > 0 ? (size_t)bytes : PIPE_BYTES;
}

enum vg_status feed_file(struct feed *feed, const struct image_file *file, const bool *without, int input, int output,
			 _Atomic uint64_t *progress)
{
	struct lane lane = {.feed = feed, .file = file, .input = input, .output = output, .progress = progress};
	enum vg_status status;

	pthread_mutex_init(&lane.lock, NULL);
	pthread_cond_init(&lane.changed, NULL);
	// The pipe refers to the pages of the buffers, so a buffer must not be reused while its chunk is in the pipe.
	// `behind` is the largest number of buffers whose pages can be in the pipe.
	lane.behind = 1 + (enlarge_pipe(output) + file->chunk_bytes - 1) / file->chunk_bytes;
	lane.ahead = AHEAD_BYTES / file->chunk_bytes;
	size_t slots = feed->worker_count + 1 + lane.behind;
	lane.offsets = image_chunk_offsets(file);
	lane.chunks = calloc(file->chunk_count + 1, sizeof *lane.chunks);
	lane.slots = calloc(slots, sizeof *lane.slots);
	while (lane.slots && lane.slot_count < slots) {
		void *data = mmap(NULL, file->chunk_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (data == MAP_FAILED)
			break;
		madvise(data, file->chunk_bytes, MADV_HUGEPAGE);
		lane.slots[lane.slot_count++] = (struct slot){.lane = &lane, .data = data};
	}
	bool ready = lane.offsets && lane.chunks && lane.slot_count == slots;
	status = ready ? feed_chunks(&lane, without) : fail_lane(&lane, ENOMEM);
	for (size_t i = 0; i < lane.slot_count; i++)
		munmap(lane.slots[i].data, file->chunk_bytes);
	free(lane.slots);
	free(lane.chunks);
	free(lane.offsets);
	pthread_cond_destroy(&lane.changed);
	pthread_mutex_destroy(&lane.lock);
	return status;
}

// ---- the feed ---------------------------------------------------------------------------------------

void feed_destroy(struct feed *feed)
{
	if (!feed)
		return;
	pool_destroy(feed->pool);
	for (unsigned i = 0; feed->workers && i < feed->worker_count; i++) {
		for (int method = 0; method < 3; method++)
			codec_destroy(feed->workers[i].codecs[method]);
		free(feed->workers[i].stored);
	}
	free(feed->workers);
	if (feed->zeros != MAP_FAILED)
		munmap(feed->zeros, feed->chunk_bytes + 1);
	free(feed);
}

static int make_workers(struct feed *feed)
{
	feed->zeros = mmap(NULL, feed->chunk_bytes + 1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (feed->zeros == MAP_FAILED)
		return -ENOMEM;
	feed->worker_count = pool_threads(0);
	feed->workers = calloc(feed->worker_count, sizeof *feed->workers);
	for (unsigned i = 0; feed->workers && i < feed->worker_count; i++) {
		struct worker *worker = &feed->workers[i];
		worker->stored = malloc(chunk_map_bytes(feed->chunk_bytes) + feed->chunk_bytes + 1);
		if (!worker->stored)
			return -ENOMEM;
		for (int method = 0; method < 3; method++)
			if (!(worker->codecs[method] = codec_create((enum vg_compression)method, 0)))
				return -ENOMEM;
	}
	return feed->workers ? pool_create(feed->worker_count, load_slot, &feed->pool) : -ENOMEM;
}

int feed_create(const struct image_files *files, const char *path, struct feed **ret_feed)
{
	struct feed *feed = calloc(1, sizeof *feed);

	if (!feed)
		return -ENOMEM;
	*feed = (struct feed){.path = path, .chunk_bytes = image_files_largest_chunk(files)};
	int r = make_workers(feed);
	if (r) {
		feed_destroy(feed);
		return r;
	}
	*ret_feed = feed;
	return 0;
}
