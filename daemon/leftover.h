// Limits the disk space of ledgers. Users can write to their ledgers, so they can make one as large as the file system.
// A ledger that has grown is truncated, and its vGPU is removed. A removed ledger that a process still has open can
// grow, too. So the daemon keeps such a ledger open until no other process has it open, and counts it as one of the
// owner's vGPUs. Main thread only.
#pragma once
#include "daemon/node.h"

// Truncates the vGPU's ledger if it has grown.
void leftover_cut(const struct node *node, const struct vgpu *vgpu);
// Opens a ledger before its removal. Returns -1 if the daemon need not keep it open.
int leftover_open(const struct node *node, const struct vgpu *vgpu);
// Takes over `fd`, which may be -1. Keeps it open after the ledger's removal while another process has the ledger open;
// else closes it.
void leftover_keep(int fd, uid_t owner);
// Checks all kept ledgers: truncates them, and closes those that no other process has open.
void leftover_check_all(void);
bool leftover_any(void);
