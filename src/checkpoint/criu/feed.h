// Chunks of pages on their way to CRIU: threads read, check and decompress them
// ahead of it. Any thread may feed.
#pragma once
#include "checkpoint/image/files.h"

#include <stdbool.h>

struct feed;
// For any of `files`, at `path`; both must outlive it. 0 or -errno.
int feed_create(const struct image_files *files, const char *path, struct feed **ret_feed);
void feed_destroy(struct feed *feed);
// Puts the file, which `input` is, into the pipe `output`, but for the chunks
// that `without`, one flag each, says: those are looked at only; NULL: all go.
// What went or was looked at is added to `progress`, where that is not NULL. OK
// too when nobody reads any more. INTEGRITY, SYSTEM.
enum vg_status feed_file(struct feed *feed, const struct image_file *file, const bool *without, int input, int output,
			 _Atomic uint64_t *progress);
