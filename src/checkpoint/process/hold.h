// An exclusive lock on each process of a tree. The dump, restore or recovery that works on a process has it, and so
// does the CRIU that it has started. The lock ends with the last of these. One thread.
#pragma once
#include "checkpoint/process/tree.h"

// Locks all processes, until tree_free(). Waits at most `timeout_ms`: CRIU may outlive the program that started it.
// BUSY: another program has a lock. DENIED.
enum vg_status hold_tree(struct tree *tree, unsigned timeout_ms);
