// Creates, takes over and removes vGPUs with their ledgers. Main thread only.
#pragma once
#include "daemon/node.h"

// Creates the ledger and adds the vGPU to the list. Returns 0 or -errno.
int vgpu_add(struct node *node, const struct vgpu *wanted, struct vgpu **ret_vgpu);
// Takes over a vGPU and its ledger from an earlier daemon. If the ledger is missing or broken, the vGPU is damaged
// until it has a new ledger (mend.h). Returns 0, or -errno if the ledger cannot be read now.
int vgpu_adopt(struct node *node, const struct vgpu *wanted, struct vgpu **ret_vgpu);
// Takes over ledgers that no state file describes, as ephemeral vGPUs.
void vgpu_adopt_strays(struct node *node);
// Replaces a damaged ledger that no process uses by a new one. Returns 0 or -errno.
int vgpu_renew(struct node *node, struct vgpu *vgpu);
// Removes the vGPU and its ledger's file.
void vgpu_drop(struct node *node, struct vgpu *vgpu);
