#include "checkpoint/device/out.h"

#include "base/descriptor.h"
#include "base/status.h"
#include "checkpoint/data/pool.h"
#include "checkpoint/data/sum.h"
#include "checkpoint/image/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <lz4.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_THREADS = 16, COPY_PIECE = 8 << 20 };

struct pack {
	uint64_t bytes;
	bool is_base;
};

struct device_out {
	struct image_draft *draft;
	const struct device_bases *bases;
	const struct device_packed *packed; // may be NULL
	struct device_source *sources;
	struct device_index index;
	size_t *first; // for each block: index of the first block with the same bytes, which may be the block itself
	struct pack *packs;
	pthread_t thread;
	_Atomic size_t next;
	_Atomic bool stop;
	_Atomic uint64_t done_bytes;
	pthread_mutex_t lock; // protects the members below, while there are workers
	int pack_fd;	      // descriptor of the last pack, to which blocks are added; -1: no pack is open
	int error;	      // errno of the first error; 0: none
	char where[64];	      // name of the file in the image where the error occurred; "": the source file
	struct device_written written;
};

// A function that processes one block. `data` and `packed` are buffers for its use.
typedef int step_fn(struct device_out *out, size_t block, unsigned char *data, unsigned char *packed);

static void keep_error(struct device_out *out, int r, const char *where)
{
	pthread_mutex_lock(&out->lock);
	if (!out->error) {
		out->error = -r;
		snprintf(out->where, sizeof out->where, "%s", where);
	}
	pthread_mutex_unlock(&out->lock);
	out->stop = true;
}

// ---- all blocks, by threads ----------------------------------------------------------------------------

struct crew {
	struct device_out *out;
	step_fn *step;
};

static void *run_steps(void *user)
{
	const struct crew *crew = user;
	struct device_out *out = crew->out;
	unsigned char *data = malloc(2 * (size_t)DEVICE_BLOCK);
	size_t block;

	if (!data)
		keep_error(out, -ENOMEM, "");
	while (!out->stop && (block = out->next++) < out->index.block_count) {
		int r = crew->step(out, block, data, data + DEVICE_BLOCK);
		if (r)
			keep_error(out, r, "");
		out->done_bytes += DEVICE_BLOCK;
	}
	free(data);
	return NULL;
}

