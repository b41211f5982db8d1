// Writes the pages of processes that CRIU sends. Workers, which all files of a capture share, compress or examine, sum
// and write a chunk at a time.
#pragma once
#include "checkpoint/image/files.h"
#include "checkpoint/image/image.h"

#include <pthread.h>

struct intake;
// Creates the workers with the options of the draft, which must outlive them. Returns 0 or -errno. One thread creates
// and destroys.
int intake_create(const struct image_draft *draft, struct intake **ret_intake);
// Call it after all files have ended.
void intake_destroy(struct intake *intake);
// Records the first failure; all files stop reading. `after`: how many bytes of `name` were read. Any thread.
void intake_fail(struct intake *intake, const char *name, uint64_t after, int error);
// Returns the errno of the failure, or 0. The name belongs to the intake. Any thread.
int intake_failure(struct intake *intake, const char **ret_name, uint64_t *ret_after);

// A file. It belongs to the thread that reads it, and later to the thread that joined that one.
struct intake_file {
	struct intake *intake;
	char name[IMAGE_NAME_TEXT];
	int input, output; // their opener closes them
	uint64_t raw;	   // bytes that CRIU wrote
	size_t given;	   // number of chunks given to workers
	// Under the lock while the file is read:
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t bytes;	   // length on the disk
	uint64_t stored;   // bytes of these that are not holes
	size_t done, turn; // number of chunks that are written; that have their offset
	size_t capacity;
	struct image_chunk *chunks; // freed by intake_file_finish()
};
void intake_file_init(struct intake_file *file, struct intake *intake, int input);
void intake_file_finish(struct intake_file *file);
// Counts bytes that were read of the file.
void intake_count(struct intake_file *file, size_t length);
// Copies from input to output, until the end or a failure of the intake. Returns 0 or -errno.
int intake_chunks(struct intake_file *file);
