// Creates damaged ledgers again when no process uses them any more. Main thread only.
#pragma once
#include "daemon/node.h"

// Returns whether a search must end before it is decided if the ledger is created again.
bool mend_is_undecided(struct node *node, struct vgpu *vgpu);
// Creates all ledgers again that no process uses. Returns whether a search for users of one is in progress.
bool mend_all(struct node *node);