static void for_all_blocks(struct device_out *out, step_fn *step)
{
	struct crew crew = {out, step};
	pthread_t threads[MOST_THREADS];
	unsigned wanted = pool_threads(out->draft->threads), count = 0;

	out->next = 0;
	// Leave a processor to what runs meanwhile: the pager, the driver, and CRIU.
	if (!out->draft->threads && wanted > 2)
		wanted--;
	wanted = wanted < MOST_THREADS ? wanted : MOST_THREADS;
	while (count + 1 < wanted && pthread_create(&threads[count], NULL, run_steps, &crew) == 0)
		count++;
	run_steps(&crew);
	for (unsigned i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

// ---- digests -------------------------------------------------------------------------------------------

static int read_block(const struct device_out *out, size_t block, unsigned char *data)
{
	size_t memory = 0;

	while (block >= out->index.memories[memory].bytes / DEVICE_BLOCK)
		block -= out->index.memories[memory++].bytes / DEVICE_BLOCK;
	ssize_t length = vg_read_all(out->sources[memory].fd, data, DEVICE_BLOCK, (off_t)block * DEVICE_BLOCK);
	return length < 0 ? (int)length : length == DEVICE_BLOCK ? 0 : -EIO;
}

static bool is_zero(const unsigned char *data)
{
	return data[0] == 0 && memcmp(data, data + 1, DEVICE_BLOCK - 1) == 0;
}

static int find_digest(struct device_out *out, size_t number, unsigned char *data, unsigned char *packed)
{
	struct device_block *block = &out->index.blocks[number];
	int r = read_block(out, number, data);

	(void)packed;
	if (r || is_zero(data))
		return r;
	block->codec = DEVICE_RAW;
	digest_block(data, DEVICE_BLOCK, block->digest);
	return 0;
}

// ---- plan ----------------------------------------------------------------------------------------------

// Finds blocks with equal digests.
static int find_first(struct device_out *out)
{
	size_t count = out->index.block_count, capacity = 64, at;
	struct device_block *blocks = out->index.blocks;
	uint64_t hash;

	while (capacity < 2 * count)
		capacity *= 2;
	// A hash table; an entry is 1 + the number of a block; 0: empty.
	size_t *table = calloc(capacity, sizeof *table);
	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		out->first[i] = i;
		if (blocks[i].codec == DEVICE_ZERO)
			continue;
		memcpy(&hash, blocks[i].digest, sizeof hash);
		for (at = hash & (capacity - 1); table[at]; at = (at + 1) & (capacity - 1))
			if (memcmp(blocks[table[at] - 1].digest, blocks[i].digest, DIGEST_BYTES) == 0)
				break;
		if (table[at])
			out->first[i] = table[at] - 1;
		else
			table[at] = i + 1;
	}
	free(table);
	return 0;
}

static int add_pack(struct device_out *out, const struct pack *pack, unsigned *ret_pack)
{
	struct pack *grown = realloc(out->packs, (out->index.pack_count + 1) * sizeof *grown);

	if (!grown)
		return -ENOMEM;
	out->packs = grown;
	if (out->index.pack_count == DEVICE_MOST_PACKS)
		return -EFBIG;
	grown[out->index.pack_count] = *pack;
	*ret_pack = out->index.pack_count++;
	return 0;
}

static int copy_pack(int from_directory, const char *from, int to_directory, const char *to)
{
	_cleanup_close_ int in = image_open_file(from_directory, from);
	_cleanup_close_ int out = openat(to_directory, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	char *piece = malloc(COPY_PIECE);
	int r = in < 0 ? in : out < 0 ? -errno : piece ? 0 : -ENOMEM;
	ssize_t length = 0;

	while (r == 0 && (length = vg_read_all(in, piece, COPY_PIECE, -1)) > 0)
		r = vg_write_all(out, piece, (size_t)length, -1);
	free(piece);
	return r ? r : length < 0 ? (int)length : 0;
}

// Adds a pack of a base to this image, under the next number.
static int take_pack(struct device_out *out, const struct device_base *base, unsigned from, unsigned *ret_pack)
{
	const struct pack pack = {.bytes = base->pack_bytes[from], .is_base = true};
	char from_name[32], to_name[32];

	int r = add_pack(out, &pack, ret_pack);
	if (r)
		return r;
	snprintf(from_name, sizeof from_name, DEVICE_PACK_FORMAT, from);
	snprintf(to_name, sizeof to_name, DEVICE_PACK_FORMAT, *ret_pack);
	if (linkat(base->dir.fd, from_name, out->draft->lock, to_name, 0) == 0) {
		out->written.linked_bytes += pack.bytes;
		return 0;
	}
	// Copy the pack if a link to it is impossible, for example because the base is on another file system.
	if (errno != EXDEV && errno != EPERM && errno != EOPNOTSUPP && errno != EMLINK)
		return -errno;
	r = copy_pack(base->dir.fd, from_name, out->draft->lock, to_name);
	out->written.copied_bytes += r ? 0 : pack.bytes;
	return r;
}

// Counts, for each pack of a base, how many bytes of the pack the new image would use.
static uint64_t *count_use(const struct device_out *out, size_t base)
{
	uint64_t *use = calloc(out->bases->list[base].index.pack_count + 1, sizeof *use);

	for (size_t i = 0; i < out->index.block_count && use; i++) {
		if (out->index.blocks[i].codec == DEVICE_ZERO || out->first[i] != i)
			continue;
		struct device_found found = device_bases_find(out->bases, out->index.blocks[i].digest);
		if (found.block && found.base == base)
			use[found.block->pack] += found.block->length;
	}
	return use;
}

// Adds a pack of the base to the new image if the image uses at least half of the pack's bytes. The image's blocks then
// refer to these packs.
static int use_base(struct device_out *out, size_t number)
{
	const struct device_base *base = &out->bases->list[number];
	uint64_t *use = count_use(out, number);
	unsigned *taken = calloc(base->index.pack_count + 1, sizeof *taken); // number in the image + 1; 0: not added
	int r = use && taken ? 0 : -ENOMEM;

	for (unsigned pack = 0; pack < base->index.pack_count && r == 0; pack++)
		if (use[pack] && use[pack] >= base->pack_bytes[pack] / 2) {
			r = take_pack(out, base, pack, &taken[pack]);
			taken[pack]++;
		}
	for (size_t i = 0; i < out->index.block_count && r == 0; i++) {
		struct device_block *block = &out->index.blocks[i];
		struct device_found found = {0};
		if (block->codec != DEVICE_ZERO && block->length == 0)
			found = device_bases_find(out->bases, block->digest);
		if (!found.block || found.base != number || !taken[found.block->pack])
			continue;
		*block = *found.block;
		block->pack = taken[found.block->pack] - 1;
	}
	free(use);
	free(taken);
	return r;
}

static int plan_blocks(struct device_out *out)
{
	int r = find_first(out);

	for (size_t i = 0; i < out->bases->count && r == 0; i++)
		r = use_base(out, i);
	for (size_t i = 0; i < out->index.block_count; i++)
		out->written.zero_bytes += out->index.blocks[i].codec == DEVICE_ZERO ? DEVICE_BLOCK : 0;
	return r;
}

// ---- blocks --------------------------------------------------------------------------------------------

// Begins another pack. The caller has the lock.
static int begin_pack(struct device_out *out)
{
	unsigned number;
	char name[32];

	int r = add_pack(out, &(struct pack){0}, &number);
	if (r)
		return r;
	snprintf(name, sizeof name, DEVICE_PACK_FORMAT, number);
	if (out->pack_fd >= 0)
		close(out->pack_fd);
	out->pack_fd = openat(out->draft->lock, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return out->pack_fd < 0 ? -errno : 0;
}

// Reserves room for a block in a pack. Returns a descriptor of the pack, which the caller closes, or -errno.
static int take_place(struct device_out *out, struct device_block *block)
{
	struct pack *last;
	int r = 0;

	pthread_mutex_lock(&out->lock);
	last = out->pack_fd >= 0 ? &out->packs[out->index.pack_count - 1] : NULL;
	if (!last || last->bytes + block->length > DEVICE_PACK) {
		r = begin_pack(out);
		last = r == 0 ? &out->packs[out->index.pack_count - 1] : NULL;
	}
	if (r == 0) {
		block->pack = out->index.pack_count - 1;
		block->offset = last->bytes;
		last->bytes += block->length;
		r = fcntl(out->pack_fd, F_DUPFD_CLOEXEC, 0);
		r = r < 0 ? -errno : r;
	}
	pthread_mutex_unlock(&out->lock);
	return r;
}

// Compresses the block if that saves at least a sixteenth. Returns the bytes to store.
static const unsigned char *pack_block(const struct device_out *out, struct device_block *block,
				       const unsigned char *data, unsigned char *packed)
{
	const int most = DEVICE_BLOCK / 16 * 15;
	int length = 0;

	if (out->draft->compression)
		length = LZ4_compress_default((const char *)data, (char *)packed, DEVICE_BLOCK, most);
	block->codec = length > 0 ? DEVICE_LZ4 : DEVICE_RAW;
	block->length = length > 0 ? (uint32_t)length : DEVICE_BLOCK;
	return length > 0 ? packed : data;
}

// Returns whether the block still has the digest that was computed when the block was read first.
static bool is_same(const struct device_out *out, size_t number, const unsigned char *data)
{
	uint8_t digest[DIGEST_BYTES];
	size_t memory = 0, block = number;

	while (block >= out->index.memories[memory].bytes / DEVICE_BLOCK)
		block -= out->index.memories[memory++].bytes / DEVICE_BLOCK;
	if (!out->sources[memory].is_loose)
		return true;
	digest_block(data, DEVICE_BLOCK, digest);
	return memcmp(digest, out->index.blocks[number].digest, DIGEST_BYTES) == 0;
}

static int store_block(struct device_out *out, size_t number, unsigned char *data, unsigned char *packed)
{
	struct device_block *block = &out->index.blocks[number];
	char name[32] = DEVICE_DIRECTORY;

	if (block->codec == DEVICE_ZERO || out->first[number] != number || block->length)
		return 0;
	int r = read_block(out, number, data);
	if (r == 0 && !is_same(out, number, data))
		r = -ESTALE;
	if (r)
		return r;
	const unsigned char *stored = pack_block(out, block, data, packed);
	block->sum = sum_bytes(stored, block->length);
	_cleanup_close_ int fd = take_place(out, block);
	r = fd < 0 ? fd : vg_write_all(fd, stored, block->length, (off_t)block->offset);
	if (r == 0)
		// have the kernel start writing to the disk
		sync_file_range(fd, (off_t)block->offset, block->length, SYNC_FILE_RANGE_WRITE);
	if (fd >= 0)
		snprintf(name, sizeof name, DEVICE_PACK_FORMAT, (unsigned)block->pack);
	if (r)
		keep_error(out, r, name);
	return 0;
}

static void *write_memory(void *user)
{
	struct device_out *out = user;
	int r = 0;

	for_all_blocks(out, find_digest);
	if (!out->stop)
		r = plan_blocks(out);
	if (r)
		keep_error(out, r, DEVICE_DIRECTORY);
	if (!out->stop)
		for_all_blocks(out, store_block);
	for (size_t i = 0; i < out->index.block_count && !out->stop; i++)
		out->index.blocks[i] = out->index.blocks[out->first[i]];
	if (!out->stop && out->packed)
		out->packed->call(out->packed->user, out->draft, out->index.pack_count);
	return NULL;
}

// ---- beginning and end ---------------------------------------------------------------------------------

static void free_out(struct device_out *out)
{
	for (size_t i = 0; i < out->index.memory_count; i++)
		close(out->sources[i].fd);
	if (out->pack_fd >= 0)
		close(out->pack_fd);
	pthread_mutex_destroy(&out->lock);
	device_index_free(&out->index);
	free(out->sources);
	free(out->first);
	free(out->packs);
	free(out);
}

static int prepare_out(struct device_out *out, const struct device_source *sources, size_t count)
{
	uint64_t blocks = 0;

	for (size_t i = 0; i < count; i++) {
		blocks += sources[i].bytes / DEVICE_BLOCK;
		if (sources[i].bytes % DEVICE_BLOCK || blocks > DEVICE_MOST_BLOCKS || count > DEVICE_MOST_MEMORIES)
			return -EFBIG;
	}
	out->written.bytes = blocks * DEVICE_BLOCK;
	out->index.block_count = blocks;
	out->index.blocks = calloc(blocks + 1, sizeof *out->index.blocks);
	out->first = calloc(blocks + 1, sizeof *out->first);
	out->index.memories = calloc(count + 1, sizeof *out->index.memories);
	if (!out->index.blocks || !out->first || !out->index.memories)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		out->index.memories[i] = (struct device_memory){(uint64_t)sources[i].pid, sources[i].bytes};
	return mkdirat(out->draft->lock, DEVICE_DIRECTORY, 0700) < 0 ? -errno : 0;
}

static enum vg_status cannot_start(int r, const struct image_draft *draft)
{
	return vg_fail(r == -ENOMEM ? VG_NO_MEMORY : VG_SYSTEM, -r, "%s/" DEVICE_DIRECTORY ": %s", draft->directory,
		       strerror(-r));
}

enum vg_status device_out_start(struct image_draft *draft, const struct device_source *consume_sources, size_t count,
				const struct device_bases *bases, const struct device_packed *packed,
				struct device_out **ret_out)
{
	struct device_out *out = calloc(1, sizeof *out);
	struct device_source *sources = malloc((count + 1) * sizeof *sources);

	if (!out || !sources) {
		for (size_t i = 0; i < count; i++)
			close(consume_sources[i].fd);
		free(out);
		free(sources);
		return cannot_start(-ENOMEM, draft);
	}
	memcpy(sources, consume_sources, count * sizeof *sources);
	*out = (struct device_out){.draft = draft, .bases = bases, .packed = packed, .sources = sources, .pack_fd = -1};
	out->index.memory_count = count;
	pthread_mutex_init(&out->lock, NULL);
	int r = prepare_out(out, sources, count);
	if (r == 0)
		r = -pthread_create(&out->thread, NULL, write_memory, out);
	if (r) {
		free_out(out);
		return cannot_start(r, draft);
	}
	*ret_out = out;
	return VG_OK;
}

uint64_t device_out_stored(struct device_out *out)
{
	uint64_t bytes = 0;

	pthread_mutex_lock(&out->lock);
	for (unsigned i = 0; i < out->index.pack_count; i++)
		bytes += out->packs[i].bytes;
	pthread_mutex_unlock(&out->lock);
	return bytes;
}

void device_out_abort(struct device_out *out)
{
	if (!out)
		return;
	out->stop = true;
	pthread_join(out->thread, NULL);
	free_out(out);
}

static void wait_for_end(struct device_out *out, struct phase *phase)
{
	while (!phase_join(out->thread)) {
		if (!phase)
			continue;
		phase->total = 2 * out->written.bytes; // each block is read twice: for its digest, and to be written
		phase->bytes = out->done_bytes;
		phase_tick(phase);
		if (phase->stop)
			out->stop = true;
	}
}

static int add_files(struct device_out *out, json_t *description)
{
	const struct device_written *written = &out->written;
	struct image_draft *draft = out->draft;
	char name[32];
	int r = device_index_write(&out->index, draft);

	for (unsigned i = 0; i < out->index.pack_count && r == 0; i++) {
		snprintf(name, sizeof name, DEVICE_PACK_FORMAT, i);
		draft->sizes.stored += out->packs[i].bytes;
		if (json_array_append_new(draft->files, json_pack("{s:s, s:I}", "name", name, "bytes",
								  (json_int_t)out->packs[i].bytes)))
			r = -ENOMEM;
	}
	draft->sizes.raw += written->bytes;
	if (r == 0 &&
	    json_object_set_new(description, "device",
				json_pack("{s:I, s:I, s:I, s:I}", "bytes", (json_int_t)written->bytes, "zero",
					  (json_int_t)written->zero_bytes, "linked", (json_int_t)written->linked_bytes,
					  "copied", (json_int_t)written->copied_bytes)))
		r = -ENOMEM;
	return r ? r : json_object_set_new(description, "version", json_integer(IMAGE_VERSION)) ? -ENOMEM : 0;
}

static enum vg_status report_outcome(const struct device_out *out)
{
	if (out->error == ESTALE && !*out->where)
		return vg_fail(VG_STATE, ESTALE, "the host memory of a process changed while it was read");
	if (out->error)
		return vg_fail(out->error == ENOMEM ? VG_NO_MEMORY : VG_SYSTEM, out->error, "%s%s%s: %s",
			       *out->where ? out->draft->directory : "the host memory of a process cannot be read",
			       *out->where ? "/" : "", out->where, strerror(out->error));
	if (out->stop)
		return vg_fail(VG_STATE, 0, "stopped while device memory was being written, as asked");
	return VG_OK;
}

static void count_new(struct device_out *out)
{
	for (unsigned i = 0; i < out->index.pack_count; i++)
		out->written.new_bytes += out->packs[i].is_base ? 0 : out->packs[i].bytes;
}

static enum vg_status make_base(struct device_out *out, struct device_base *ret_base)
{
	const struct image_dir dir = image_draft_dir(out->draft);
	struct device_base base = {.dir.fd = -1};

	enum vg_status status = image_open_again(&dir, &base.dir);
	base.pack_bytes = calloc(out->index.pack_count + 1, sizeof *base.pack_bytes);
	if (status == VG_OK && !base.pack_bytes)
		status = vg_fail(VG_NO_MEMORY, 0, "no memory for %u packs", out->index.pack_count);
	if (status) {
		device_base_close(&base);
		return status;
	}
	for (unsigned i = 0; i < out->index.pack_count; i++)
		base.pack_bytes[i] = out->packs[i].bytes;
	base.index = out->index;
	// `base` owns the index from here on. Keep only the number of memories, because free_out() closes the
	// descriptor of the source of each memory.
	out->index = (struct device_index){.memory_count = out->index.memory_count};
	*ret_base = base;
	return VG_OK;
}

enum vg_status device_out_finish_base(struct device_out *out, struct phase *phase, struct device_written *ret_written,
				      struct device_base *ret_base)
{
	wait_for_end(out, phase);
	enum vg_status status = report_outcome(out);
	count_new(out);
	if (status == VG_OK)
		status = make_base(out, ret_base);
	if (status == VG_OK)
		*ret_written = out->written;
	free_out(out);
	return status;
}

enum vg_status device_out_finish(struct device_out *out, json_t *description, struct phase *phase,
				 struct device_written *ret_written)
{
	wait_for_end(out, phase);
	if (!out->stop) {
		int r = add_files(out, description);
		if (r)
			keep_error(out, r, DEVICE_INDEX);
	}
	enum vg_status status = report_outcome(out);
	count_new(out);
	if (status == VG_OK)
		*ret_written = out->written;
	free_out(out);
	return status;
}
