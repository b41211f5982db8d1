#include "checkpoint/device/in.h"

#include "base/descriptor.h"
#include "base/size.h"
#include "base/status.h"
#include "checkpoint/data/pool.h"
#include "checkpoint/device/reader.h"
#include "checkpoint/image/directory.h"
#include "pager/host_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MOST_THREADS = 16 };

struct fill {
	const struct image_dir *dir;
	const struct device_block *blocks, *have;
	size_t count;
	int fd;
	char *map; // the file, mapped; NULL: it is written without a mapping
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

static enum vg_status fail_room(uint64_t bytes, int error)
{
	struct statvfs info;
	char text[VG_SIZE_TEXT];
	enum vg_status status =
		vg_fail(error == ENOSPC ? VG_INSUFFICIENT : VG_SYSTEM, error,
			"cannot write %s of device memory to " PAGER_FILE_DIRECTORY " for its process: %s",
			vg_size_format(bytes, text), strerror(error));

	if (error == ENOSPC)
		vg_fail_amounts(bytes,
				statvfs(PAGER_FILE_DIRECTORY, &info) < 0 ? 0 : (uint64_t)info.f_bavail * info.f_frsize);
	return status;
}

// Allocates the pages of a block. Otherwise the process would be killed when it touches a page for which there is no
// memory. Without a mapping, open_file() has allocated them.
static enum vg_status allocate_block(const struct fill *fill, size_t index)
{
	struct stat info;

	if (!fill->map || madvise(fill->map + index * DEVICE_BLOCK, DEVICE_BLOCK, MADV_POPULATE_WRITE) == 0)
		return VG_OK;
	if (errno != EFAULT)
		return fail_room(fill->count * DEVICE_BLOCK, errno);
	// EFAULT stands for the SIGBUS that a program would get.
	if (fstat(fill->fd, &info) == 0 && (uint64_t)info.st_size < (index + 1) * DEVICE_BLOCK)
		return vg_fail(VG_INTEGRITY, 0, "the file for the host memory of a process was truncated");
	return fail_room(fill->count * DEVICE_BLOCK, ENOSPC);
}

// Writes a block of the file. The kernel lets only one thread at a time write to a file with pwrite(), but many through
// a mapping. process_vm_writev() writes there without a SIGBUS if another process truncates the file.
static enum vg_status write_block(const struct fill *fill, size_t index, const unsigned char *data)
{
	struct iovec from = {(void *)data, DEVICE_BLOCK}, to = {fill->map, DEVICE_BLOCK};

	if (fill->map) {
		to.iov_base = fill->map + index * DEVICE_BLOCK;
		if (process_vm_writev(getpid(), &from, 1, &to, 1, 0) == DEVICE_BLOCK)
			return VG_OK;
	}
	int r = vg_write_all(fill->fd, data, DEVICE_BLOCK, (off_t)index * DEVICE_BLOCK);
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

static enum vg_status fill_block(struct fill *fill, struct device_reader *reader, size_t index)
{
	const unsigned char *data;

	enum vg_status status = allocate_block(fill, index);
	if (status || is_there(fill, index))
		return status;
	status = device_reader_load(reader, &fill->blocks[index], &data);
	return status ? status : write_block(fill, index, data);
}

static void *fill_blocks(void *user)
{
	struct device_reader reader;
	struct fill *fill = user;
	size_t index;

	enum vg_status status = device_reader_begin(fill->dir, &reader);
	if (status)
		keep_error(fill, status);
	while (!fill->stop && (index = fill->next++) < fill->count) {
		status = fill_block(fill, &reader, index);
		if (status)
			keep_error(fill, status);
		if (fill->progress)
			*fill->progress += DEVICE_BLOCK;
	}
	device_reader_end(&reader);
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

// Gives the file its size and maps it, so that its pages can be huge. Leaves fill->map NULL if that is impossible, or
// if the kernel does not know MADV_POPULATE_WRITE.
static void map_file(struct fill *fill, uint64_t bytes)
{
	struct stat info;

	if (bytes == 0 || fstat(fill->fd, &info) < 0 ||
	    ((uint64_t)info.st_size < bytes && ftruncate(fill->fd, (off_t)bytes) < 0))
		return;
	char *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fill->fd, 0);
	if (map == MAP_FAILED)
		return;
	madvise(map, bytes, MADV_HUGEPAGE);
	if (madvise(map, DEVICE_BLOCK, MADV_POPULATE_WRITE) == 0 || errno != EINVAL)
		fill->map = map;
	else
		munmap(map, bytes);
}

// Makes the file ready to be written: maps it, or else allocates all of its pages.
static enum vg_status open_file(struct fill *fill, uint64_t bytes)
{
	map_file(fill, bytes);
	if (fill->map || bytes == 0 || fallocate(fill->fd, 0, 0, (off_t)bytes) == 0)
		return VG_OK;
	return fail_room(bytes, errno);
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

	uint64_t bytes = index->memories[memory].bytes;
	enum vg_status status = open_file(&fill, bytes);
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
	if (fill.map)
		munmap(fill.map, bytes);
	if (fill.status)
		return vg_fail(fill.status, fill.error.error.code, "%s", fill.error.text);
	else if (fill.stop)
		return vg_fail(VG_STATE, 0, "stopped while device memory was being read, as asked");
	return fill.status;
}
