// Verifies an image. Checks that every file is listed. Threads then read all files, a chunk at a time, and compare
// checksums.
#include "base/descriptor.h"
#include "base/status.h"
#include "checkpoint/data/pool.h"
#include "checkpoint/data/sum.h"
#include "checkpoint/image/chunk.h"
#include "checkpoint/image/device_index.h"
#include "checkpoint/image/directory.h"
#include "checkpoint/image/files.h"
#include "checkpoint/image/image.h"
#include "checkpoint/image/inspect.h"
#include "core/object.h"
#include "virgate/image.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

// A unit of work: a chunk, a whole file without chunks, or a block of device memory.
struct unit {
	const struct image_file *file;
	size_t index;
	uint64_t offset;
	const struct device_block *block; // NULL: the unit is not a block
};

struct verification {
	const struct image_files *files;
	const char *path;
	struct phase *phase;
	bool pages; // true: also read the pages of processes and the device memory
	struct device_index device;
	const bool *trusted; // indexed by pack: true if the pack's blocks were checked before; NULL: read all packs
	size_t seen;
	int directory;
	size_t count;
	struct unit *units;
	_Atomic size_t next;
	_Atomic bool stop;
	pthread_mutex_t lock; // protects the members below
	pthread_cond_t done;
	unsigned busy;
	enum vg_status status; // the first failure
	int code;
	char text[512];
};

// Keeps the last error of this thread as the error of the verification, unless an earlier failure is kept.
static void keep_error(struct verification *v, enum vg_status status)
{
	const struct vg_error *error = vg_last_error();

	if (status == VG_OK)
		return;
	pthread_mutex_lock(&v->lock);
	if (!v->status) {
		v->status = status;
		v->code = error->code;
		strncpy(v->text, error->text, sizeof v->text - 1);
	}
	pthread_mutex_unlock(&v->lock);
	v->stop = true;
}

// ---- check that the files are those in the list --------------------------------------------------------

static int check_listed(int directory, const char *name, void *user)
{
	struct verification *v = user;
	struct stat info;

	const struct image_file *file = image_files_find(v->files, name);
	if (fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) < 0)
		v->status = vg_fail(VG_SYSTEM, errno, "%s/%s: %s", v->path, name, strerror(errno));
	else if (!file || !S_ISREG(info.st_mode))
		v->status =
			vg_fail(VG_INTEGRITY, 0, "%s: %s is %s", v->path, name, file ? "no file" : "not of this image");
	else if ((uint64_t)info.st_size != file->bytes)
		v->status = vg_fail(VG_INTEGRITY, 0, "%s/%s is damaged: it has %llu bytes, not %llu", v->path, name,
				    (unsigned long long)info.st_size, (unsigned long long)file->bytes);
	v->seen++;
	return v->status ? 1 : 0;
}

static enum vg_status fail_missing(const struct verification *v)
{
	size_t i = 0;

