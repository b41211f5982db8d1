// Creates damaged ledgers again when no process uses them any more. Main thread only.
#pragma once
#include "daemon/node.h"

// Returns whether a search must end before the daemon can decide whether to create the ledger again.
bool mend_is_undecided(struct node *node, struct vgpu *vgpu);
// Creates all damaged ledgers again that no process uses. Returns whether a search for users of such a ledger is in
// progress.
bool mend_all(struct node *node);
