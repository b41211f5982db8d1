// Trees of processes between CRIU and an image: CRIU's files go through sockets in a temporary directory. One thread.
#pragma once
#include "checkpoint/criu/criu.h"
#include "checkpoint/image/image.h"

// Has CRIU write the tree of `root` into the draft, as tree number `tree` (from 0 on). Ignores the directory of `work`.
// Returns what criu_dump() returns, and SYSTEM if the disk is full.
enum vg_status image_dump_tree(struct image_draft *draft, unsigned tree, const struct criu *criu,
			       const struct criu_work *work, pid_t root);
// Has CRIU restore tree number `tree`. Ignores the directory of `work`. Adds the bytes that CRIU has read to
// `progress`, which may be NULL. Returns what criu_restore() returns, and INTEGRITY if a chunk is damaged: CRIU did not
// get it, and has ended the processes that it had made. *ret_made: the processes exist and are stopped. That can be
// true with INTEGRITY, too, if a file changed after CRIU had read it.
enum vg_status image_restore_tree(const struct image_dir *dir, const json_t *description, unsigned tree,
				  const struct criu *criu, const struct criu_work *work, _Atomic uint64_t *progress,
				  bool *ret_made);