	while (i + 1 < v->files->count &&
	       faccessat(v->directory, v->files->files[i].name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		i++;
	return vg_fail(VG_INTEGRITY, 0, "%s lacks %zu of its %zu files: first %s", v->path, v->files->count - v->seen,
		       v->files->count, v->files->files[i].name);
}

static enum vg_status look_at_all(struct verification *v)
{
	char name[IMAGE_NAME];

	int r = image_for_files(v->directory, check_listed, v, name);
	if (r < 0)
		return vg_fail(VG_SYSTEM, -r, "%s/%s: %s", v->path, name, strerror(-r));
	return v->status || v->seen == v->files->count ? v->status : fail_missing(v);
}

// ---- check that the contents are unchanged -------------------------------------------------------------

static size_t units_of(const struct verification *v, const struct image_file *file)
{
	if (file->is_pack)
		return 0;
	return !file->chunk_bytes ? 1 : v->pages ? file->chunk_count : 0;
}

static bool is_read(const struct verification *v, const struct device_block *block)
{
	return v->pages && block->codec != DEVICE_ZERO && !(v->trusted && v->trusted[block->pack]);
}

static int make_units(struct verification *v)
{
	const struct image_files *files = v->files;

	for (size_t i = 0; i < files->count; i++)
		v->count += units_of(v, &files->files[i]);
	for (size_t i = 0; i < v->device.block_count; i++)
		v->count += is_read(v, &v->device.blocks[i]);
	v->units = malloc((v->count + 1) * sizeof *v->units);
	struct unit *unit = v->units;
	for (size_t i = 0; unit && i < files->count; i++) {
		const struct image_file *file = &files->files[i];
		uint64_t offset = 0;
		for (size_t k = 0; k < units_of(v, file); k++) {
			*unit++ = (struct unit){.file = file, .index = k, .offset = offset};
			if (file->chunk_bytes)
				offset += file->compression ? file->chunks[k].stored : file->chunk_bytes;
		}
	}
	for (size_t i = 0; i < v->device.block_count && unit; i++)
		if (is_read(v, &v->device.blocks[i]))
			*unit++ = (struct unit){.file = NULL, .block = &v->device.blocks[i]};
	return v->units ? 0 : -ENOMEM;
}

static enum vg_status verify_whole(struct verification *v, int fd, const struct image_file *file)
{
	char wanted[IMAGE_SUM_TEXT], found[IMAGE_SUM_TEXT];
	uint64_t bytes, sum;

	int r = sum_file(fd, &bytes, &sum);
	if (r)
		return vg_fail(VG_SYSTEM, -r, "%s/%s: %s", v->path, file->name, strerror(-r));
	image_sum_format(file->sum, wanted);
	image_sum_format(sum, found);
	if (bytes != file->bytes || sum != file->sum)
		return vg_fail(VG_INTEGRITY, 0, "%s/%s is damaged: it has checksum %s, not %s", v->path, file->name,
			       found, wanted);
	return VG_OK;
}

static enum vg_status verify_block(struct verification *v, const struct device_block *block, unsigned char *buffer)
{
	char name[32];

	snprintf(name, sizeof name, DEVICE_PACK_FORMAT, (unsigned)block->pack);
	_cleanup_close_ int fd = image_open_file(v->directory, name);
	int r = fd < 0 ? fd : device_block_load(fd, block, buffer);
	return r ? device_block_fail(r, v->path, block) : VG_OK;
}

static enum vg_status verify_unit(struct verification *v, const struct unit *unit, unsigned char *buffer)
{
	const struct image_file *file = unit->file;
	uint64_t sum = 0;

	if (unit->block)
		return verify_block(v, unit->block, buffer);
	_cleanup_close_ int fd = image_open_file(v->directory, file->name);
	if (fd < 0)
		return vg_fail(VG_SYSTEM, -fd, "%s/%s: %s", v->path, file->name, strerror(-fd));
	if (!file->chunk_bytes)
		return verify_whole(v, fd, file);
	int r = image_chunk_load(fd, file, unit->index, unit->offset, buffer, &sum);
	return r ? image_chunk_fail(r, v->path, file, unit->index, unit->offset, sum) : VG_OK;
}

static size_t bytes_of(const struct unit *unit)
{
	const struct image_file *file = unit->file;

	if (unit->block)
		return unit->block->length;
	return !file->chunk_bytes  ? file->bytes
	       : file->compression ? file->chunks[unit->index].stored
				   : image_chunk_length(file, unit->index);
}

static void verify_next(unsigned number, void *user)
{
	struct verification *v = user;
	size_t chunk = image_files_largest_chunk(v->files), index;
	size_t most = chunk_map_bytes(chunk) + chunk + 1;
	unsigned char *buffer = malloc(most > DEVICE_STORED_MOST ? most : DEVICE_STORED_MOST);

	(void)number;
	if (!buffer)
		keep_error(v, vg_fail(VG_NO_MEMORY, 0, "no memory for a chunk of %zu bytes", chunk));
	while (!v->stop && (index = v->next++) < v->count) {
		keep_error(v, verify_unit(v, &v->units[index], buffer));
		if (v->phase)
			v->phase->bytes += bytes_of(&v->units[index]);
	}
	free(buffer);
	pthread_mutex_lock(&v->lock);
	v->busy--;
	pthread_cond_signal(&v->done);
	pthread_mutex_unlock(&v->lock);
}

// Waits until all threads are done, and reports the progress.
static void wait_for_all(struct verification *v)
{
	pthread_mutex_lock(&v->lock);
	while (v->busy > 0) {
		struct timespec until = phase_next_tick();
		pthread_cond_timedwait(&v->done, &v->lock, &until);
		if (!v->phase)
			continue;
		pthread_mutex_unlock(&v->lock);
		phase_tick(v->phase);
		if (v->phase->stop)
			v->stop = true;
		pthread_mutex_lock(&v->lock);
	}
	pthread_mutex_unlock(&v->lock);
}

static enum vg_status read_all(struct verification *v, unsigned threads)
{
	struct pool *pool = NULL;

	int r = make_units(v);
	v->busy = pool_threads(threads);
	if (r == 0)
		r = pool_create(v->busy, verify_next, &pool);
	if (r)
		return vg_fail(r == -ENOMEM ? VG_NO_MEMORY : VG_SYSTEM, -r, "%s: %s", v->path, strerror(-r));
	for (unsigned i = v->busy; i > 0; i--)
		pool_give(pool, v);
	wait_for_all(v);
	pool_destroy(pool);
	if (v->status)
		return vg_fail(v->status, v->code, "%s", v->text);
	if (v->stop)
		return vg_fail(VG_STATE, 0, "stopped, as asked, before all of %s was read", v->path);
	return VG_OK;
}

static uint64_t bytes_to_read(const struct verification *v)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < v->files->count; i++)
		if (units_of(v, &v->files->files[i]) > 0)
			bytes += v->files->files[i].bytes;
	for (size_t i = 0; i < v->device.block_count; i++)
		bytes += is_read(v, &v->device.blocks[i]) ? v->device.blocks[i].length : 0;
	return bytes;
}

