#define XXH_INLINE_ALL
#include <xxhash.h>

#include "checkpoint/serve.h"

#include "base/descriptor.h"
#include "base/status.h"
#include "checkpoint/image_chunk.h"
#include "checkpoint/pool.h"
#include "checkpoint/streamer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PIPE_BYTES = 16 << 20, USERS_PIPE_BYTES = 1 << 20, PIECE = 64 << 10 };

// A file on its way to CRIU.
struct outgoing {
	struct serve *serve;
	struct outgoing *next;
	const struct image_file *file;
	int input, output;
	pthread_t thread;
	uint64_t *offsets;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	size_t slot_count, behind; // behind: that may still lie in the pipe
	struct slot *slots;
};

// A chunk ahead of CRIU.
struct slot {
	struct outgoing *of;
	size_t index;
	bool ready, failed;
	unsigned char *data; // mapped for itself: pages that lie in a pipe outlive that
	unsigned char *given; // that, or zeros
};

struct worker {
	struct codec *codecs[3];
	unsigned char *stored;
};

struct serve {
	const struct image_files *files;
	const char *path, *function;
	unsigned tree;
	int folder;
	_Atomic uint64_t *progress;
	struct streamer *streamer;
	struct pool *pool;
	unsigned worker_count;
	struct worker *workers;
	uint32_t chunk_bytes; // of the largest chunk
	unsigned char *zeros; // as many
	pthread_mutex_t lock; // for all below
	struct outgoing *outgoing;
	enum vg_status status; // the first failure
	int code;
	char text[512];
};

// What the thread's last error says becomes what the restore says.
static void fail(struct serve *serve, enum vg_status status)
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
	fail(of->serve, vg_fail(VG_SYSTEM, error, of->serve->function, "%s/%s: %s", of->serve->path, of->file->name,
				strerror(error)));
}

// ---- chunks ------------------------------------------------------------------------------------------

static bool load(struct worker *worker, struct slot *slot)
{
	const struct outgoing *of = slot->of;
	const struct image_file *file = of->file;
	struct serve *serve = of->serve;
	uint32_t length = file->chunks[slot->index].stored;
	uint64_t sum = 0;

	unsigned char *stored = file->compression ? worker->stored : slot->data;
	int r = image_chunk_load(of->input, file, slot->index, of->offsets[slot->index], stored, &sum);
	if (r == 0 && length && file->compression &&
	    !codec_unpack(worker->codecs[file->compression], stored, length, slot->data,
			  image_chunk_length(file, slot->index)))
		r = -EBADMSG;
	slot->given = length ? slot->data : of->serve->zeros;
	if (r)
		fail(serve, image_chunk_fail(r, serve->path, file, slot->index, of->offsets[slot->index], sum,
					     serve->function));
	return r == 0;
}

static void work(unsigned number, void *user)
{
	struct slot *slot = user;
	struct outgoing *of = slot->of;

	bool loaded = load(&of->serve->workers[number], slot);
	pthread_mutex_lock(&of->lock);
	slot->failed = !loaded;
	slot->ready = true;
	pthread_cond_broadcast(&of->changed);
	pthread_mutex_unlock(&of->lock);
}

static void order(struct outgoing *of, size_t index)
{
	struct slot *slot = &of->slots[index % of->slot_count];

	slot->index = index;
	slot->ready = slot->failed = false;
	pool_give(of->serve->pool, slot);
}

static bool await(struct outgoing *of, struct slot *slot)
{
	pthread_mutex_lock(&of->lock);
	while (!slot->ready)
		pthread_cond_wait(&of->changed, &of->lock);
	bool loaded = !slot->failed;
	pthread_mutex_unlock(&of->lock);
	return loaded;
}

// The pipe holds the pages themselves: they must stay as they are until CRIU has read them. -EPIPE: it wants no more.
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

