// Makes images with device memory in packs, without processes. Include in exactly one file per program. One thread.
#pragma once
#include "checkpoint/device/base.h"
#include "checkpoint/device/in.h"
#include "checkpoint/device/out.h"
#include "checkpoint/image/image.h"
#include "checkpoint/image/inspect.h"
#include "image_test.h"

enum { BLOCK = DEVICE_BLOCK };

enum { PATTERN = 128 * 1024 }; // more than 64 KiB, so that LZ4 does not find that the pattern repeats

// Fills a block with bytes that depend on `seed` alone: copies of one random pattern, each with another first word.
// Generating random numbers for the whole block would be too slow with a sanitizer.
static inline void fill_random(unsigned char *block, uint64_t seed)
{
	uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;

	for (size_t i = 0; i < PATTERN; i += 8) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		memcpy(block + i, &state, 8);
	}
	for (size_t at = PATTERN; at < BLOCK; at += PATTERN) {
		memcpy(block + at, block, PATTERN);
		state += at;
		memcpy(block + at, &state, 8);
	}
}

// Fills a block with contents of kind `kind`. 0: zeroes; below 1000: random bytes; from 1000 on: bytes that compress
// well.
static inline void fill_block(unsigned char *block, unsigned kind)
{
	if (kind == 0)
		memset(block, 0, BLOCK);
	else if (kind < 1000)
		fill_random(block, kind);
	else
		for (size_t page = 0; page < BLOCK / 4096; page++)
			memset(block + page * 4096, (int)(kind + page) & 0xff, 4096);
}

// Returns a file without a name that holds blocks of these kinds.
static inline int memory_of(const unsigned *kinds, size_t count)
{
	unsigned char *block = malloc(BLOCK);
	int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	for (size_t i = 0; i < count; i++) {
		fill_block(block, kinds[i]);
		// Blocks of zeroes are not written, so the file has holes there.
		if (kinds[i])
			CHECK_INT(vg_write_all(fd, block, BLOCK, (off_t)i * BLOCK), 0);
	}
	CHECK_INT(ftruncate(fd, (off_t)count * BLOCK), 0);
	free(block);
	return fd;
}

struct made {
	enum vg_status status;
	char text[512];
	struct device_written written;
};

// Makes an image as a dump does. Its device memory has blocks of `kinds`. It copies CRIU's files and the description
// from image(). `given_base` is the path of a base image, or NULL.
static inline struct made make_packs(const char *given_path, const unsigned *kinds, size_t count,
				     const char *given_base, enum vg_compression compression)
{
	// Copy the path, since image() overwrites the buffer of path_of().
	char path[PATH_MAX], base_path[PATH_MAX] = "", *base = given_base ? base_path : NULL;
	struct device_bases bases = {0};
	struct made made = {VG_OK};
	struct image_draft draft;
	struct device_out *out;
	json_t *text, *file;
	char command[2 * PATH_MAX + 64];
	size_t i;

	snprintf(path, sizeof path, "%s", given_path);
	snprintf(base_path, sizeof base_path, "%s", given_base ? given_base : "");
	text = description();
	json_object_del(text, "xxh3");
	made.status = base ? device_bases_open((const char *const *)&base, 1, &bases) : VG_OK;
	if (made.status == VG_OK) {
		CHECK_INT(image_begin(path, &draft), VG_OK);
		draft.compression = compression;
		draft.trees = 1;
		snprintf(command, sizeof command, "cp -r %s/tree-0 %s/", image(), draft.directory);
		CHECK_INT(system(command), 0);
		json_array_foreach(json_object_get(text, "files"), i, file)
			json_array_append(draft.files, file);
		const struct device_source source = {dumped, memory_of(kinds, count), count * (uint64_t)BLOCK};
		made.status = device_out_start(&draft, &source, 1, &bases, NULL, &out);
		if (made.status == VG_OK)
			made.status = device_out_finish(out, text, NULL, &made.written);
		if (made.status == VG_OK)
			made.status = image_commit(&draft, text);
		image_finish(&draft);
	}
	snprintf(made.text, sizeof made.text, "%s", made.status ? vg_last_error()->text : "");
	device_bases_close(&bases);
	json_decref(text);
	return made;
}

static inline void must_make(const char *path, const unsigned *kinds, size_t count, const char *base,
			     enum vg_compression compression, struct device_written *ret_written)
{
	struct made made = make_packs(path, kinds, count, base, compression);

	if (made.status)
		FAIL("%s", made.text);
	if (ret_written)
		*ret_written = made.written;
}

// Reads the only device memory of an image into a file. Returns the descriptor, or -1 with the last error set.
static inline int read_back(const char *path)
{
	int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	struct device_index index = {0};
	struct image_files files = {0};
	json_t *text = NULL;
	struct image_dir dir;

	CHECK(fd >= 0);
	enum vg_status status = image_open(path, &dir);
	if (status == VG_OK)
		status = inspect_read(&dir, &text, &files);
	if (status == VG_OK)
		status = device_index_read(&dir, &files, &index);
	if (status == VG_OK)
		status = device_in_fill(&dir, &index, 0, NULL, fd, NULL, NULL);
	device_index_free(&index);
	image_files_free(&files);
	json_decref(text);
	image_close(&dir);
	if (status) {
		close(fd);
		return -1;
	}
	return fd;
}

static inline void check_holds(const char *path, const unsigned *kinds, size_t count)
{
	unsigned char *wanted = malloc(BLOCK), *found = malloc(BLOCK);
	struct stat info;
	int fd = read_back(path);

	if (fd < 0)
		FAIL("%s", vg_last_error()->text);
	CHECK_INT(fstat(fd, &info), 0);
	CHECK_INT(info.st_size, (off_t)count * BLOCK);
	for (size_t i = 0; i < count; i++) {
		fill_block(wanted, kinds[i]);
		CHECK_INT(vg_read_all(fd, found, BLOCK, (off_t)i * BLOCK), BLOCK);
		if (memcmp(wanted, found, BLOCK) != 0)
			FAIL("%s: block %zu differs", path, i);
	}
	close(fd);
	free(wanted);
	free(found);
}

static inline const char *pack_of(const char *path, unsigned number)
{
	static char paths[4][PATH_MAX + 32];
	static unsigned next;
	char *name = paths[next++ % 4];

	snprintf(name, sizeof *paths, "%s/" DEVICE_PACK_FORMAT, path, number);
	return name;
}

static inline unsigned count_packs(const char *path)
{
	unsigned count = 0;

	while (access(pack_of(path, count), F_OK) == 0)
		count++;
	return count;
}

static inline struct stat stat_of(const char *path)
{
	struct stat info;

	if (stat(path, &info) < 0)
		FAIL("%s: %s", path, strerror(errno));
	return info;
}
