// Serves the files of a tree to CRIU, which reads them through --stream. Threads read, check and decompress the files
// before CRIU needs them. For one thread.
#pragma once
#include "checkpoint/criu/criu.h"
#include "checkpoint/image/files.h"
#include "checkpoint/image/image.h"

struct serve;
// Starts to listen for CRIU on a socket in the directory of `work`, see streamer.h. `files`, `dir` and `work` must
// outlive `serve`. Adds the bytes that CRIU has got to `progress`, which may be NULL. SYSTEM, NO_MEMORY.
enum vg_status serve_begin(const struct image_files *files, const struct image_dir *dir, unsigned tree,
			   const struct criu_work *work, _Atomic uint64_t *progress, struct serve **ret_serve);
// Ends serving after CRIU has exited, and frees `serve`. INTEGRITY: a file changed after it was checked. SYSTEM.
enum vg_status serve_end(struct serve *serve);
