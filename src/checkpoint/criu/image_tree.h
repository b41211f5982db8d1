// Moves a process tree between CRIU and an image. CRIU's files go through sockets in a temporary directory. One thread.
#pragma once
#include "checkpoint/criu/criu.h"
#include "checkpoint/image/image.h"

// Has CRIU dump the tree of `root` into the draft, as tree number `tree` (from 0). Ignores the member `directory` of
// `work`. Returns the errors of criu_dump(), and SYSTEM if the disk is full.
enum vg_status image_dump_tree(struct image_draft *draft, unsigned tree, const struct criu *criu,
			       const struct criu_work *work, pid_t root);
// Has CRIU restore tree number `tree`. Ignores the member `directory` of `work`. Adds the bytes that CRIU has read to
// `progress`, which may be NULL. Returns the errors of criu_restore(), and INTEGRITY if a chunk is damaged. CRIU does
// not get a damaged chunk, and ends the processes that it has restored so far. *ret_made: true if the processes exist
// and are stopped. It can be true also with INTEGRITY, if a file changed after CRIU had read it.
enum vg_status image_restore_tree(const struct image_dir *dir, const json_t *description, unsigned tree,
				  const struct criu *criu, const struct criu_work *work, _Atomic uint64_t *progress,
				  bool *ret_made);
