// The files of an image's tree as CRIU reads them through its --stream: threads read, check and decompress them ahead of
// it. One thread calls.
#pragma once
#include "checkpoint/criu/criu.h"
#include "checkpoint/image/files.h"
#include "checkpoint/image/image.h"

struct serve;
// `files`, `dir` and `work` must outlive it. CRIU's socket goes into the work's folder, see
// streamer.h. `progress`: what went to CRIU is added to it; may be NULL. SYSTEM, NO_MEMORY.
enum vg_status serve_begin(const struct image_files *files, const struct image_dir *dir, unsigned tree,
			   const struct criu_work *work, _Atomic uint64_t *progress, struct serve **ret_serve);
// CRIU has ended. INTEGRITY: what it was given is not what was verified; SYSTEM. Takes it.
enum vg_status serve_end(struct serve *serve);