static void give_chunks(struct outgoing *of)
{
	const struct image_file *file = of->file;
	size_t ordered = 0, given = 0;
	bool going = true;

	while (going && given < file->chunk_count) {
		while (ordered < file->chunk_count && ordered < given + of->slot_count - of->behind)
			order(of, ordered++);
		struct slot *slot = &of->slots[given % of->slot_count];
		size_t length = image_chunk_length(file, given);
		int r = await(of, slot) ? hand_over(of->output, slot->given, length) : -ECANCELED;
		if (r && r != -EPIPE && r != -ECANCELED)
			fail_file(of, -r);
		going = r == 0;
		given++;
		if (of->serve->progress)
			*of->serve->progress += length;
	}
	while (given < ordered)
		await(of, &of->slots[given++ % of->slot_count]);
}

// Who reads a pipe and who fills it take turns: the more it holds, the fewer they are. What it holds now.
static size_t widen(int pipe)
{
	if (fcntl(pipe, F_SETPIPE_SZ, PIPE_BYTES) < 0)
		fcntl(pipe, F_SETPIPE_SZ, USERS_PIPE_BYTES); // what a user's share of pipes allows, mostly
	int bytes = fcntl(pipe, F_GETPIPE_SZ);
	return bytes > 0 ? (size_t)bytes : PIPE_BYTES;
}

