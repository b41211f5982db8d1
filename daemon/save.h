// Writes the state file to the disk, and answers requests when their changes are on the disk. Main thread only.
#pragma once
#include <jansson.h>

#include "daemon/node.h"

struct change {
	struct change *next;
	uint64_t number;
	// Called when the change is on disk, or cannot be written: `error` is 0 or -errno. Returns the answer to the
	// request. After an error, undoes the parts of the change that must not remain.
	json_t *(*finish)(struct node *node, const struct change *change, int error);
	struct vgpu *vgpu; // the vGPU, which no other request changes or removes until finish(); NULL: it was removed
	struct turn_terms terms; // for the verb `set`: the terms before the change
	size_t device;		 // `drain`: the GPU
	bool raises;		 // for the verb `set`: raise the limit in the ledger when the change is on disk
};

// Sets the function that calls finish() and sends its answer.
void save_set_answer(void (*answer)(struct node *node, const struct change *change, int error));
// Begins to write the state. Returns 0 or -errno.
int save_state(struct node *node);
// Begins to write the state, which contains the change already. Returns the answer if the change needs no write, or the
// write cannot begin. Otherwise returns NULL, and node->change answers the request later.
json_t *save_change(struct node *node, const struct change *change);
bool save_is_writing(void);
