// Compares a ledger with what the daemon knows of it. Main thread only.
#pragma once
#include "daemon/node.h"

// Marks the vGPU as damaged if its ledger was removed, resized or overwritten.
void damage_check(struct node *node, struct vgpu *vgpu);
