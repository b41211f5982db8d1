#include "checkpoint/device/in.h"

#include "base/descriptor.h"
#include "base/size.h"
#include "base/status.h"
#include "checkpoint/data/pool.h"
#include "checkpoint/image/directory.h"
#include "pager/host_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_THREADS = 16 };

struct fill {
	const struct image_dir *dir;
	const struct device_block *blocks, *have;
	size_t count;
	int fd;
	struct phase *phase;
	_Atomic uint64_t *progress;
	_Atomic size_t next;
	_Atomic bool stop;
	pthread_mutex_t lock; // protects the members below
	enum vg_status status;
	struct vg_kept_error error;
};

// Keeps the last error of this thread as the error of the fill, unless the fill has an earlier one.
static void keep_error(struct fill *fill, enum vg_status status)
{
	pthread_mutex_lock(&fill->lock);
	if (!fill->status) {
		fill->status = status;
		vg_error_keep(&fill->error);
	}
	pthread_mutex_unlock(&fill->lock);
	fill->stop = true;
}

// Opens the pack of a block, unless `*pack` is open already.
static int open_pack(const struct fill *fill, const struct device_block *block, int *pack, uint32_t *number)
{
	char name[32];

	if (*pack >= 0 && *number == block->pack)
		return 0;
	if (*pack >= 0)
		close(*pack);
	snprintf(name, sizeof name, DEVICE_PACK_FORMAT, (unsigned)block->pack);
	*pack = image_open_file(fill->dir->fd, name);
	*number = block->pack;
	return *pack < 0 ? *pack : 0;
}

static enum vg_status fill_block(struct fill *fill, size_t index, int *pack, uint32_t *number, unsigned char *buffer)
{
	const struct device_block *block = &fill->blocks[index];
	unsigned char *data = buffer + DEVICE_STORED_MOST;

	int r = open_pack(fill, block, pack, number);
	if (r == 0)
		r = device_block_load(*pack, block, buffer);
	if (r == 0 && !device_block_unpack(block, buffer, data))
		r = DEVICE_DAMAGED;
	if (r)
		return device_block_fail(r, fill->dir->path, block);
	r = vg_write_all(fill->fd, data, DEVICE_BLOCK, (off_t)index * DEVICE_BLOCK);
	return r ? vg_fail(VG_SYSTEM, -r, "the file for the host memory of a process: %s", strerror(-r)) : VG_OK;
}

// Returns whether the file already has the right contents at this block.
static bool is_there(const struct fill *fill, size_t index)
{
	const struct device_block *block = &fill->blocks[index], *have = fill->have ? &fill->have[index] : NULL;

	if (!have)
		return block->codec == DEVICE_ZERO;
	if (block->codec == DEVICE_ZERO || have->codec == DEVICE_ZERO)
		return block->codec == have->codec;
	return memcmp(block->digest, have->digest, DIGEST_BYTES) == 0;
}

static enum vg_status clear_block(struct fill *fill, size_t index)
{
	off_t at = (off_t)index * DEVICE_BLOCK;

	if (fallocate(fill->fd, FALLOC_FL_ZERO_RANGE, at, DEVICE_BLOCK) == 0 ||
	    fallocate(fill->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, DEVICE_BLOCK) == 0)
		return VG_OK;
	return vg_fail(VG_SYSTEM, errno, "the file for the host memory of a process: %s", strerror(errno));
}

static void *fill_blocks(void *user)
{
	unsigned char *buffer = malloc(DEVICE_STORED_MOST + DEVICE_BLOCK);
	struct fill *fill = user;
	uint32_t number = 0;
	int pack = -1;
	size_t index;

	if (!buffer)
		keep_error(fill, vg_fail(VG_NO_MEMORY, 0, "no memory for a block"));
	while (!fill->stop && (index = fill->next++) < fill->count) {
		enum vg_status status = VG_OK;
		if (!is_there(fill, index))
			status = fill->blocks[index].codec == DEVICE_ZERO
					 ? clear_block(fill, index)
					 : fill_block(fill, index, &pack, &number, buffer);
		if (status)
			keep_error(fill, status);
		if (fill->progress)
			*fill->progress += DEVICE_BLOCK;
	}
	if (pack >= 0)
		close(pack);
	free(buffer);
	return NULL;
}

static void report_progress(struct fill *fill)
{
	if (fill->phase)
		phase_tick(fill->phase);
	if (fill->phase && fill->phase->stop)
		fill->stop = true;
}

static void join_thread(struct fill *fill, pthread_t thread)
{
	while (!phase_join(thread))
		report_progress(fill);
}

// Allocates all pages of the file now. Otherwise the process would be killed when it touches a page for which there is
// no memory.
static enum vg_status allocate_pages(int fd, uint64_t bytes)
{
	char text[VG_SIZE_TEXT];

	if (bytes == 0 || fallocate(fd, 0, 0, (off_t)bytes) == 0)
		return VG_OK;
	int error = errno;
	enum vg_status status =
		vg_fail(error == ENOSPC ? VG_INSUFFICIENT : VG_SYSTEM, error,
			"cannot write %s of device memory to " PAGER_FILE_DIRECTORY " for its process: %s",
			vg_size_format(bytes, text), strerror(error));
	if (error == ENOSPC)
		vg_fail_amounts(bytes, 0);
	return status;
}

enum vg_status device_in_fill(const struct image_dir *dir, const struct device_index *index, size_t memory,
			      const struct device_block *have, int fd, struct phase *phase, _Atomic uint64_t *progress)
{
	struct fill fill = {.dir = dir,
			    .blocks = index->blocks + device_index_first(index, memory),
			    .have = have,
			    .count = index->memories[memory].bytes / DEVICE_BLOCK,
			    .fd = fd,
			    .phase = phase,
			    .progress = progress};
	pthread_t threads[MOST_THREADS];
	unsigned wanted = pool_threads(0), count = 0;

	enum vg_status status = allocate_pages(fd, index->memories[memory].bytes);
	if (status)
		return status;
	pthread_mutex_init(&fill.lock, NULL);
	wanted = wanted < MOST_THREADS ? wanted : MOST_THREADS;
	while (count < wanted && pthread_create(&threads[count], NULL, fill_blocks, &fill) == 0)
		count++;
	if (count == 0)
		fill_blocks(&fill);
	report_progress(&fill);
	for (unsigned i = 0; i < count; i++)
		join_thread(&fill, threads[i]);
	pthread_mutex_destroy(&fill.lock);
	if (fill.status)
		return vg_fail(fill.status, fill.error.error.code, "%s", fill.error.text);
	else if (fill.stop)
		return vg_fail(VG_STATE, 0, "stopped while device memory was being read, as asked");
	return fill.status;
}
