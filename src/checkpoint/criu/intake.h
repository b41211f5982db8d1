// Receives the memory pages of processes from CRIU, and writes them into files of the image. Worker threads take one
// chunk at a time: they find zero pages, compress the others, compute the checksum and write. All files of a capture
// use the same workers.
#pragma once
#include "checkpoint/image/files.h"
#include "checkpoint/image/image.h"

#include <pthread.h>

struct intake;
// Creates the workers. They use the options of the draft, which must outlive them. Returns 0 or -errno. The same thread
// must create and destroy an intake.
int intake_create(const struct image_draft *draft, struct intake **ret_intake);
// Frees the intake. Call it after all files have ended.
void intake_destroy(struct intake *intake);
// Records a failure unless an earlier one is recorded, and stops the reading of all files. `after`: how many bytes of
// the file `name` were read. Any thread.
void intake_fail(struct intake *intake, const char *name, uint64_t after, int error);
// Returns the errno of the failure, or 0. *ret_name belongs to the intake. Any thread.
int intake_failure(struct intake *intake, const char **ret_name, uint64_t *ret_after);

// A file that CRIU writes. The thread that reads the file owns this struct until it ends; then the thread that called
// pthread_join() owns it.
struct intake_file {
	struct intake *intake;
	char name[IMAGE_NAME_TEXT];
	int input, output; // descriptors, which the caller opens and closes
	uint64_t raw;	   // bytes that CRIU wrote
	size_t given;	   // number of chunks given to workers
	// Protects the members below while the file is read.
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t bytes;	   // length on the disk
	uint64_t stored;   // bytes of the file on the disk that are not holes
	size_t done, turn; // `done`: how many chunks are written; `turn`: the next chunk to get an offset in the file
	size_t capacity;
	struct image_chunk *chunks; // freed by intake_file_finish()
};
void intake_file_init(struct intake_file *file, struct intake *intake, int input);
void intake_file_finish(struct intake_file *file);
// Adds `length` to the bytes that were read of the file.
void intake_count(struct intake_file *file, size_t length);
// Copies the file from input to output in chunks, until its end or a failure of the intake. Returns 0 or -errno.
int intake_chunks(struct intake_file *file);
