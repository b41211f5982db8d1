// The disk space of ledgers. Users can write to their ledgers, so they can make one as large as the file system. A
// ledger that has grown is cut, and its vGPU is removed. A removed ledger that a process still has open can grow, too:
// the daemon keeps it open, and counts it as one of the owner's vGPUs, until no other process has it open. Main
// thread only.
#pragma once
#include "daemon/node.h"

// Cuts a ledger that has grown.
void leftover_cut(const struct node *node, const struct vgpu *vgpu);
// Opens a ledger that is about to be removed. Returns -1 if it need not be kept.
int leftover_open(const struct node *node, const struct vgpu *vgpu);
// Keeps the descriptor after the removal, if another process has the ledger open; else closes it. Takes `fd`, -1: none.
void leftover_keep(int fd, uid_t owner);
// Looks at all kept ledgers: cuts them, or closes those that no other process has open.
void leftover_check_all(void);
bool leftover_any(void);
