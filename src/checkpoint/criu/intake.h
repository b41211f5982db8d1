// Pages of processes that CRIU writes, on their way onto the disk: a chunk at a time they are examined or packed,
// summed and written, by workers that all files of a capture share.
#pragma once
#include "checkpoint/image/files.h"
#include "checkpoint/image/image.h"

#include <pthread.h>

struct intake;
// The workers, as the draft asks for them; it must outlive them. 0, -ENOMEM or -errno. One thread creates and destroys.
int intake_create(const struct image_draft *draft, struct intake **ret_intake);
// No file may be on its way any more.
void intake_destroy(struct intake *intake);
// Something went wrong, and no file need be read any further. Only the first one counts. `after`: how far `name` had
// come. `error`: errno. Any thread.
void intake_fail(struct intake *intake, const char *name, uint64_t after, int error);
// That one's errno; 0: there is none. Any thread. The name is the intake's.
int intake_failure(struct intake *intake, const char **ret_name, uint64_t *ret_after);

// A file, of the thread that reads it, and of whoever has joined that.
struct intake_file {
	struct intake *intake;
	char name[IMAGE_NAME_TEXT];
	int input, output; // whoever opened them closes them
	uint64_t raw;	   // what CRIU wrote
	size_t given;	   // chunks that went to the workers
	// While it is read, under the lock:
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t bytes;	   // how long it is on the disk
	uint64_t stored;   // how many of them are there
	size_t done, turn; // how many chunks came back, and have their place in the file
	size_t capacity;
	struct image_chunk *chunks; // freed by intake_file_finish()
};
void intake_file_init(struct intake_file *file, struct intake *intake, int input);
void intake_file_finish(struct intake_file *file);
// So many bytes more were read of it.
void intake_count(struct intake_file *file, size_t length);
// From its input to its output, all of it, or up to where intake_fail() was called. 0 or -errno.
int intake_chunks(struct intake_file *file);