static enum vg_status verify_files(struct verification *v, const json_t *description, unsigned threads,
				   struct image_sizes *ret_sizes)
{
	struct image_files files;

	enum vg_status status = image_files_read(description, v->path, &files);
	if (status)
		return status;
	v->files = &files;
	pthread_mutex_init(&v->lock, NULL);
	pthread_cond_init(&v->done, NULL);
	status = look_at_all(v);
	if (status)
		goto finish;
	status = device_index_read(&(struct image_dir){v->directory, v->path}, &files, &v->device);
	if (v->phase)
		v->phase->total = bytes_to_read(v);
	if (status)
		goto finish;
	status = read_all(v, threads);
	if (status)
		goto finish;
	if (ret_sizes)
		*ret_sizes = (struct image_sizes){.raw = files.raw, .stored = files.stored};
finish:
	free(v->units);
	device_index_free(&v->device);
	pthread_cond_destroy(&v->done);
	pthread_mutex_destroy(&v->lock);
	image_files_free(&files);
	return status;
}

enum vg_status image_verify(const struct image_dir *dir, const json_t *description, unsigned threads,
			    struct phase *phase, struct image_sizes *ret_sizes)
{
	struct verification v = {.path = dir->path, .directory = dir->fd, .phase = phase, .pages = true};

	return verify_files(&v, description, threads, ret_sizes);
}

enum vg_status image_verify_arrival(const struct image_dir *dir, const json_t *description, const bool *trusted,
				    struct phase *phase)
{
	struct verification v = {
		.path = dir->path, .directory = dir->fd, .phase = phase, .pages = true, .trusted = trusted};

	return verify_files(&v, description, 0, NULL);
}

enum vg_status image_check(const struct image_dir *dir, const json_t *description, struct phase *phase,
			   struct image_sizes *ret_sizes)
{
	struct verification v = {.path = dir->path, .directory = dir->fd, .phase = phase};

	return verify_files(&v, description, 1, ret_sizes);
}

enum vg_status vg_image_verify(const char *dir, const struct vg_image_verify_options *options)
{
	VG_ENTRY();
	struct vg_checkpoint_result result = {0};
	struct vg_image_verify_options given;
	struct image_dir image = {.fd = -1};
	json_t *description = NULL;

	CORE_NEEDED(dir);
	CORE_OPTIONS(given, options);
	struct phase phase = {.progress = given.progress, .user = given.user, .result = &result};
	enum vg_status status = image_check_threads(given.threads);
	if (status)
		goto finish;
	status = phase_begin(&phase, VG_CHECKPOINT_VERIFY);
	if (status)
		goto finish;
	status = image_open(dir, &image);
	if (status)
		goto finish;
	status = inspect_read(&image, &description, NULL);
	if (status)
		goto finish;
	status = image_verify(&image, description, given.threads, &phase, NULL);
finish:
	phase_end(&phase);
	json_decref(description);
	image_close(&image);
	return status;
}
