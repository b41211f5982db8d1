// Gives the files of a tree to CRIU, which reads them through --stream: threads read, check and decompress ahead of it.
// One thread calls.
#pragma once
#include "checkpoint/criu/criu.h"
#include "checkpoint/image/files.h"
#include "checkpoint/image/image.h"

struct serve;
// `files`, `dir` and `work` must outlive it. Listens in the directory of `work`, see streamer.h. Adds the bytes that
// CRIU got to `progress`, which may be NULL. SYSTEM, NO_MEMORY.
enum vg_status serve_begin(const struct image_files *files, const struct image_dir *dir, unsigned tree,
			   const struct criu_work *work, _Atomic uint64_t *progress, struct serve **ret_serve);
// Call it after CRIU has exited. Frees `serve`. INTEGRITY: a file changed after it was checked; SYSTEM.
enum vg_status serve_end(struct serve *serve);
