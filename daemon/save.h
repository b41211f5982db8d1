// Writes the state file, and answers requests once their change is on disk. One thread.
#pragma once
#include "daemon/request.h"

struct change {
	struct change *next;
	uint64_t number;
	// The answer. `error`: 0, or -errno if the change is not on disk: it undoes what must not stay then.
	json_t *(*finish)(struct node *node, const struct change *change, int error);
	struct vgpu *vgpu; // nobody else changes or removes it until then; NULL: it was removed
	struct turn_terms terms; // set: as they were before
	bool raises;		 // set: the limit is raised when the change is on disk
};

// Writes the state, in which the change stands already, and answers the request with finish() afterwards. The answer, if
// the change needs no disk or the write cannot begin; else NULL, and the node's `change` is it.
json_t *save_change(const struct request *request, const struct change *change);
// Waits until the write in progress has ended.
void save_finish(struct node *node);
