// Sends the memory pages of processes (CRIU's files pages-N.img) from an image to CRIU. Threads read, check and
// decompress chunks before CRIU needs them. Any thread may call feed_file().
#pragma once
#include "checkpoint/image/files.h"

#include <stdbool.h>

struct feed;
// Creates a feed for all `files` of the image at `path`. Both must outlive the feed. Returns 0 or -errno.
int feed_create(const struct image_files *files, const char *path, struct feed **ret_feed);
void feed_destroy(struct feed *feed);
// Reads a file of the image from `input` and writes its contents into the pipe `output`. `without` has a flag for each
// chunk: if it is true, the chunk is checked but not written. `without` may be NULL. Adds the uncompressed lengths of
// all chunks, also of those not written, to `progress`, which may be NULL. Returns VG_OK also if CRIU closes the pipe.
// INTEGRITY, SYSTEM.
enum vg_status feed_file(struct feed *feed, const struct image_file *file, const bool *without, int input, int output,
			 _Atomic uint64_t *progress);