static void serve_chunks(struct outgoing *of)
{
	const struct image_file *file = of->file;
	size_t count = of->serve->worker_count + 1;

	// A slot is filled again when as much as a pipe holds has gone after it.
	of->behind = 1 + (widen(of->output) + file->chunk_bytes - 1) / file->chunk_bytes;
	count += of->behind;
	of->offsets = image_chunk_offsets(file);
	of->slots = calloc(count, sizeof *of->slots);
	while (of->slots && of->slot_count < count) {
		void *data = mmap(NULL, file->chunk_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (data == MAP_FAILED)
			break;
		madvise(data, file->chunk_bytes, MADV_HUGEPAGE);
		of->slots[of->slot_count++] = (struct slot){.of = of, .data = data};
	}
	if (of->offsets && of->slot_count == count)
		give_chunks(of);
	else
		fail_file(of, ENOMEM);
	for (size_t i = 0; i < of->slot_count; i++)
		munmap(of->slots[i].data, file->chunk_bytes);
	free(of->slots);
	free(of->offsets);
}

// ---- files -------------------------------------------------------------------------------------------

// It was looked at before CRIU was started; here it is seen to be that still.
static void serve_whole(struct outgoing *of)
{
	unsigned char *piece = malloc(PIECE);
	XXH3_state_t state;
	ssize_t length = 0;
	int r = piece ? 0 : -ENOMEM;

	XXH3_64bits_reset(&state);
	while (r == 0 && (length = vg_read_all(of->input, piece, PIECE, -1)) > 0) {
		XXH3_64bits_update(&state, piece, (size_t)length);
		r = vg_write_all(of->output, piece, (size_t)length);
		if (of->serve->progress)
			*of->serve->progress += (uint64_t)length;
	}
	free(piece);
	r = r ? r : length < 0 ? (int)length : 0;
	if (r && r != -EPIPE)
		fail_file(of, -r);
	if (r == 0 && XXH3_64bits_digest(&state) != of->file->sum)
		fail(of->serve, vg_fail(VG_INTEGRITY, 0, of->serve->function, "%s/%s has changed since it was looked at",
					of->serve->path, of->file->name));
}

static void *give(void *user)
{
	struct outgoing *of = user;

	if (of->file->chunk_bytes)
		serve_chunks(of);
	else
		serve_whole(of);
	close(of->output);
	close(of->input);
	return NULL;
}

// By CRIU's name, whatever its compression.
static const struct image_file *find(const struct serve *serve, const char *name)
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

static bool on_has(void *user, const char *name)
{
	return find(user, name) != NULL;
}

static void on_file(void *user, const char *name, int pipe_consume_fd)
{
	struct serve *serve = user;
	const struct image_file *file = find(serve, name);
	struct outgoing *of = calloc(1, sizeof *of);
	int r = of ? 0 : ENOMEM;

	if (of) {
		*of = (struct outgoing){.serve = serve, .file = file, .output = pipe_consume_fd, .input = -1};
		pthread_mutex_init(&of->lock, NULL);
		pthread_cond_init(&of->changed, NULL);
		of->input = openat(serve->folder, file->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		r = of->input < 0 ? errno : pthread_create(&of->thread, NULL, give, of);
	}
	if (r) {
		fail(serve, vg_fail(VG_SYSTEM, r, serve->function, "%s/%s: %s", serve->path, file->name, strerror(r)));
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

	// A CRIU that fails just goes: it says why itself.
	if (error != -ECONNRESET && error != -EPIPE)
		fail(serve, vg_fail(VG_SYSTEM, -error, serve->function, "CRIU's stream: %s", strerror(-error)));
}

// ---- all of it ---------------------------------------------------------------------------------------

static void destroy(struct serve *serve)
{
	pool_destroy(serve->pool);
	for (unsigned i = 0; serve->workers && i < serve->worker_count; i++) {
		for (int method = 0; method < 3; method++)
			codec_destroy(serve->workers[i].codecs[method]);
		free(serve->workers[i].stored);
	}
	free(serve->workers);
	while (serve->outgoing) {
		struct outgoing *of = serve->outgoing;
		serve->outgoing = of->next;
		pthread_mutex_destroy(&of->lock);
		pthread_cond_destroy(&of->changed);
		free(of);
	}
	if (serve->zeros && serve->zeros != MAP_FAILED)
		munmap(serve->zeros, serve->chunk_bytes + 1);
	if (serve->folder >= 0)
		close(serve->folder);
	pthread_mutex_destroy(&serve->lock);
	free(serve);
}

static int make_workers(struct serve *serve)
{
	uint32_t chunk = image_files_largest_chunk(serve->files);

	serve->chunk_bytes = chunk;
	serve->zeros = mmap(NULL, chunk + 1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (serve->zeros == MAP_FAILED)
		return -ENOMEM;
	serve->worker_count = pool_threads(0);
	serve->workers = calloc(serve->worker_count, sizeof *serve->workers);
	for (unsigned i = 0; serve->workers && i < serve->worker_count; i++) {
		struct worker *worker = &serve->workers[i];
		worker->stored = malloc(chunk_map_bytes(chunk) + chunk + 1);
		if (!worker->stored)
			return -ENOMEM;
		for (int method = 0; method < 3; method++)
			if (!(worker->codecs[method] = codec_create((enum vg_compression)method, 0)))
				return -ENOMEM;
	}
	return serve->workers ? pool_create(serve->worker_count, work, &serve->pool) : -ENOMEM;
}

enum vg_status serve_begin(const struct image_files *files, const char *path, unsigned tree, const char *folder,
			   _Atomic uint64_t *progress, const char *function, struct serve **ret_serve)
{
	struct serve *serve = calloc(1, sizeof *serve);

	if (!serve)
		return vg_fail(VG_NO_MEMORY, 0, function, "no memory for what CRIU reads");
	*serve = (struct serve){
		.files = files, .path = path, .tree = tree, .progress = progress, .function = function};
	pthread_mutex_init(&serve->lock, NULL);
	const struct streamer_events events = {
		.serves = true, .has = on_has, .file = on_file, .broken = on_broken, .user = serve};
	serve->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = serve->folder < 0 ? -errno : make_workers(serve);
	if (r == 0)
		r = streamer_start(folder, &events, &serve->streamer);
	if (r) {
		destroy(serve);
		return vg_fail(r == -ENOMEM ? VG_NO_MEMORY : VG_SYSTEM, -r, function, "%s: cannot be given to CRIU: %s", path,
			       strerror(-r));
	}
	*ret_serve = serve;
	return VG_OK;
}

enum vg_status serve_end(struct serve *serve, const char *function)
{
	streamer_stop(serve->streamer);
	for (struct outgoing *of = serve->outgoing; of; of = of->next)
		pthread_join(of->thread, NULL);
	enum vg_status status = serve->status;
	if (status)
		vg_fail(status, serve->code, function, "%s", serve->text);
	destroy(serve);
	return status;
}
