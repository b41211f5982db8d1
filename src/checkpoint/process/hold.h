// Locks each process of a tree exclusively. A dump, restore or recovery has the lock while it works on the process. The
// CRIU process that it starts inherits the lock. The kernel releases the lock when this process and CRIU have exited.
// One thread.
#pragma once
#include "checkpoint/process/tree.h"

// Locks all processes. tree_free() closes the locks' descriptors. Waits at most `timeout_ms` for other programs to
// release their locks: CRIU may have one, and outlive the program that started it. BUSY: another program still has a
// lock. DENIED.
enum vg_status hold_tree(struct tree *tree, unsigned timeout_ms);
