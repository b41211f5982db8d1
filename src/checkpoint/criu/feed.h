// Gives files of pages to CRIU: threads read, check and decompress chunks ahead of it. Any thread may feed.
#pragma once
#include "checkpoint/image/files.h"

#include <stdbool.h>

struct feed;
// For all `files` of the image at `path`; both must outlive the feed. Returns 0 or -errno.
int feed_create(const struct image_files *files, const char *path, struct feed **ret_feed);
void feed_destroy(struct feed *feed);
// Writes a file from `input` into the pipe `output`. Chunks whose flag in `without` is true are only checked; NULL:
// write all. Adds the bytes to `progress`, which may be NULL. OK also if the reader closes the pipe. INTEGRITY, SYSTEM.
enum vg_status feed_file(struct feed *feed, const struct image_file *file, const bool *without, int input, int output,
			 _Atomic uint64_t *progress);
