// Makes images without processes: a stand-in for CRIU writes their files as streams. Include in exactly one file per
// program. One thread.
#pragma once
#include "checkpoint/criu/image_tree.h"
#include "checkpoint/data/chunk.h"
#include "checkpoint/image/files.h"
#include "checkpoint/image/image.h"
#include "checkpoint/image/text.h"
#include "checkpoint_test.h"
#include "random.h"

static const struct criu criu = {.path = STREAMING_CRIU, .version = "4.2"};
static struct criu_work work = {0};

enum content { ZERO, RANDOM, TEXT, SPARSE };

static inline void make_file(const char *name, size_t length, enum content content)
{
	char path[PATH_MAX];
	char *data = calloc(1, length + 8);

	CHECK(data != NULL);
	snprintf(path, sizeof path, "%s/%s", path_of("source"), name);
	for (size_t at = 0; at < length && content != ZERO; at += 8) {
		uint64_t word = content == TEXT ? at / 512 : next_random();
		// The memory has data in every third page of every second chunk.
		if (content == SPARSE && (at / 4096 % 3 || at / CHUNK_BYTES % 2))
			word = 0;
		memcpy(data + at, &word, 8);
	}
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0);
	CHECK_INT(vg_write_all(fd, data, length, -1), 0);
	close(fd);
	free(data);
}

static inline void empty(const char *name)
{
	char command[PATH_MAX + 64];

	snprintf(command, sizeof command, "rm -rf %s; mkdir %s", path_of(name), path_of(name));
	CHECK_INT(system(command), 0);
	setenv("SOURCE", path_of("source"), 1);
	setenv("TARGET", path_of("target"), 1);
	unsetenv("TRICK");
}

static inline void make_few(void)
{
	empty("source");
	make_file("pages-1.img", CHUNK_BYTES + 5000, SPARSE);
	make_file("pages-2.img", 10000, RANDOM);
	make_file("core-1.img", 700, RANDOM);
}

// Writes a draft, which is an image that is not complete yet. The caller may commit it, which renames it to `path`, and
// must call image_finish() in any case.
static inline enum vg_status write_image(const char *path, enum vg_compression compression, struct image_draft *draft)
{
	enum vg_status status = image_begin(path, draft);

	draft->compression = compression;
	draft->threads = 3;
	return status ? status : image_dump_tree(draft, 0, &criu, &work, getpid());
}

static inline void make_image(const char *path, enum vg_compression compression)
{
	struct image_draft draft;
	json_t *description = json_pack("{s:i}", "version", IMAGE_VERSION);

	if (write_image(path, compression, &draft) || image_commit(&draft, description))
		FAIL("%s", vg_last_error()->text);
	image_finish(&draft);
	json_decref(description);
}

static inline enum vg_status verify(const char *path)
{
	json_t *description = NULL;
	struct image_dir dir;

	enum vg_status status = image_open(path, &dir);
	if (status)
		return status;
	status = image_read(&dir, &description);
	if (status == VG_OK)
		status = image_verify(&dir, description, 3, NULL, NULL);
	json_decref(description);
	image_close(&dir);
	return status;
}

static bool made;

static inline enum vg_status restore_from(const struct image_dir *dir)
{
	json_t *description;

	enum vg_status status = image_read(dir, &description);
	if (status)
		return status;
	status = image_restore_tree(dir, description, 0, &criu, &work, NULL, &made);
	json_decref(description);
	return status;
}

static inline enum vg_status restore(const char *path)
{
	struct image_dir dir;

	enum vg_status status = image_open(path, &dir);
	if (status)
		return status;
	status = restore_from(&dir);
	image_close(&dir);
	return status;
}
