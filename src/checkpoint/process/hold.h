// That only one at a time works on a process: who dumps it, restores it or brings it back holds it, and so does the
// CRIU that he has started. A hold ends with whoever has it. One thread.
#pragma once
#include "checkpoint/process/tree.h"

// All of the tree, until tree_free(), waiting for others at most that long: CRIU may outlive who started it. BUSY:
// somebody still holds one of them. DENIED.
enum vg_status hold_tree(struct tree *tree, unsigned timeout_ms);
